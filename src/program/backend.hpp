// Backend: the weights of a Program, resident for one kind of executor. Executor: runs it over them and its own caches.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fourfold/program.hpp"
#include "fourfold/status.hpp"
#include "program/random_bytes.hpp"

namespace fourfold {

// Where weight bytes come from: a checkpoint, or a generator for a named shape. Thread-safe.
class WeightBytes {
 public:
  virtual ~WeightBytes() = default;
  // Fills `out` with the tensor's bytes [offset, offset + out.size()), in the file's own layout (row by row).
  virtual status read(const TensorSpec& tensor, std::uint64_t offset, std::span<std::byte> out) const = 0;
  // How the tensor's bytes are made, where they are random: a device makes them itself.
  virtual std::optional<RandomBytes> random(const TensorSpec&) const { return {}; }
};

struct PlanOptions {
  int context = 0;               // positions the caches hold
  int batch = 512;               // most tokens of one forward
  Storage cache = Storage::f16;  // keys and values: f32, f16, bf16, fp8 or q8_0
  bool debug = false;            // every Value keeps its own place, readable with value()
  int page = 64;                 // positions of a cache page: 1, 2, 4 .. 256
  std::string executor{};        // of a backend that has several: stream, graph, persistent
  int grid = 0;                  // blocks of threads of a persistent kernel; 0: as many as suit the device
};

// How an executor that decodes by itself chooses ids: the best, or, at a temperature, one drawn from what the filters
// leave, in the order of SamplingOptions.
struct Choice {
  float temperature = 0;  // 0: the largest logit, the lowest id among equals
  int top_k = 0;          // 0: all
  float top_p = 1, min_p = 0;
  std::uint64_t seed = 0;
  friend bool operator==(const Choice&, const Choice&) = default;
};

class Executor {
 public:
  virtual ~Executor() = default;

  // Runs the program on ids at positions position, position + 1, ...; keys and values enter the caches. Writes float32
  // logits [wanted, vocab] of the last `wanted` ids. The Session has checked: 1 <= ids.size() <= batch, position +
  // ids.size() <= context, every id within the vocabulary. `position` follows on what the caches hold. Not ok: nothing
  // was evaluated.
  virtual status forward(std::span<const int> ids, int position, int wanted, float* logits) = 0;

  // Where the executor chooses ids itself: evaluates `id` at `position`, chooses the next id, evaluates that, and so on
  // until `ids` is full; the last one is chosen but not evaluated. The Session has checked that it decodes so, and that
  // the positions fit. Not ok: nothing was evaluated.
  virtual bool decodes(const Choice&) const { return false; }
  virtual status decode(int, int, const Choice&, std::span<int>) { return {Code::unsupported, "decode"}; }

  // Forgets all from `position` on. What windows gave back and running states went through is gone: returns the
  // position, at most the one asked for, at which caches and states now stand.
  virtual int rewind(int position) = 0;
  // An independent executor at the same position; it shares the pages of the caches until one of both writes to them.
  virtual result<std::unique_ptr<Executor>> fork() const = 0;
  virtual std::size_t cache_bytes() const = 0;  // of caches and states, held
  // The resident weights where they lie in one stretch; else nothing.
  virtual std::span<const std::byte> weights() const { return {}; }

  // Running states of all layers after the last forward, Program::state_numbers() floats in the order of
  // Program::states. A forward at position 0 starts from states of 0, any other from what the last one left.
  virtual void read_states(std::span<float> out) const = 0;
  virtual void write_states(std::span<const float> states) = 0;

  // For files. A row is one position of one cache in an order that no build changes: of each kv head the key, then the
  // value, little-endian, stored as `row_format()` says ("f16", "q8_0", "f64").
  virtual std::string_view row_format() const = 0;
  virtual std::size_t row_bytes(int cache) const = 0;
  virtual void read_rows(int cache, int first, int count, std::byte* out) const = 0;
  // Stands at `position`, with room for the rows it needs to go on (the last `window` of a cache that has one), which
  // are still to be written, and so are the states.
  virtual status jump(int position) = 0;
  virtual void write_rows(int cache, int first, int count, const std::byte* in) = 0;

  // Fills the caches up to `positions` and the running states with random values of unit scale (bench at depth).
  virtual status randomize_cache(int positions, std::uint64_t seed) = 0;

  // Of the last forward of a debug plan: a Value [tokens, width]. Key and value of a position as the cache holds them,
  // head_dim and values() floats; of a cache of keys only, the key.
  virtual const float* value(Value v) const = 0;
  virtual void cached(int cache, int position, int head, float* key, float* value) const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;          // "team, 2 threads, avx512"
  virtual std::size_t weight_bytes() const = 0;  // resident
  // unsupported: lists every unmet requirement, one a line.
  virtual result<std::unique_ptr<Executor>> plan(const PlanOptions& options) = 0;
};

struct BackendOptions {
  int device = 0;                          // of those that compute with one
  int threads = 0;                         // 0: the physical cores this process may use
  bool f32 = false;                        // float32 activations everywhere
  std::function<void(double)> progress{};  // called with the fraction of weights loaded, from the loading thread
};

}  // namespace fourfold
