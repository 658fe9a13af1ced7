#include "cuda/persistent/interpret.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "program/activation.hpp"
#include "program/reference_weights.hpp"

namespace fourfold::cuda::persistent {
namespace {

// A running state of attention over one chain's keys.
struct ChainState {
  std::vector<float> out;
  float largest = -std::numeric_limits<float>::infinity(), sum = 0;

  void add(float score, const float* value) {
    const float top = std::max(largest, score), keep = std::exp(largest - top), p = std::exp(score - top);
    for (std::size_t d = 0; d < out.size(); ++d) out[d] = out[d] * keep + p * value[d];
    sum = sum * keep + p;
    largest = top;
  }
};

class FloatInterpreter : public Interpreter {
 public:
  FloatInterpreter(const Program& program, Plan plan, ReferenceWeights weights)
      : program_(program), plan_(std::move(plan)), weights_(std::move(weights)) {
    arena_.assign(static_cast<std::size_t>(plan_.arena), std::numeric_limits<float>::quiet_NaN());
    caches_.resize(program.caches.size());
    for (const auto& list : plan_.tasks) {
      footprints_.emplace_back();
      for (const Task& task : list) footprints_.back().push_back(footprint(plan_, task));
    }
  }

  result<std::vector<int>> run(int first_id, int position, int tokens, std::uint64_t seed,
                               std::vector<float>* logits) override {
    count_.assign(plan_.counters.size(), 0);
    next_.assign(plan_.tasks.size(), 0);
    ids_ = {first_id};
    position_ = position;
    best_.assign(static_cast<std::size_t>(tokens), {-std::numeric_limits<float>::infinity(), 0});
    logits_ = logits;
    if (logits_) logits_->assign(static_cast<std::size_t>(tokens) * static_cast<std::size_t>(program_.vocab), 0);
    std::uint64_t state = seed * 2 + 1;
    for (std::vector<std::size_t> ready = ready_ctas(tokens); !ready.empty(); ready = ready_ctas(tokens)) {
      state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth
      run_task(ready[(state >> 33) % ready.size()]);
    }
    for (std::size_t cta = 0; cta < next_.size(); ++cta)
      if (more(cta, tokens)) return status{Code::malformed, "no task of the plan is ready"};
    ids_.erase(ids_.begin());
    for (const auto& [logit, id] : best_)
      if (std::isnan(logit)) return status{Code::malformed, "a task read what was never written"};
    return ids_;
  }

 private:
  std::size_t tasks(std::size_t cta) const { return plan_.tasks[cta].size(); }
  bool more(std::size_t cta, int tokens) const { return next_[cta] < tasks(cta) * static_cast<std::size_t>(tokens); }
  int token(std::size_t cta) const { return static_cast<int>(next_[cta] / tasks(cta)); }

  std::vector<std::size_t> ready_ctas(int tokens) const {
    std::vector<std::size_t> out;
    for (std::size_t cta = 0; cta < next_.size(); ++cta)
      if (more(cta, tokens) && ready(cta)) out.push_back(cta);
    return out;
  }
  bool ready(std::size_t cta) const {
    const auto& waits = footprints_[cta][next_[cta] % tasks(cta)].waits;
    return std::all_of(waits.begin(), waits.end(), [&](const Wait& w) {
      const Counter& c = plan_.counters[static_cast<std::size_t>(w.counter)];
      return count_[static_cast<std::size_t>(w.counter)] >= (token(cta) * c.versions + w.version + 1) * c.arrivals;
    });
  }

