// Steps with a running state, and maps of their own, on the team. Heads, channels and groups are shared over the pool,
// so the bits do not depend on the threads; those of a scan depend on how a prompt is cut, as whole chunks of
// kScanChunk tokens run in another form than the rest.
#include <algorithm>
#include <cmath>
#include <fourfold/epilogue.hpp>
#include <numeric>

#include "cpu/team/executor.hpp"
#include "program/activation.hpp"

namespace fourfold::team {
namespace {

using simd::kScanTokens;

float softplus(float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

void TeamExecutor::reserve_scratch(Local& local) const {
  const auto head = static_cast<std::size_t>(plan_.max_head) * kScanTokens;
  local.map.resize(static_cast<std::size_t>(plan_.max_map));
  local.gate.resize(local.map.size() + kConvChannels);
  for (auto* rows : {&local.q, &local.k, &local.v, &local.decay}) rows->resize(head);
  local.strength.resize(kScanTokens);
  local.tokens.resize(kScanTokens);
  local.channels.resize(kScanTokens);
  local.scan.resize(scan_scratch_floats(plan_.max_head, plan_.max_head));
  local.past.resize(static_cast<std::size_t>(plan_.max_kernel + kScanTokens) * kConvChannels);
}

void TeamExecutor::activate(Activation activation, float* x, int n) const {
  if (activation == Activation::none) return;
  if (activation == Activation::silu) return k_.sigmoid_gate(x, x, n, x);
  for (int i = 0; i < n; ++i) x[i] = activated(activation, x[i]);
}

void TeamExecutor::gate(Activation activation, const float* y0, const float* y1, int n, float* out) const {
  if (activation == Activation::silu) return k_.silu_gate(y0, y1, n, out);
  if (activation == Activation::gelu_tanh) return k_.gelu_gate(y0, y1, n, out);
  for (int i = 0; i < n; ++i) out[i] = activated(activation, y0[i]) * y1[i];
}

// Numbers [first, first + n) of an operand, one behind the other.
void TeamExecutor::gather(const Columns& from, int token, int first, int n, float* out) const {
  const float* row = at(from.value, static_cast<int>(ids_.size()), token);
  for (int i = 0; i < n;) {
    const int at = first + i, run = std::min(n - i, from.width - at % from.width);
    std::copy_n(row + from.at(at), run, out + i);
    i += run;
  }
  if (from.scale != 1) k_.scale(out, from.scale, n);
}

void TeamExecutor::run_step(Worker& worker, const TeamScan& step) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  if (step.step.mechanism == Mechanism::mamba || step.step.mechanism == Mechanism::rwkv4) {
    const bool mamba = step.step.mechanism == Mechanism::mamba;
    const int group = mamba ? step.step.heads / step.step.key_heads : step.step.heads;  // channels of a query and key
    const int blocks = (group + kScanChannels - 1) / kScanChannels;
    queue_.each(worker, std::int64_t{step.step.heads / group} * blocks, [&](std::int64_t i) {
      const int block = static_cast<int>(i % blocks) * kScanChannels;
      const int first = static_cast<int>(i / blocks) * group + block, count = std::min(kScanChannels, group - block);
      mamba ? scan_channels(step, first, count, local) : scan_means(step, first, count);
    });
    return;
  }
  queue_.each(worker, step.step.heads, [&](std::int64_t head) { scan_head(step, static_cast<int>(head), local); });
}

// What d is made from, numbers [first, first + n): the operand and its bias.
void TeamExecutor::raw_decays(const TeamScan& step, int token, int first, int n, float* out) const {
  gather(step.step.decay, token, first, n, out);
  if (step.bias) k_.add(out, step.bias + first, n, out);
}

// d of a token and a head.
float TeamExecutor::step_size(const TeamScan& step, int token, int head) const {
  float d = 0;
  raw_decays(step, token, head, 1, &d);
  return std::clamp(softplus(d), step.step.step_low, step.step.step_high);
}

// What each key's row of a head's state is multiplied with.
void TeamExecutor::key_decays(const TeamScan& step, int token, int head, float* out) const {
  const ScanStep& s = step.step;
  const float rate = step.rate[static_cast<std::size_t>(head)];
  raw_decays(step, token, head * step.keys, step.keys, out);
  if (s.floor < 0)
    k_.sigmoids(out, -rate, step.keys, out);
  else
    k_.step_sizes(out, s.step_low, s.step_high, step.keys, out);
  k_.exps(out, s.floor < 0 ? s.floor : rate, step.keys, out);
}

// Queries, keys, values, decays and strengths of `count` tokens from `token` on, as the kernel takes them.
void TeamExecutor::prepare_scan(const TeamScan& step, int head, int token, int count, Local& local) const {
  const ScanStep& s = step.step;
  const int keys = step.keys, key_head = head / (s.heads / s.key_heads);
  for (int t = 0; t < count; ++t) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(t) * keys;
    float* q = local.q.data() + row;
    float* k = local.k.data() + row;
    gather(s.query, token + t, key_head * keys, keys, q);
    gather(s.key, token + t, key_head * keys, keys, k);
    gather(s.value, token + t, head * step.values, step.values, local.v.data() + std::ptrdiff_t{t} * step.values);
    if (s.unit_eps > 0) {
      k_.scale(k, 1 / std::sqrt(k_.sum_squares(k, keys) + s.unit_eps), keys);
      k_.scale(q, s.query_scale / std::sqrt(k_.sum_squares(q, keys) + s.unit_eps), keys);
    } else if (s.query_scale != 1) {
      k_.scale(q, s.query_scale, keys);
    }
    const float rate = step.rate[static_cast<std::size_t>(head)];
    const float d = step.decay_per_key() || s.mechanism == Mechanism::retention ? 1 : step_size(step, token + t, head);
    if (step.decay_per_key())
      key_decays(step, token + t, head, local.decay.data() + row);
    else
      local.decay[static_cast<std::size_t>(t)] = fourfold::exp(rate * d);
    float& b = local.strength[static_cast<std::size_t>(t)];
    b = d;
    if (!step.delta()) continue;
    gather(s.strength, token + t, head, 1, &b);
    b = s.strength_scale * fourfold::sigmoid(b);
  }
}

void TeamExecutor::scan_head(const TeamScan& step, int head, Local& local) {
  const int tokens = static_cast<int>(ids_.size()), values = step.values;
  const auto stride = static_cast<std::size_t>(width(step.step.out));
  float* state = running_.data() + step.state + static_cast<std::size_t>(head) * step.keys * values;
  for (int token = 0; token < tokens; token += kScanTokens) {
    const int count = std::min(kScanTokens, tokens - token);
    prepare_scan(step, head, token, count, local);
    float* out = at(step.step.out, tokens, token) + std::ptrdiff_t{head} * values;
    const auto row = [](const std::vector<float>& rows, int t, int width) {
      return rows.data() + std::ptrdiff_t{t} * width;
    };
    for (int t = 0; t < count; ++t) {
      const float b = local.strength[static_cast<std::size_t>(t)];
      ScanToken& to = local.tokens[static_cast<std::size_t>(t)];
      to = {.q = row(local.q, t, step.keys),
            .k = row(local.k, t, step.keys),
            .v = row(local.v, t, values),
            .out = out + static_cast<std::size_t>(t) * stride,
            .write = b,
            .erase = b};
      if (step.decay_per_key())
        to.gate = row(local.decay, t, step.keys);
      else
        to.decay = local.decay[static_cast<std::size_t>(t)];
    }
    k_.scan_chunks({local.tokens.data(), count, step.keys, values, state, values, step.decay_per_key(), false,
                    step.delta() ? Erase::own_key : Erase::none, local.scan.data()});
    if (!step.skip) continue;
    const float skip = step.skip[step.skips == 1 ? 0 : head];
    for (int t = 0; t < count; ++t)
      for (int j = 0; j < values; ++j)
        out[static_cast<std::size_t>(t) * stride + static_cast<std::size_t>(j)] +=
            skip * local.v[static_cast<std::size_t>(t * values + j)];
  }
}

void TeamExecutor::scan_means(const TeamScan& step, int first, int count) {
  const ScanStep& s = step.step;
  const int tokens = static_cast<int>(ids_.size());
  for (int t = 0; t < tokens; ++t)
    for (int c = first; c < first + count; ++c) {
      float* sums = running_.data() + step.state + c;
      float& values = sums[0];
      float& weights = sums[s.heads];
      float& exponent = sums[2 * std::ptrdiff_t{s.heads}];
      const float k = at(s.key.value, tokens, t)[s.key.at(c)], v = at(s.value.value, tokens, t)[s.value.at(c)];
      const float newest = k + step.skip[c];
      const float past = weights > 0 ? exponent : -kInfinity<float>, now = std::max(past, newest);
      const float a = rescale(past, now), b = rescale(newest, now);
      at(s.out, tokens, t)[c] = (a * values + b * v) / (a * weights + b);
      const float faded = past + step.rate[static_cast<std::size_t>(c)], next = std::max(faded, k);
      values = rescale(faded, next) * values + rescale(k, next) * v;
      weights = rescale(faded, next) * weights + rescale(k, next);
      exponent = next;
    }
}

// Channels that share query and key, at most kScanChannels of them.
void TeamExecutor::scan_channels(const TeamScan& step, int first, int count, Local& local) {
  const ScanStep& s = step.step;
  const int tokens = static_cast<int>(ids_.size()), keys = step.keys, key_head = first / (s.heads / s.key_heads);
  for (int token = 0; token < tokens; token += kScanTokens) {
    const int block = std::min(kScanTokens, tokens - token);
    for (int t = 0; t < block; ++t) {
      float* q = local.q.data() + std::ptrdiff_t{t} * keys;
      float* k = local.k.data() + std::ptrdiff_t{t} * keys;
      float* v = local.v.data() + std::ptrdiff_t{t} * kScanChannels;
      float* d = local.decay.data() + std::ptrdiff_t{t} * kScanChannels;
      gather(s.query, token + t, key_head * keys, keys, q);
      gather(s.key, token + t, key_head * keys, keys, k);
      gather(s.value, token + t, first, count, v);
      raw_decays(step, token + t, first, count, d);
      k_.step_sizes(d, s.step_low, s.step_high, count, d);
      local.channels[static_cast<std::size_t>(t)] = {q, k, v, d, at(s.out, tokens, token + t) + first};
    }
    k_.scan_channels({local.channels.data(), block, keys, count, running_.data() + step.state + first, s.heads,
                      step.rate.data() + first, s.heads});
    for (int t = 0; t < block; ++t) {
      const ChannelToken& done = local.channels[static_cast<std::size_t>(t)];
      if (s.query_scale != 1) k_.scale(done.out, s.query_scale, count);
      for (int c = 0; step.skip && c < count; ++c)
        done.out[c] += step.skip[step.skips == 1 ? 0 : first + c] * done.v[c];
    }
  }
}

void TeamExecutor::run_step(Worker& worker, const TeamConv& step) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  queue_.each(worker, static_cast<std::int64_t>(step.pieces.size()),
              [&](std::int64_t i) { convolve(step, step.pieces[static_cast<std::size_t>(i)], local); });
}

