// Latent attention on the team. Few tokens take the absorbed form: queries over the latents themselves, all heads
// reading one leaf; it is bound by fma units from about 8 heads on. Many take the expanded form: keys and values of
// 1024 positions at a time, head by head. Bits depend on the form alone: rows of a call, threads and items do not
// matter.
#include "cpu/team/latent.hpp"

#include <algorithm>
#include <fourfold/monoid.hpp>
#include <numeric>

#include "cpu/team/executor.hpp"

namespace fourfold::team {
namespace {

using simd::kBlockKeys;
using simd::kLeafKeys;

std::size_t row_floats(const TeamLatent& step) {
  return static_cast<std::size_t>((step.rank + step.rotary + 15) / 16 * 16);
}

template <class T>
void grow(std::vector<T>& v, std::size_t size) {
  if (v.size() < size) v.resize(size);
}

// A head's rows of a stacked dot for `tokens` prepared inputs.
void head_dot(const TeamDot& dot, int head, const std::uint8_t* x, int tokens, float* out, std::size_t stride) {
  dot.kernel({.tiles = dot.matrix.tiles + static_cast<std::size_t>(head) * dot.matrix.bytes(),
              .rows = dot.matrix.rows,
              .k = dot.matrix.cols,
              .x = x,
              .x_stride = simd::prepared_bytes(dot.kind, dot.matrix.cols),
              .tokens = tokens,
              .out = out,
              .out_stride = stride});
}

// Makes `leaf` point to the leaves of a block in `leaves`; returns the first.
std::uint8_t* point_to_leaves(LatentLocal& local, std::size_t bytes) {
  std::uint8_t* leaves = aligned(local.leaves);
  local.leaf.assign(kBlockKeys / kLeafKeys + 1, nullptr);
  for (std::size_t i = 0; i + 1 < local.leaf.size(); ++i) local.leaf[i] = leaves + i * bytes;
  return leaves;
}

std::size_t prepared_row(const TeamDot& dot) { return simd::prepared_bytes(dot.kind, dot.matrix.cols); }

}  // namespace

void LatentLocal::resize(const TeamLatent& step, int context, Storage cache) {
  const simd::KvShape wide{step.nope + step.rotary, step.columns};
  const std::size_t leaves = kBlockKeys / kLeafKeys;
  grow(prepared, std::max(prepared_row(step.key_down), prepared_row(step.value_up)) + 64);
  grow(queries, kLatentHeads * row_floats(step));
  grow(states, 2 * kLatentHeads * simd::state_floats(std::max(step.rank, step.columns)));
  grow(gathered, static_cast<std::size_t>(step.rank));
  grow(keys, static_cast<std::size_t>(kBlockKeys * step.nope));
  grow(values, static_cast<std::size_t>(kBlockKeys * step.columns));
  grow(this->leaves,
       64 + leaves * std::max(simd::kv_leaf_bytes(Storage::f32, wide), simd::kv_leaf_bytes(cache, step.attend.shape)));
  if (!step.top) return;
  grow(scores, static_cast<std::size_t>((context + kLeafKeys - 1) / kLeafKeys * kLeafKeys));
  grow(order, scores.size());
}

void LatentShared::resize(const TeamLatent& step, int batch, int context) {
  const auto heads = static_cast<std::size_t>(step.attend.heads), tokens = static_cast<std::size_t>(batch);
  grow(queries, heads * row_floats(step));
  grow(prepared, kBlockKeys * (prepared_row(step.key_up) + prepared_row(step.value_up)) + 64);
  grow(rotary, static_cast<std::size_t>(kBlockKeys * step.rotary));
  grow(states, heads * tokens * simd::state_floats(step.columns));
  grow(chosen_count, tokens);
  if (!step.top) return;
  grow(scores, static_cast<std::size_t>((context + kLeafKeys - 1) / kLeafKeys * kLeafKeys));
  grow(chosen, tokens * static_cast<std::size_t>(std::min(step.top->count, context)));
}

void TeamExecutor::run_step(Worker& worker, const TeamLatent& step) {
  const int tokens = static_cast<int>(ids_.size());
  const bool choose = step.top && position_ + tokens > step.top->count;
  if (choose) choose_keys(worker, step);
  if (!choose && tokens >= step.expand_from) return attend_expanded(worker, step);
  tokens == 1 ? attend_absorbed_one(worker, step, choose) : attend_absorbed_many(worker, step, choose);
}

// The query of one head over latents: key_down q, then the rotated part, then zeros.
void TeamExecutor::absorb_query(const TeamLatent& step, int token, int head, float* row, LatentLocal& local) const {
  const float* query =
      at(step.attend.query, static_cast<int>(ids_.size()), token) + std::ptrdiff_t{head} * (step.nope + step.rotary);
  std::uint8_t* x = aligned(local.prepared);
  k_.prepare[static_cast<std::size_t>(step.key_down.kind)](query, nullptr, step.nope, x);
  head_dot(step.key_down, head, x, 1, row, static_cast<std::size_t>(step.rank));
  std::copy_n(query + step.nope, step.rotary, row + step.rank);
  std::fill(row + step.rank + step.rotary, row + row_floats(step), 0.0f);
}

// One head's output from its finished state over latents.
void TeamExecutor::finish_absorbed(const TeamLatent& step, const float* state, int token, int head,
                                   LatentLocal& local) const {
  const int tokens = static_cast<int>(ids_.size());
  k_.finish(state, step.rank, step.attend.sink(head), local.gathered.data());
  std::uint8_t* x = aligned(local.prepared);
  k_.prepare[static_cast<std::size_t>(step.value_up.kind)](local.gathered.data(), nullptr, step.rank, x);
  float* out = at(step.attend.out, tokens, token) + std::ptrdiff_t{head} * step.columns;
  head_dot(step.value_up, head, x, 1, out, static_cast<std::size_t>(step.columns));
  gate_head(step.attend, token, head, step.columns);
}

// Fresh states of some heads' queries, rows of `queries`, over block `block` of the keys a token sees.
void TeamExecutor::absorb_block(const TeamLatent& step, int token, int block, Range heads, const float* queries,
                                float* states, bool chosen, Local& local) {
  const int base = block * kBlockKeys;
  const auto rows = static_cast<std::size_t>(heads.size());
  local.positions.assign(rows, position_ + token);
  local.heads.resize(rows);
  std::iota(local.heads.begin(), local.heads.end(), heads.first);
  local.queries.clear();
  for (std::size_t h = 0; h < rows; ++h) local.queries.push_back(queries + h * row_floats(step));
  const int begin = chosen ? 0 : first_visible(step.attend, position_ + token);
  const int end = chosen ? latent_.chosen_count[static_cast<std::size_t>(token)] : position_ + token + 1;
  local.first.assign(rows, std::max(0, begin - base));
  local.last.assign(rows, std::min(kBlockKeys, end - base));
  if (!chosen) return attend_block(step.attend, 0, block, heads.size(), states, local);
  const std::size_t leaf = simd::kv_leaf_bytes(cache_.type(), step.attend.shape);
  std::uint8_t* leaves = point_to_leaves(local.latent, leaf);
  const int* keys = latent_.chosen.data() + static_cast<std::ptrdiff_t>(token) * step.top->count + base;
  for (int i = 0; i < local.last[0]; ++i)
    cache_.copy_position(step.attend.cache, 0, keys[i], leaves + static_cast<std::size_t>(i / kLeafKeys) * leaf,
                         i % kLeafKeys);
  k_.attend({cache_.type(), step.attend.shape, local.latent.leaf.data(), 0, heads.size(), local.queries.data(),
             local.first.data(), local.last.data(), step.attend.scale, step.attend.soft_cap, states,
             simd::state_floats(step.rank)});
}

// The blocks of keys that a token visits.
Range TeamExecutor::latent_blocks(const TeamLatent& step, int token, bool chosen) const {
  const int position = position_ + token;
  if (chosen) return {0, (latent_.chosen_count[static_cast<std::size_t>(token)] - 1) / kBlockKeys + 1};
  return {first_visible(step.attend, position) / kBlockKeys, position / kBlockKeys + 1};
}

void TeamExecutor::attend_absorbed_one(Worker& worker, const TeamLatent& step, bool chosen) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const int heads = step.attend.heads;
  queue_.each(worker, heads, [&](std::int64_t h) {
    absorb_query(step, 0, static_cast<int>(h), latent_.queries.data() + static_cast<std::size_t>(h) * row_floats(step),
                 local.latent);
  });
  worker.barrier();
  const Range blocks = latent_blocks(step, 0, chosen);
  const std::size_t state = simd::state_floats(step.rank);
  const auto state_of = [&](std::int64_t head, int block) {
    return states_.data() + (static_cast<std::size_t>(head * blocks_ + block - blocks.first)) * state;
  };
  // Heads go apart where there are too few blocks to share.
  const int wanted = (4 * worker.count + blocks.size() - 1) / blocks.size();
  const int per_item = std::clamp((heads + wanted - 1) / wanted, std::min(heads, 8), kLatentHeads);
  const int parts = (heads + per_item - 1) / per_item;
  queue_.each(worker, std::int64_t{blocks.size()} * parts, [&](std::int64_t item) {
    const int block = blocks.first + static_cast<int>(item / parts), head = static_cast<int>(item % parts) * per_item;
    const int count = std::min(per_item, heads - head);
    absorb_block(step, 0, block, {head, head + count},
                 latent_.queries.data() + static_cast<std::size_t>(head) * row_floats(step), local.latent.states.data(),
                 chosen, local);
    for (int h = 0; h < count; ++h)
      std::copy_n(local.latent.states.data() + static_cast<std::size_t>(h) * state, state, state_of(head + h, block));
  });
  worker.barrier();
  queue_.each(worker, heads, [&](std::int64_t h) {
    for (int b = blocks.first + 1; b < blocks.end; ++b) k_.merge(state_of(h, blocks.first), state_of(h, b), step.rank);
    finish_absorbed(step, state_of(h, blocks.first), 0, static_cast<int>(h), local.latent);
  });
}

