#include "cuda/persistent/records.hpp"

#include <algorithm>
#include <numbers>

namespace fourfold::cuda::persistent {
namespace {

std::uint32_t place(const Plan& plan, Ref ref) {
  return ref.buffer < 0 ? kEmbedding : static_cast<std::uint32_t>(plan.buffer(ref).offset);
}
std::uint16_t counter(const Plan& plan, Ref ref) {
  return static_cast<std::uint16_t>(ref.buffer < 0 ? 0 : std::max(plan.buffer(ref).first_counter, 0));
}

void fill_project(const Plan& plan, const Project& step, const Phase& phase, const Task& task, const Places& places,
                  Record& r) {
  const auto index = static_cast<std::size_t>(phase.step);
  r.tiles = places.tiles[index];
  r.extra = places.biases[index];
  r.scales = places.scales[index];
  if (step.norm) r.norm = places.vector(step.norm->weight), r.eps = step.norm->eps;
  r.in = place(plan, phase.in);
  r.out = place(plan, phase.out);
  r.residual = place(plan, phase.residual);
  r.columns = static_cast<std::uint32_t>(phase.columns);
  r.rows = static_cast<std::uint32_t>(phase.outputs);
  r.first_group = static_cast<std::uint32_t>(task.first_group);
  r.groups = static_cast<std::uint16_t>(task.groups);
  r.slices = static_cast<std::uint16_t>((phase.columns + plan.slice - 1) / plan.slice);
  r.first_slice = static_cast<std::uint16_t>(task.first_slice);
  r.in_counter = counter(plan, phase.in);
  r.out_counter = counter(plan, phase.out);
  r.in_version = static_cast<std::int16_t>(phase.in.version);
}

// The Append whose queries an Attend reads.
const Append* append_of(const Program& program, Value query) {
  for (const Step& step : program.steps)
    if (const auto* project = std::get_if<Project>(&step.op))
      if (const auto* append = std::get_if<Append>(&project->epilogue); append && append->query == query) return append;
  return nullptr;
}

void fill_shape(const Plan& plan, const Phase& phase, const Task& task, Record& r) {
  r.kv_head = static_cast<std::uint16_t>(task.kv_head);
  r.share = static_cast<std::uint16_t>(task.share);
  r.sharers = static_cast<std::uint16_t>(phase.sharers);
  r.queries = static_cast<std::uint16_t>(phase.queries);
  r.kv_heads = static_cast<std::uint16_t>(phase.kv_heads);
  r.in = place(plan, phase.in);
  r.out = place(plan, phase.out);
  r.in_counter = counter(plan, phase.in);
  r.out_counter = counter(plan, phase.out);
  r.parts = static_cast<std::uint16_t>(plan.parts[static_cast<std::size_t>(task.kv_head)]);
  r.in_version = static_cast<std::int16_t>(phase.in.version);
}

// Where the KV head's outputs go when one chain holds every key: the buffer that the merge, the phase behind, writes.
void fill_direct(const Plan& plan, const Phase& merge, const Task& task, Record& r) {
  const Buffer& out = plan.buffer(merge.out);
  const int first = task.kv_head * merge.head_outputs(), slice = first / out.slice;
  const int heads = std::max(1, std::min(out.slice, out.width - slice * out.slice) / merge.head_outputs());
  r.residual = place(plan, merge.out);
  r.out_counter = static_cast<std::uint16_t>(out.first_counter + slice);
  r.slices = static_cast<std::uint16_t>((first + merge.head_outputs() - 1) / out.slice - slice + 1);
  r.groups = static_cast<std::uint16_t>(plan.counters[r.out_counter].arrivals / heads);
}

Record make_record(const Plan& plan, const Program& program, const Task& task, const Places& places) {
  const Phase& phase = plan.phase(task);
  Record r{};
  r.kind = static_cast<std::uint8_t>(phase.kind);
  r.finish = static_cast<std::uint8_t>(phase.finish);
  r.phase = static_cast<std::uint16_t>(task.phase);
  if (phase.kind == Kind::sample) return r;
  const Step& step = program.steps[static_cast<std::size_t>(phase.step)];
  if (phase.kind == Kind::project) {
    fill_project(plan, std::get<Project>(step.op), phase, task, places, r);
    return r;
  }
  fill_shape(plan, phase, task, r);
  if (phase.kind == Kind::merge) return r;
  fill_direct(plan, plan.phases[static_cast<std::size_t>(task.phase) + 1], task, r);
  const auto& attend = std::get<Attend>(step.op);
  r.tiles = places.caches[static_cast<std::size_t>(attend.cache)];
  r.scale = attend.scale * std::numbers::log2e_v<float>;
  if (const Append* append = append_of(program, attend.query)) {
    if (append->query_norm) r.norm = places.vector(append->query_norm->weight), r.eps = append->query_norm->eps;
    if (append->key_norm) r.extra = places.vector(append->key_norm->weight);
    if (append->rope >= 0) {
      r.turns = places.turns[static_cast<std::size_t>(append->rope)];
      r.interleaved = program.ropes[static_cast<std::size_t>(append->rope)].interleaved ? 1 : 0;
    }
  }
  return r;
}

}  // namespace

Records make_records(const Plan& plan, const Program& program, const Places& places) {
  Records out;
  for (const auto& list : plan.tasks) out.stride = std::max(out.stride, static_cast<int>(list.size()));
  out.records.resize(plan.tasks.size() * static_cast<std::size_t>(out.stride));
  for (std::size_t cta = 0; cta < plan.tasks.size(); ++cta) {
    out.counts.push_back(static_cast<std::uint16_t>(plan.tasks[cta].size()));
    for (std::size_t i = 0; i < plan.tasks[cta].size(); ++i)
      out.records[cta * static_cast<std::size_t>(out.stride) + i] =
          make_record(plan, program, plan.tasks[cta][i], places);
  }
  for (const Counter& c : plan.counters)
    out.targets.push_back({static_cast<std::uint16_t>(c.arrivals), static_cast<std::uint16_t>(c.versions)});
  return out;
}

}  // namespace fourfold::cuda::persistent