  void run_task(std::size_t cta) {
    const std::size_t index = next_[cta] % tasks(cta);
    const Task& task = plan_.tasks[cta][index];
    const Phase& phase = plan_.phase(task);
    token_ = token(cta);
    if (phase.kind == Kind::project) project(phase, task);
    if (phase.kind == Kind::attend) attend(phase, task);
    if (phase.kind == Kind::merge) merge(phase, task);
    for (const Arrival& a : footprints_[cta][index].arrivals) count_[static_cast<std::size_t>(a.counter)] += a.count;
    ++next_[cta];
    const Counter& sampled = plan_.counters[static_cast<std::size_t>(plan_.sampled)];
    const auto known = static_cast<std::size_t>(count_[static_cast<std::size_t>(plan_.sampled)] / sampled.arrivals);
    if (known == ids_.size()) ids_.push_back(best_[known - 1].second);
  }

  float* at(Ref ref) { return arena_.data() + plan_.buffer(ref).offset; }
  // Column `i` of what a Project reads.
  std::vector<float> input(const Phase& phase) {
    std::vector<float> x;
    if (phase.in.buffer >= 0) {
      x.assign(at(phase.in), at(phase.in) + phase.columns);
    } else {
      const auto& embed = std::get<Embed>(program_.steps[0].op);
      weights_.row(embed.table, ids_[static_cast<std::size_t>(token_)], x);
      for (float& v : x) v *= embed.scale;
    }
    return x;
  }

  // Row `row` of the dots together: gate and up alternate by row groups.
  std::pair<const Dot*, std::int64_t> row_of(const Phase& phase, const Project& step, int row) const {
    if (phase.finish == Finish::gated) {
      const int group = row / kGroupRows;
      return {&step.dots[static_cast<std::size_t>(group % 2)], group / 2 * kGroupRows + row % kGroupRows};
    }
    std::int64_t r = row;
    for (const Dot& dot : step.dots) {
      if (r < program_.tensor(dot.weight).rows) return {&dot, r};
      r -= program_.tensor(dot.weight).rows;
    }
    return {nullptr, 0};
  }

  void project(const Phase& phase, const Task& task) {
    const auto& step = std::get<Project>(program_.steps[static_cast<std::size_t>(phase.step)].op);
    std::vector<float> x = input(phase), y, weight;
    const std::vector<float> residual =
        phase.finish == Finish::add && phase.residual.buffer < 0 ? x : std::vector<float>{};
    float inverse = 1;
    if (step.norm) {
      float squares = 0;
      for (float v : x) squares += v * v;
      inverse = 1 / std::sqrt(squares / static_cast<float>(phase.columns) + step.norm->eps);
      const std::vector<float> norm = weights_.vector<float>(step.norm->weight);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] *= norm[i];
    }
    const int first = task.first_group * kGroupRows;
    for (int row = first; row < std::min(first + task.groups * kGroupRows, phase.rows); ++row) {
      const auto [dot, r] = row_of(phase, step, row);
      if (r >= program_.tensor(dot->weight).rows) {  // fills up a row group
        y.push_back(0);
        continue;
      }
      weights_.row(dot->weight, r, weight);
      float sum = 0;
      for (int i = 0; i < phase.columns; ++i) {
        const int column = (i + task.first_slice * plan_.slice) % phase.columns;
        sum += weight[static_cast<std::size_t>(column)] * x[static_cast<std::size_t>(column)];
      }
      const std::vector<float> bias = weights_.vector<float>(dot->bias);
      const std::vector<float> scales = weights_.vector<float>(dot->scales);
      if (!scales.empty()) sum *= scales[static_cast<std::size_t>(r)];
      y.push_back(sum * inverse + (bias.empty() ? 0 : bias[static_cast<std::size_t>(r)]));
    }
    finish(phase, task, step, y);
  }

