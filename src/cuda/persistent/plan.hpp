// Plan: a Program cut into what each CTA of one persistent kernel does, for one token of one sequence.
//
// Every phase (a Project, the two halves of an Attend, the sampling) hands each CTA some tasks; a CTA runs its tasks in
// order. Activations lie in buffers cut into slices; a slice has a counter of arrivals, and a task waits for the slices
// it reads, one after the other. Buffers are reused by later layers, so a counter only ever grows: version v of a token
// has arrived when the count reaches (token * versions + v + 1) * arrivals.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fourfold/program.hpp"
#include "fourfold/status.hpp"

namespace fourfold::cuda::persistent {

inline constexpr int kGroupRows = 16;   // rows of a weight tile: a row group
inline constexpr int kMaxGroups = 14;   // row groups whose sums a task keeps in registers
inline constexpr int kBlockKeys = 256;  // keys of one block of attention
inline constexpr int kChains = 16;      // block b belongs to chain b % kChains; a chain has one running state

// Of one token, numbers within a buffer.
struct Span {
  int first = 0, count = 0;
  int last() const { return first + count; }
};

struct Counter {
  std::string name;  // "act[3]"
  int arrivals = 0;  // of one version
  int versions = 1;  // of one token
};

// Floats [width] in the arena. Slice s covers columns [s * slice, (s + 1) * slice) and has counter first_counter + s.
struct Buffer {
  std::string name;
  std::int64_t offset = 0;
  int width = 0;
  int slice = 0;
  int first_counter = -1;  // -1: nobody waits for it
  int slices() const { return (width + slice - 1) / slice; }
};

// A version of a buffer. buffer -1: the embedding of the token sampled last.
struct Ref {
  int buffer = -1;
  int version = 0;
};

enum class Kind : std::uint8_t { project, attend, merge, sample };
enum class Finish : std::uint8_t { store, add, gated, logits };  // of a Project; queries, keys and values are stored

struct Phase {
  std::string name;  // "blk.3.qkv", "blk.3.attend", "blk.3.merge", "sample"
  Kind kind = Kind::project;
  int step = -1;  // of the Program; -1: sample
  Ref in, out, residual;
  Finish finish = Finish::store;
  int rows = 0, columns = 0;  // of the dots together; gate and up, each filled up to whole row groups, alternate
  int outputs = 0;
  int cache = -1, kv_heads = 0, queries = 0, head_dim = 0;  // attend, merge; queries of each KV head
  int sharers = 0;                                          // CTAs of one KV head

  int groups() const { return (rows + kGroupRows - 1) / kGroupRows; }
  int head_outputs() const { return queries * head_dim; }  // of one KV head
};

struct Task {
  int phase = 0;
  int first_group = 0, groups = 0, first_slice = 0;  // project: slices in turn from the first, then from 0
  int kv_head = 0, share = 0;                        // attend, merge: chains share, share + sharers, ...
};

struct Plan {
  int slice = 0;  // columns of a weight tile, and of a slice
  std::vector<Buffer> buffers;
  std::vector<Counter> counters;
  std::vector<Phase> phases;
  std::vector<std::vector<Task>> tasks;  // per CTA
  int sampled = -1;                      // counter: the token's id is known
  std::vector<int> parts;                // counter per KV head: its partial states are written
  std::int64_t arena = 0;                // floats

  int grid() const { return static_cast<int>(tasks.size()); }
  const Phase& phase(const Task& task) const { return phases[static_cast<std::size_t>(task.phase)]; }
  const Buffer& buffer(Ref ref) const { return buffers[static_cast<std::size_t>(ref.buffer)]; }
};

struct PlanRequest {
  int grid = 0;   // CTAs, all of them resident at once
  int slice = 0;  // columns of the weights' tiles
};

// unsupported: lists every step that the persistent kernel cannot run, one a line, with what it accepts.
result<Plan> make_plan(const Program& program, const PlanRequest& request);

// The grid of at most `sms` CTAs whose busiest CTA has the least to stream; among near equals one that chains divide.
int best_grid(const Program& program, int sms);

// What a task touches. Waits come in the order in which the kernel polls.
struct Wait {
  int counter = 0, version = 0;  // version -1: the last one of the token before
};
struct Access {
  Ref at;
  Span span;
};
struct Arrival {
  int counter = 0, count = 0;
};
struct Footprint {
  std::vector<Wait> waits;
  std::vector<Access> reads, writes;
  std::vector<Arrival> arrivals;
};
Footprint footprint(const Plan& plan, const Task& task);

// Outputs of a project task, in its buffer.
Span outputs_of(const Phase& phase, const Task& task);

}  // namespace fourfold::cuda::persistent