void TeamExecutor::attend_absorbed_many(Worker& worker, const TeamLatent& step, bool chosen) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const int heads = step.attend.heads, parts = (heads + kLatentHeads - 1) / kLatentHeads;
  const std::size_t state = simd::state_floats(step.rank);
  float *total = local.latent.states.data(), *fresh = total + kLatentHeads * state;
  queue_.each(worker, static_cast<std::int64_t>(ids_.size()) * parts, [&](std::int64_t item) {
    const int token = static_cast<int>(item / parts), head = static_cast<int>(item % parts) * kLatentHeads;
    const int count = std::min(kLatentHeads, heads - head);
    for (int h = 0; h < count; ++h)
      absorb_query(step, token, head + h, local.latent.queries.data() + static_cast<std::size_t>(h) * row_floats(step),
                   local.latent);
    const bool few = chosen && latent_.chosen_count[static_cast<std::size_t>(token)] < 0;  // it sees no more than those
    const Range blocks = latent_blocks(step, token, chosen && !few);
    for (int block = blocks.first; block < blocks.end; ++block) {
      float* states = block == blocks.first ? total : fresh;
      absorb_block(step, token, block, {head, head + count}, local.latent.queries.data(), states, chosen && !few,
                   local);
      for (int h = 0; h < count && block > blocks.first; ++h)
        k_.merge(total + static_cast<std::size_t>(h) * state, fresh + static_cast<std::size_t>(h) * state, step.rank);
    }
    for (int h = 0; h < count; ++h)
      finish_absorbed(step, total + static_cast<std::size_t>(h) * state, token, head + h, local.latent);
  });
}