void TeamExecutor::convolve(const TeamConv& step, const TeamPiece& piece, Local& local) {
  const ShortConv& s = step.step;
  const int tokens = static_cast<int>(ids_.size()), back = step.kernel - 1, n = piece.count;
  float* state = running_.data() + step.state + piece.channel;  // [back, channels]
  const auto past = [&](int row) { return local.past.data() + std::ptrdiff_t{row} * kConvChannels; };
  for (int j = 0; j < back; ++j) std::copy_n(state + std::ptrdiff_t{j} * step.channels, n, past(j));
  for (int token = 0; token < tokens; token += kScanTokens) {
    const int count = std::min(kScanTokens, tokens - token);
    for (int t = 0; t < count; ++t) {
      float* x = past(back + t);
      gather({.value = piece.value, .first = piece.column, .width = n, .scale = piece.scale}, token + t, 0, n, x);
      if (s.gate_in.valid()) {
        gather(s.gate_in, token + t, piece.channel, n, local.gate.data());
        for (int i = 0; i < n; ++i) x[i] *= local.gate[static_cast<std::size_t>(i)];
      }
      float* out = at(s.out, tokens, token + t) + piece.channel;
      step.bias ? std::copy_n(step.bias + piece.channel, n, out) : std::fill_n(out, n, 0.0f);
      for (int j = 0; j <= back; ++j)
        k_.multiply_add(step.weights.data() + std::ptrdiff_t{j} * step.channels + piece.channel, past(t + j), n, out);
      activate(s.activation, out, n);
      if (!s.gate_out.valid()) continue;
      gather(s.gate_out, token + t, piece.channel, n, local.gate.data());
      for (int i = 0; i < n; ++i) out[i] *= local.gate[static_cast<std::size_t>(i)];
    }
    std::copy(past(count), past(count + back), past(0));
  }
  for (int j = 0; j < back; ++j) std::copy_n(past(j), n, state + std::ptrdiff_t{j} * step.channels);
}