  void finish(const Phase& phase, const Task& task, const Project& step, const std::vector<float>& y) {
    const Span span = outputs_of(phase, task);
    float* out = at(phase.out) + span.first;
    for (int i = 0; i < span.count; ++i) {
      const auto n = static_cast<std::size_t>(i);
      switch (phase.finish) {
        case Finish::store:
          out[i] = y[n];
          break;
        case Finish::add:
          out[i] = y[n] + residual(phase, span.first + i);
          break;
        case Finish::gated: {
          const std::size_t gate = n / kGroupRows * 2 * kGroupRows + n % kGroupRows;
          out[i] = activated(std::get<Gated>(step.epilogue).activation, y[gate]) * y[gate + kGroupRows];
          break;
        }
        case Finish::logits:
          keep_best(y[n], span.first + i);
          break;
      }
    }
  }
  float residual(const Phase& phase, int row) {
    if (phase.residual.buffer >= 0) return at(phase.residual)[row];
    std::vector<float> x;
    const auto& embed = std::get<Embed>(program_.steps[0].op);
    weights_.row(embed.table, ids_[static_cast<std::size_t>(token_)], x);
    return embed.scale * x[static_cast<std::size_t>(row)];
  }
  void keep_best(float logit, int id) {
    if (logits_)
      (*logits_)[static_cast<std::size_t>(token_) * static_cast<std::size_t>(program_.vocab) +
                 static_cast<std::size_t>(id)] = logit;
    auto& [best, best_id] = best_[static_cast<std::size_t>(token_)];
    if (std::isnan(best)) return;
    if (!(logit < best) && (logit != best || id < best_id)) best = logit, best_id = id;
  }

  struct Cache {
    std::vector<float> keys, values;  // [KV head][position][dim], in bf16
  };

  void attend(const Phase& phase, const Task& task) {
    const auto& step = std::get<Attend>(program_.steps[static_cast<std::size_t>(phase.step)].op);
    const int d = phase.head_dim, position = position_ + token_, heads = phase.kv_heads * phase.queries;
    Cache& cache = cache_of(phase, position + 1);
    const float* qkv = at(phase.in);
    const std::size_t own = head_start(phase, task.kv_head);
    if (position / kBlockKeys % kChains % phase.sharers == task.share) {
      const float* key = qkv + heads * d + task.kv_head * d;
      std::vector<float> turned = turn(phase, key, false, position);
      for (int i = 0; i < d; ++i) {
        const std::size_t place = own + static_cast<std::size_t>(position * d + i);
        cache.keys[place] = bf16(turned[static_cast<std::size_t>(i)]);
        cache.values[place] = bf16(key[phase.kv_heads * d + i]);
      }
    }
    for (int chain = task.share; chain < kChains; chain += phase.sharers)
      for (int q = 0; q < phase.queries; ++q) {
        const std::vector<float> query = turn(phase, qkv + (task.kv_head * phase.queries + q) * d, true, position);
        ChainState state{std::vector<float>(static_cast<std::size_t>(d)), ChainState{}.largest, 0};
        for (int key = chain * kBlockKeys; key <= position; ++key) {
          const float* k = cache.keys.data() + own + key * d;
          float score = 0;
          for (int i = 0; i < d; ++i) score += query[static_cast<std::size_t>(i)] * k[i];
          state.add(score * step.scale, cache.values.data() + own + key * d);
          if (key % kBlockKeys == kBlockKeys - 1) key += (kChains - 1) * kBlockKeys;
        }
        keep(phase, task.kv_head, chain, q, state);
      }
  }
  void keep(const Phase& phase, int kv_head, int chain, int q, const ChainState& state) {
    float* part = at(phase.out) + (kv_head * kChains + chain) * (phase.head_outputs() + 2 * phase.queries);
    std::copy(state.out.begin(), state.out.end(), part + q * phase.head_dim);
    part[phase.head_outputs() + 2 * q] = state.largest;
    part[phase.head_outputs() + 2 * q + 1] = state.sum;
  }

  void merge(const Phase& phase, const Task& task) {
    const int n = phase.head_outputs(), count = n / phase.sharers, state = n + 2 * phase.queries;
    const float* parts = at(phase.in) + task.kv_head * kChains * state;
    for (int i = task.share * count; i < (task.share + 1) * count; ++i) {
      const int scale = n + 2 * (i / phase.head_dim);
      float largest = -std::numeric_limits<float>::infinity(), sum = 0, out = 0;
      for (int c = 0; c < kChains; ++c) largest = std::max(largest, parts[c * state + scale]);
      for (int c = 0; c < kChains; ++c) {
        const float f = std::exp(parts[c * state + scale] - largest);
        sum += f * parts[c * state + scale + 1];
        out += f * parts[c * state + i];
      }
      at(phase.out)[task.kv_head * n + i] = out / sum;
    }
  }