// ---- the expanded form ---------------------------------------------------------------------------------------------

void TeamExecutor::attend_expanded(Worker& worker, const TeamLatent& step) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const int tokens = static_cast<int>(ids_.size()), end = position_ + tokens;
  const int first = first_visible(step.attend, position_) / kBlockKeys;
  for (int block = first; block * kBlockKeys < end; ++block) {
    const int count = std::min(kBlockKeys, end - block * kBlockKeys);
    const Share share = worker.share(count);
    for (auto i = static_cast<int>(share.begin); i < share.end; ++i)
      load_latent(step, block * kBlockKeys + i, i, local);
    worker.barrier();
    queue_.each(worker, step.attend.heads, [&](std::int64_t head) {
      expand_head(step, static_cast<int>(head), count, local.latent);
      for (int token = 0; token < tokens; token += kQueryTile)
        attend_expanded_tile(step, static_cast<int>(head), block, block == first, token,
                             std::min(kQueryTile, tokens - token), local);
    });
    worker.barrier();  // the block's latents are no longer read
  }
}

// The latent of `position` as slot `i` of the block, rounded for both of its dots.
void TeamExecutor::load_latent(const TeamLatent& step, int position, int i, Local& local) {
  float* row = local.latent.queries.data();
  cache_.read(step.attend.cache, position, 0, row, nullptr);
  std::uint8_t* keys = aligned(latent_.prepared);
  std::uint8_t* values = keys + kBlockKeys * prepared_row(step.key_up);
  const auto at = static_cast<std::size_t>(i);
  k_.prepare[static_cast<std::size_t>(step.key_up.kind)](row, nullptr, step.rank,
                                                         keys + at * prepared_row(step.key_up));
  k_.prepare[static_cast<std::size_t>(step.value_up.kind)](row, nullptr, step.rank,
                                                           values + at * prepared_row(step.value_up));
  std::copy_n(row + step.rank, step.rotary, latent_.rotary.data() + static_cast<std::ptrdiff_t>(i) * step.rotary);
}

