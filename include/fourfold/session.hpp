// Model and Session: load a file, evaluate tokens, generate text.
//
//   auto model = fourfold::load("SmolLM2-135M-Instruct.Q4_1.gguf").value();
//   auto chat = model.session({.context = 4096}).value();
//   auto answer = chat.generate("The capital of France is", {.max_tokens = 32});
//   for (std::string_view piece : answer) std::cout << piece;
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/export.hpp"
#include "fourfold/program.hpp"
#include "fourfold/sampling.hpp"
#include "fourfold/status.hpp"

namespace fourfold {

class Checkpoint;
class Executor;
class Model;
class Session;
class Tokenizer;

struct SessionOptions {
  int context = 0;                         // positions; 0: what the model was made for, at most 8192
  std::string executor = "team";           // team, reference (double) or reference-f32; with CUDA: graph, stream
  int device = 0;                          // which one, of those executors that compute on one
  int threads = 0;                         // 0: the physical cores this process may use
  bool f32 = false;                        // float32 activations and, unless `cache` says otherwise, caches
  std::optional<Storage> cache{};          // keys and values: f32, f16 (the default), bf16, fp8 or q8_0
  int batch = 512;                         // most tokens evaluated at once
  int page = 64;                           // positions of a page of the caches: 1, 2, 4 .. 256; less than 64 is slower
  bool debug = false;                      // every Value stays readable (for check)
  std::function<void(double)> progress{};  // fraction of weights loaded
};

struct GenerateOptions {
  int max_tokens = -1;  // -1: until the model ends its text, or the context is full
  SamplingOptions sampling{};
  bool ignore_eos = false;
  std::vector<std::string> stop{};            // ends before the first of these in the text
  bool special = false;                       // control tokens appear in the text
  const std::atomic<bool>* cancel = nullptr;  // looked at between tokens and between batches of a prompt
};

enum class Finish { running, eos, length, context, stop, cancelled, error };
FOURFOLD_API std::string_view name(Finish finish);  // "eos", "length", ...

// Text of one generation, as it comes: an input range of pieces of whole UTF-8 characters. The Session must outlive it.
class FOURFOLD_API Generation {
 public:
  Generation(Generation&&) noexcept;
  Generation& operator=(Generation&&) noexcept;
  ~Generation();

  // Evaluates and samples one more token; the text it completes (perhaps none yet), or nothing at the end.
  std::optional<std::string_view> next();

  std::span<const int> ids() const;  // generated so far
  Finish finish() const;
  const status& error() const;  // not ok when finish() is Finish::error, or the prompt could not be evaluated

  struct Iterator {
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    Generation* generation = nullptr;
    std::optional<std::string_view> piece{};
    std::string_view operator*() const { return *piece; }
    Iterator& operator++() {
      piece = generation->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.piece; }
  };
  Iterator begin() { return Iterator{this, next()}; }
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class Session;
  struct State;
  explicit Generation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// One sequence of tokens: a planned Program with its caches. Used by one thread at a time.
class FOURFOLD_API Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  std::span<const int> ids() const;  // evaluated so far; their count is the position
  int position() const { return static_cast<int>(ids().size()); }
  int context() const;
  std::string executor() const;      // "team, 2 threads, avx512"
  std::size_t weight_bytes() const;  // resident
  std::size_t cache_bytes() const;   // of the pages it holds; forks hold them together
  Storage cache() const;
  const Model& model() const;

  // Appends ids: keys and values enter the caches, and the logits of the last `wanted` ids are kept.
  // invalid_argument: an id outside the vocabulary, no ids, wanted above their number. resource: they do not fit the
  // context; nothing is evaluated then, and the message says both lengths. cancelled: stopped between batches.
  status eval(std::span<const int> ids, int wanted = 1, const std::atomic<bool>* cancel = nullptr);
  // [vocab] of wanted row i of the last eval; empty where there is none, or the session has moved on since.
  std::span<const float> logits(int i = 0) const;

  // Where the executor chooses ids by itself, without the host in between: evaluates `id`, chooses the next one, and so
  // on until `out` is full; the last one is chosen but not evaluated. Its random numbers are others than those of a
  // generation on the host. Errors as for eval; unsupported where decodes() is false: what options ask for differs
  // from the best, a temperature, top-k, top-p and min-p, or the executor knows less than those.
  bool decodes(const SamplingOptions& how = {.temperature = 0}) const;
  status decode(int id, std::span<int> out, const SamplingOptions& how = {.temperature = 0});

  // Forgets all but the first `position` ids. Back to the start of the last batch this costs little; what windows gave
  // back and running states went through before that is evaluated again. unsupported: filled positions would be.
  status rewind(int position);
  // Evaluates a prompt and generates from it. An empty prompt goes on from the last eval's logits.
  Generation generate(std::span<const int> prompt, const GenerateOptions& options = {});
  Generation generate(std::string_view prompt, const GenerateOptions& options = {});

  // An independent Session at the same position, sharing the weights, and every page of the caches until one of both
  // writes to it: draft tokens can be tried in a fork, and so many of them be evaluated here as are right.
  result<Session> fork() const;
  // Writes ids, caches and states to a file (replaced whole or not at all), and reads them back, in this build or a
  // later one. restore refuses a file of another model or cache storage by name, and one that is cut or damaged; save
  // refuses what is no file, such as a device.
  status save(const std::string& path) const;
  status restore(const std::string& path);

  // Fills the caches up to `positions` with random values and ids 0: for timing at depth.
  status fill(int positions, std::uint64_t seed = 1);

 private:
  friend class Model;
  friend class Generation;
  friend Executor& executor_of(Session& session);  // for check and benchmarks, inside the library
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct TokenizeOptions {
  std::optional<bool> bos{};  // put the beginning-of-text id in front; default: as the model's file says
  bool special = false;       // control tokens spelled out in the text become their ids
};

// A model's file: hyper-parameters, Program, vocabulary. Weights are read when the first Session asks for them, and
// shared by Sessions of the same executor, threads and precision. Cheap to copy; safe to use from several threads.
class FOURFOLD_API Model {
 public:
  const Program& program() const;
  const std::string& path() const;   // or the named shape's name
  std::uint64_t file_bytes() const;  // 0 for a named shape
  int vocab() const { return program().vocab; }
  int context() const { return program().context; }  // the model was made for

  // unsupported when the file holds no vocabulary, or one that cannot be used: the status says why.
  result<std::vector<int>> tokenize(std::string_view text, const TokenizeOptions& options = {}) const;
  // The bytes behind ids: not always whole characters.
  result<std::string> detokenize(std::span<const int> ids, bool special = false) const;
  const result<Tokenizer>& tokenizer() const;
  result<std::string> chat_template() const;  // its source text

  result<Session> session(const SessionOptions& options = {}) const;

  // The same file's model with a changed Program: another Walk or Score in its Attend steps, say. Weights are loaded
  // again. What the change makes of the Program is checked as far as plan() checks.
  Model with(const std::function<void(Program&)>& change) const;

  struct State;
  explicit Model(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

// Opens a .gguf (or its first shard) or a folder of config.json and safetensors, and checks all but the weights' bytes.
FOURFOLD_API result<Model> load(const std::string& path);

// A model of a named shape ("llama-3.2-1b") with random weights, every matrix in `storage`.
FOURFOLD_API result<Model> make_random_model(std::string_view shape, Storage storage, std::uint64_t seed = 1);

}  // namespace fourfold
