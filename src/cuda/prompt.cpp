#include "cuda/prompt.hpp"

#include <algorithm>

#include "program/visit.hpp"

namespace fourfold::cuda {
namespace {

struct Sizes {
  std::size_t columns = 1;  // of the widest input
  std::size_t raw = 1;      // floats of a token's queries, keys and values
  std::size_t tiles = 1;    // bytes of the largest launch, unpacked
};

Sizes sizes_of(const DevicePlan& plan) {
  Sizes sizes;
  for (const DeviceStep& step : plan.steps) {
    const auto* p = std::get_if<DeviceProject>(&step);
    if (p == nullptr) continue;
    sizes.columns = std::max(sizes.columns, static_cast<std::size_t>(p->columns));
    if (p->epilogue == DeviceEpilogue::append) sizes.raw = std::max(sizes.raw, static_cast<std::size_t>(row_of(*p)));
    if (p->storage != Storage::bf16)
      sizes.tiles =
          std::max(sizes.tiles, static_cast<std::size_t>(unpacked_order(p->order.groups, p->columns).tiles()) *
                                    Tile<Storage::bf16>::kBytes);
  }
  return sizes;
}

}  // namespace

result<Prompt> Prompt::make(const Program& program, const DeviceWeights& weights, const SequenceMemory& memory,
                            const ArenaPlan& arena, int batch) {
  Prompt p;
  p.batch_ = batch;
  const Sizes sizes = sizes_of(resolve(program, weights, memory, memory.activations(), arena));
  const auto tokens = static_cast<std::size_t>(batch);
  const auto take = [&](DeviceMemory& to, std::size_t bytes) -> status {
    auto made = DeviceMemory::allocate(bytes, "a prompt of " + std::to_string(batch) + " tokens");
    if (!made.ok()) return made.error();
    to = std::move(made).value();
    return {};
  };
  FOURFOLD_TRY(take(p.arena_, static_cast<std::size_t>(arena.width) * tokens * sizeof(float)));
  FOURFOLD_TRY(take(p.raw_, sizes.raw * tokens * sizeof(float)));
  FOURFOLD_TRY(take(p.panels_, Panels{nullptr, batch, static_cast<int>(sizes.columns)}.bytes()));
  FOURFOLD_TRY(take(p.scale_, tokens * sizeof(float)));
  FOURFOLD_TRY(take(p.tiles_, sizes.tiles));
  FOURFOLD_TRY(take(p.ids_, tokens * sizeof(int)));
  p.plan_ = resolve(program, weights, memory, {p.arena_.as<float>(), p.raw_.as<float>(), batch}, arena);
  return p;
}

cudaError_t Prompt::launch(const DeviceStep& step, int tokens, bool programmatic, cudaStream_t stream) const {
  const PromptScratch scratch{panels_.data(), scale_.as<float>(), tiles_.as<std::uint8_t>()};
  return std::visit(
      Overloaded{[&](const DeviceEmbed& s) {
                   return embed_prompt(s.table, s.scale, ids_.as<int>(), tokens, s.out, programmatic, stream);
                 },
                 [&](const DeviceProject& s) { return project_prompt(s, tokens, scratch, programmatic, stream); },
                 [&](const DeviceAttend& s) {
                   Attention attention = s.attention;
                   attention.tokens = tokens;
                   return attend_prefill(attention, s.kind, programmatic, stream);
                 }},
      step);
}

cudaError_t Prompt::run(std::span<const int> ids, cudaStream_t stream) const {
  const cudaError_t copied = cudaMemcpyAsync(ids_.data(), ids.data(), ids.size_bytes(), cudaMemcpyHostToDevice, stream);
  if (copied != cudaSuccess) return copied;
  bool follows = false;  // the first kernel waits for everything before it
  for (const DeviceStep& step : plan_.steps) {
    const cudaError_t error = launch(step, static_cast<int>(ids.size()), follows, stream);
    if (error != cudaSuccess) return error;
    follows = true;
  }
  return cudaSuccess;
}

DeviceProject Prompt::head(int token) const {
  DeviceProject p = plan_.head;
  const std::int64_t row = std::int64_t{token} * p.columns;
  p.in += row;
  if (p.add_y != nullptr) {
    p.add_x += row;
    p.add_y += row;
    p.add_out += row;
  }
  return p;
}

const float* Prompt::value(std::size_t v) const {
  const std::int64_t offset = plan_.arena.offset[v];
  return offset < 0 ? nullptr : arena_.as<float>() + batch_ * offset;
}

}  // namespace fourfold::cuda