void TeamExecutor::run_step(Worker& worker, const TeamMap& step) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const int groups = step.step.in.count() / step.step.group;
  queue_.each(worker, static_cast<std::int64_t>(ids_.size()) * groups, [&](std::int64_t item) {
    map_group(step, static_cast<int>(item / groups), static_cast<int>(item % groups) * step.step.group, local);
  });
}

void TeamExecutor::map_group(const TeamMap& step, int token, int first, Local& local) {
  const MapStep& s = step.step;
  const int n = s.group;
  float* x = local.map.data();
  float* gate = local.gate.data();
  float* out = at(s.out, static_cast<int>(ids_.size()), token) + first;
  gather(s.in, token, first, n, x);
  if (s.gate.valid()) {
    if (s.gate.count() == s.in.count()) {
      gather(s.gate, token, first, n, gate);
      activate(s.activation, gate, n);
    } else {
      gather(s.gate, token, first / n, 1, gate);
      activate(s.activation, gate, 1);
      std::fill_n(gate + 1, n - 1, gate[0]);
    }
  }
  const auto apply_gate = [&](float* row) {
    if (s.gate.valid())
      for (int i = 0; i < n; ++i) row[i] *= gate[i];
  };
  if (s.gate_first) apply_gate(x);
  if (step.weight) {
    const int skipped = step.weights == n ? 0 : first;
    if (step.bias) {
      const float mean = std::accumulate(x, x + n, 0.0f) / static_cast<float>(n);
      for (int i = 0; i < n; ++i) x[i] -= mean;
    }
    k_.norm(x, step.weight + skipped, norm_scale(k_, x, n, s.norm->eps, s.norm->scale), n, out);
    if (step.bias) k_.add(out, step.bias + skipped, n, out);
  } else {
    std::copy_n(x, n, out);
  }
  if (!s.gate_first) apply_gate(out);
  if (s.plus.valid()) k_.add(at(s.plus, static_cast<int>(ids_.size()), token) + first, out, n, out);
}

}  // namespace fourfold::team
