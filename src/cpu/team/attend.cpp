// Attend on the team. Bits: every query row meets its keys in blocks of 1024 absolute positions, a fresh state each,
// merged left to right, whoever computes them. One query: items are (kv head, block, some of its query heads), and the
// last worker to finish a kv head merges. Many: items are (kv head, tile of query positions), whole walks.
#include <algorithm>
#include <numeric>

#include "cpu/team/executor.hpp"
#include "program/noise.hpp"

namespace fourfold::team {

using simd::kBlockKeys;

namespace {

// A Program's own walk and score, as the kernel asks for them.
struct OwnWalk {
  const TeamAttend& step;
  const std::vector<int>&positions, &heads;  // of the call's query rows
  int base;                                  // position of the block's first key
  mutable int last_position = -1, last_key = -1;
  mutable std::uint64_t last{};  // what that position sees: its heads ask one after the other

  static std::uint64_t visible(const void* self, int query, int key) {
    const auto& own = *static_cast<const OwnWalk*>(self);
    const int position = own.positions[static_cast<std::size_t>(query)];
    if (position != own.last_position || key != own.last_key) own.last = own.step.walk.leaf(position, own.base + key);
    own.last_position = position, own.last_key = key;
    return own.last;
  }
  // A score is asked about keys that count alone: run by run.
  static void map_scores(const void* self, int query, int key, std::uint64_t visible, float* scores) {
    const auto& own = *static_cast<const OwnWalk*>(self);
    const auto row = static_cast<std::size_t>(query);
    for (int from = 0; from < simd::kLeafKeys; ++from) {
      if (!(visible >> from & 1)) continue;
      int to = from;
      while (to < simd::kLeafKeys && visible >> to & 1) ++to;
      own.step.score.leaf(scores + from, to - from, own.heads[row], own.positions[row], own.base + key + from);
      from = to;
    }
  }
};

}  // namespace

void TeamExecutor::run_step(Worker& worker, const TeamAttend& step) {
  ids_.size() == 1 ? attend_blocks(worker, step) : attend_tiles(worker, step);
}

// One block of keys for some query rows of one kv head; visible ranges are in local.first and local.last.
void TeamExecutor::attend_block(const TeamAttend& step, int kv_head, int block, int rows, float* states,
                                Local& local) const {
  int first = kBlockKeys, last = 0;  // what any of them sees
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    if (local.first[r] >= local.last[r]) continue;
    first = std::min(first, local.first[r]);
    last = std::max(last, local.last[r]);
  }
  const auto [leaves, offset] = cache_.leaves(step.cache, kv_head, block, first, last, local.leaves);
  attend_rows(step, block,
              {cache_.type(), step.shape, leaves, offset, rows, local.queries.data(), local.first.data(),
               local.last.data(), step.scale, step.soft_cap, states, simd::state_floats(step.shape.value)},
              local);
}

// With the Program's own walk and score; local.positions and local.heads say whose rows they are.
void TeamExecutor::attend_rows(const TeamAttend& step, int block, simd::AttendArgs args, const Local& local) const {
  const OwnWalk own{step, local.positions, local.heads, block * kBlockKeys};
  const simd::AttendHook hook{&own, step.walk ? OwnWalk::visible : nullptr, step.score ? OwnWalk::map_scores : nullptr};
  if (step.hooked()) args.hook = &hook;
  k_.attend(args);
}

// One head's output of a token from its finished state.
void TeamExecutor::finish_head(const TeamAttend& step, const float* state, int token, int head) const {
  const int tokens = static_cast<int>(ids_.size()), columns = step.shape.value;
  float* out = at(step.out, tokens, token) + std::ptrdiff_t{head} * columns;
  k_.finish(state, columns, step.sink(head), out);
  gate_head(step, token, head, columns);
}