  // A head's query or key: normed and turned as its Append says.
  std::vector<float> turn(const Phase& phase, const float* head, bool query, int position) const {
    const auto& step = std::get<Attend>(program_.steps[static_cast<std::size_t>(phase.step)].op);
    std::vector<float> x(head, head + phase.head_dim);
    const Append* append = nullptr;
    for (const Step& s : program_.steps)
      if (const auto* project = std::get_if<Project>(&s.op))
        if (const auto* a = std::get_if<Append>(&project->epilogue); a && a->query == step.query) append = a;
    if (const auto& norm = query ? append->query_norm : append->key_norm) {
      const std::vector<float> weight = weights_.vector<float>(norm->weight);
      float squares = 0;
      for (float v : x) squares += v * v;
      const float inverse = 1 / std::sqrt(squares / static_cast<float>(x.size()) + norm->eps);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] *= inverse * weight[i];
    }
    if (append->rope < 0) return x;
    const RopeSpec& rope = program_.ropes[static_cast<std::size_t>(append->rope)];
    for (int i = 0; i < rope.dims / 2; ++i) {
      const double angle = position * rope.inverse_frequency[static_cast<std::size_t>(i)];
      const auto c = static_cast<float>(rope.scale * std::cos(angle));
      const auto s = static_cast<float>(rope.scale * std::sin(angle));
      float& a = x[static_cast<std::size_t>(rope.interleaved ? 2 * i : i)];
      float& b = x[static_cast<std::size_t>(rope.interleaved ? 2 * i + 1 : i + rope.dims / 2)];
      const float first = a, second = b;
      a = first * c - second * s;
      b = first * s + second * c;
    }
    return x;
  }

  static float bf16(float x) { return bf16_to_float(float_to_bf16(x)); }
  static constexpr int kMostPositions = 4096;
  std::size_t head_start(const Phase& phase, int kv_head) const {
    return static_cast<std::size_t>(kv_head) * kMostPositions * static_cast<std::size_t>(phase.head_dim);
  }
  Cache& cache_of(const Phase& phase, int) {
    Cache& cache = caches_[static_cast<std::size_t>(phase.cache)];
    cache.keys.resize(head_start(phase, phase.kv_heads));
    cache.values.resize(cache.keys.size());
    return cache;
  }

  const Program& program_;
  Plan plan_;
  ReferenceWeights weights_;
  std::vector<float> arena_;
  std::vector<Cache> caches_;
  std::vector<std::vector<Footprint>> footprints_;
  std::vector<int> count_, ids_;
  std::vector<std::size_t> next_;
  std::vector<std::pair<float, int>> best_;  // per token: the largest logit, its id
  std::vector<float>* logits_ = nullptr;
  int position_ = 0, token_ = 0;
};

}  // namespace

result<std::unique_ptr<Interpreter>> Interpreter::make(const Program& program, Plan plan, const WeightBytes& bytes) {
  for (const Step& step : program.steps)
    if (const auto* project = std::get_if<Project>(&step.op))
      for (const Dot& dot : project->dots)
        if (dot.scales.valid() && program.tensor(dot.scales).rows > 1)
          return status{Code::unsupported, step.name + ": scales of blocks; accepted: none, or one for each row"};
  auto weights = ReferenceWeights::load(program, bytes);
  if (!weights.ok()) return weights.error();
  return std::unique_ptr<Interpreter>(
      std::make_unique<FloatInterpreter>(program, std::move(plan), std::move(weights).value()));
}

}  // namespace fourfold::cuda::persistent