// Keys and values of one head for the block's first `count` positions, as float32 leaves.
void TeamExecutor::expand_head(const TeamLatent& step, int head, int count, LatentLocal& local) {
  const std::uint8_t* prepared = aligned(latent_.prepared);
  head_dot(step.key_up, head, prepared, count, local.keys.data(), static_cast<std::size_t>(step.nope));
  head_dot(step.value_up, head, prepared + kBlockKeys * prepared_row(step.key_up), count, local.values.data(),
           static_cast<std::size_t>(step.columns));
  const simd::KvShape shape{step.nope + step.rotary, step.columns};
  const std::size_t leaf = simd::kv_leaf_bytes(Storage::f32, shape);
  std::uint8_t* leaves = point_to_leaves(local, leaf);
  float* key = local.queries.data();
  for (int i = 0; i < count; ++i) {
    std::copy_n(local.keys.data() + static_cast<std::ptrdiff_t>(i) * step.nope, step.nope, key);
    std::copy_n(latent_.rotary.data() + static_cast<std::ptrdiff_t>(i) * step.rotary, step.rotary, key + step.nope);
    k_.kv_append(Storage::f32, leaves + static_cast<std::size_t>(i / kLeafKeys) * leaf, kLeafKeys, i % kLeafKeys, key,
                 local.values.data() + static_cast<std::ptrdiff_t>(i) * step.columns, shape);
  }
}

// Some neighbouring queries of one head against the expanded block; behind the last block they are finished.
void TeamExecutor::attend_expanded_tile(const TeamLatent& step, int head, int block, bool opening, int token, int count,
                                        Local& local) {
  const int tokens = static_cast<int>(ids_.size()), base = block * kBlockKeys;
  const simd::KvShape shape{step.nope + step.rotary, step.columns};
  const std::size_t state = simd::state_floats(step.columns);
  const auto rows = static_cast<std::size_t>(count);
  float* total = latent_.states.data() + (static_cast<std::size_t>(head) * static_cast<std::size_t>(options_.batch) +
                                          static_cast<std::size_t>(token)) *
                                             state;
  float* fresh = opening ? total : local.latent.states.data();
  local.queries.resize(rows);
  local.first.resize(rows);
  local.last.resize(rows);
  local.positions.resize(rows);
  local.heads.assign(rows, head);
  for (std::size_t r = 0; r < rows; ++r) {
    const int position = position_ + token + static_cast<int>(r);
    local.positions[r] = position;
    local.queries[r] = at(step.attend.query, tokens, token + static_cast<int>(r)) + std::ptrdiff_t{head} * shape.key;
    local.first[r] = std::clamp(first_visible(step.attend, position) - base, 0, kBlockKeys);
    local.last[r] = std::clamp(position + 1 - base, 0, kBlockKeys);
  }
  attend_rows(step.attend, block,
              {Storage::f32, shape, local.latent.leaf.data(), 0, count, local.queries.data(), local.first.data(),
               local.last.data(), step.attend.scale, step.attend.soft_cap, fresh, state},
              local);
  for (std::size_t r = 0; r < rows; ++r) {
    if (!opening) k_.merge(total + r * state, fresh + r * state, step.columns);
    if (base + kBlockKeys < position_ + tokens) continue;
    const int t = token + static_cast<int>(r);
    k_.finish(total + r * state, step.columns, step.attend.sink(head),
              at(step.attend.out, tokens, t) + std::ptrdiff_t{head} * step.columns);
    gate_head(step.attend, t, head, step.columns);
  }
}