void TeamExecutor::gate_head(const TeamAttend& step, int token, int head, int columns) const {
  if (!step.gate.valid()) return;
  const int tokens = static_cast<int>(ids_.size());
  float* out = at(step.out, tokens, token) + std::ptrdiff_t{head} * columns;
  k_.sigmoid_gate(at(step.gate, tokens, token) + std::ptrdiff_t{head} * columns, out, columns, out);
}

// Many blocks: each worker takes as many as any other. Few: as many keys, in order of kv heads, blocks and query heads;
// what it takes of a block is one call.
void TeamExecutor::attend_blocks(Worker& worker, const TeamAttend& step) {
  const int group = step.heads / step.kv_heads;
  const int begin = first_visible(step, position_), end = position_ + 1;
  const int first_block = begin / kBlockKeys, blocks = (end - 1) / kBlockKeys - first_block + 1;
  if (step.kv_heads * blocks >= 4 * worker.count) {
    const Share share = worker.share(std::int64_t{step.kv_heads} * blocks);
    for (auto item = static_cast<int>(share.begin); item < share.end; ++item)
      attend_heads(worker, step, item / blocks * group, group, item % blocks, blocks);
    return;
  }
  const std::int64_t total = std::int64_t{step.heads} * (end - begin);
  const std::int64_t from = total * worker.index / worker.count, to = total * (worker.index + 1) / worker.count;
  std::int64_t at = 0;
  for (int kv_head = 0; kv_head < step.kv_heads; ++kv_head)
    for (int block = 0; block < blocks; ++block) {
      const int base = (first_block + block) * kBlockKeys;
      const int keys = std::min(kBlockKeys, end - base) - std::max(0, begin - base);
      int head = 0, heads = 0;
      for (int h = 0; h < group; ++h, at += keys) {
        const std::int64_t middle = at + keys / 2;
        if (middle < from || middle >= to) continue;
        if (heads++ == 0) head = h;
      }
      if (heads > 0) attend_heads(worker, step, kv_head * group + head, heads, block, blocks);
    }
}

// `heads` query heads of one kv head over one of the token's blocks; who finishes a kv head's last one merges.
void TeamExecutor::attend_heads(Worker& worker, const TeamAttend& step, int head, int heads, int block, int blocks) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const int group = step.heads / step.kv_heads, kv_head = head / group;
  const int begin = first_visible(step, position_), end = position_ + 1;
  const int absolute = begin / kBlockKeys + block, base = absolute * kBlockKeys;
  const auto count = static_cast<std::size_t>(heads);
  const std::size_t state = simd::state_floats(step.shape.value);
  const auto state_of = [&](int h, int b) {
    return states_.data() +
           (static_cast<std::size_t>(h) * static_cast<std::size_t>(blocks_) + static_cast<std::size_t>(b)) * state;
  };
  local.queries.clear();
  for (int h = head; h < head + heads; ++h)
    local.queries.push_back(at(step.query, 1) + std::ptrdiff_t{h} * step.shape.key);
  local.positions.assign(count, position_);
  local.heads.resize(count);
  std::iota(local.heads.begin(), local.heads.end(), head);
  local.first.assign(count, std::max(0, begin - base));
  local.last.assign(count, std::min(kBlockKeys, end - base));
  attend_block(step, kv_head, absolute, heads, local.states.data(), local);
  for (int h = 0; h < heads; ++h)
    std::copy_n(local.states.data() + static_cast<std::size_t>(h) * state, state, state_of(head + h, block));
  std::atomic<int>& done = done_[static_cast<std::size_t>(kv_head)];
  if (done.fetch_add(heads, std::memory_order_acq_rel) + heads < blocks * group) return;
  done.store(0, std::memory_order_relaxed);
  for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    for (int b = 1; b < blocks; ++b) k_.merge(state_of(h, 0), state_of(h, b), step.shape.value);
    finish_head(step, state_of(h, 0), 0, h);
  }
}