// ---- choosing keys -------------------------------------------------------------------------------------------------

// Scores of the keys of leaf `leaf` for one token, at `scores`.
void TeamExecutor::score_leaf(const TeamLatent& step, int token, int leaf, float* scores, Local& local) const {
  constexpr int kLeaves = kBlockKeys / kLeafKeys;
  const TeamTopKeys& top = *step.top;
  const int tokens = static_cast<int>(ids_.size()), first = leaf % kLeaves * kLeafKeys;
  const int seen = position_ + token + 1 - leaf / kLeaves * kBlockKeys;
  const auto [leaves, offset] =
      cache_.leaves(top.cache, 0, leaf / kLeaves, first, std::min(first + kLeafKeys, seen), local.leaves);
  k_.index_scores({.type = cache_.type(),
                   .d = top.dim,
                   .leaf = leaves[leaf % kLeaves] + offset,
                   .heads = top.heads,
                   .q = at(top.query, tokens, token),
                   .weights = at(top.weights, tokens, token),
                   .scale = top.scale,
                   .scores = scores});
}

// The best keys of a token among those it sees, ascending; ties to the lower position, NaN last.
void TeamExecutor::select_keys(const TeamLatent& step, int token, const float* scores, LatentLocal& local) {
  const int seen = position_ + token + 1, count = step.top->count;
  int& kept = latent_.chosen_count[static_cast<std::size_t>(token)];
  kept = seen > count ? count : -1;
  if (kept < 0) return;
  const auto begin = local.order.begin(), end = begin + seen;
  for (int i = 0; i < seen; ++i) local.order[static_cast<std::size_t>(i)] = i;
  std::nth_element(begin, begin + count, end, [&](int a, int b) {
    return Pick<float>{scores[a], a}.before(Pick<float>{scores[b], b});
  });
  std::sort(begin, begin + count);
  std::copy_n(begin, count, latent_.chosen.begin() + static_cast<std::ptrdiff_t>(token) * count);
}

// One token: the workers share its leaves. Many: its tokens.
void TeamExecutor::choose_keys(Worker& worker, const TeamLatent& step) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const int tokens = static_cast<int>(ids_.size());
  if (tokens == 1) {
    queue_.each(worker, position_ / kLeafKeys + 1, [&](std::int64_t leaf) {
      score_leaf(step, 0, static_cast<int>(leaf), latent_.scores.data() + leaf * kLeafKeys, local);
    });
    worker.barrier();
    if (worker.index == 0) select_keys(step, 0, latent_.scores.data(), local.latent);
  } else {
    queue_.each(worker, tokens, [&](std::int64_t t) {
      const int token = static_cast<int>(t);
      for (int leaf = 0; leaf <= (position_ + token) / kLeafKeys; ++leaf)
        score_leaf(step, token, leaf, local.latent.scores.data() + std::ptrdiff_t{leaf} * kLeafKeys, local);
      select_keys(step, token, local.latent.scores.data(), local.latent);
    });
  }
  worker.barrier();
}

}  // namespace fourfold::team