void TeamExecutor::attend_tiles(Worker& worker, const TeamAttend& step) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const int tokens = static_cast<int>(ids_.size());
  const int tiles = (tokens + kQueryTile - 1) / kQueryTile;
  queue_.each(worker, std::int64_t{step.kv_heads} * tiles, [&](std::int64_t item) {
    // Neighbouring items alternate between early and late tiles, so that each worker's part has as many keys.
    const int kv_head = static_cast<int>(item % step.kv_heads), turn = static_cast<int>(item / step.kv_heads);
    const int tile = turn % 2 == 0 ? turn / 2 : tiles - 1 - turn / 2;
    const int token = tile * kQueryTile;
    attend_tile(step, kv_head, token, std::min(kQueryTile, tokens - token), local);
  });
}

void TeamExecutor::attend_tile(const TeamAttend& step, int kv_head, int token, int count, Local& local) {
  const int tokens = static_cast<int>(ids_.size()), group = step.heads / step.kv_heads, rows = count * group;
  const int begin = first_visible(step, position_ + token), end = position_ + token + count;
  const std::size_t state = simd::state_floats(step.shape.value);
  float* total = local.states.data();
  float* fresh = total + static_cast<std::size_t>(rows) * state;
  const auto row_token = [&](int row) { return token + row / group; };
  const auto row_head = [&](int row) { return kv_head * group + row % group; };
  local.queries.resize(static_cast<std::size_t>(rows));
  local.first.resize(static_cast<std::size_t>(rows));
  local.last.resize(static_cast<std::size_t>(rows));
  local.positions.resize(static_cast<std::size_t>(rows));
  local.heads.resize(static_cast<std::size_t>(rows));
  for (int r = 0; r < rows; ++r) {
    local.positions[static_cast<std::size_t>(r)] = position_ + row_token(r);
    local.heads[static_cast<std::size_t>(r)] = row_head(r);
  }
  for (int r = 0; r < rows; ++r)
    local.queries[static_cast<std::size_t>(r)] =
        at(step.query, tokens, row_token(r)) + std::ptrdiff_t{row_head(r)} * step.shape.key;
  for (int block = begin / kBlockKeys; block <= (end - 1) / kBlockKeys; ++block) {
    for (int r = 0; r < rows; ++r) {
      const int position = position_ + row_token(r), base = block * kBlockKeys;
      local.first[static_cast<std::size_t>(r)] = std::clamp(first_visible(step, position) - base, 0, kBlockKeys);
      local.last[static_cast<std::size_t>(r)] = std::clamp(position + 1 - base, 0, kBlockKeys);
    }
    const bool opening = block == begin / kBlockKeys;
    attend_block(step, kv_head, block, rows, opening ? total : fresh, local);
    for (int r = 0; r < rows && !opening; ++r)
      k_.merge(total + static_cast<std::size_t>(r) * state, fresh + static_cast<std::size_t>(r) * state,
               step.shape.value);
  }
  for (int r = 0; r < rows; ++r)
    finish_head(step, total + static_cast<std::size_t>(r) * state, row_token(r), row_head(r));
}

status TeamExecutor::randomize_cache(int positions, std::uint64_t seed) {
  FOURFOLD_TRY(jump(positions));
  Noise noise(seed);
  std::vector<float> key, value;
  for (std::size_t c = 0; c < model_->program.caches.size(); ++c) {
    const CacheSpec& spec = model_->program.caches[c];
    key.resize(static_cast<std::size_t>(spec.head_dim));
    value.resize(static_cast<std::size_t>(spec.values()));
    for (int head = 0; head < spec.kv_heads; ++head)
      for (int p = cache_.oldest_needed(static_cast<int>(c), positions); p < positions; ++p) {
        for (float& x : key) x = noise();
        for (float& x : value) x = noise();
        k_.kv_append(cache_.type(), cache_.part(static_cast<int>(c), head, p), cache_.keys(), p % cache_.keys(),
                     key.data(), value.data(), kv_shape(spec));
      }
  }
  for (float& x : running_) x = noise();
  checkpoint_ = running_;
  return {};
}

}  // namespace fourfold::team
