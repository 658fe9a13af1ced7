#include "engine/check.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "cpu/simd/kernels.hpp"
#include "engine/session_state.hpp"
#include "program/reference_steps.hpp"

namespace fourfold {
namespace {

// Largest distances: float32 rounding, and what fewer bits of keys, values or activations
// cost.
constexpr double kFloat32 = 1e-11, kQ15 = 1e-8, kHalf = 1e-6, kBfloat16 = 1e-5, kQ8 = 5e-5;
// Of the logits of a token whose steps are not looked at one by one: keys and values round to neighbours here and
// there.
constexpr double kToken = 5e-9;
// A coordinate may be off by this many relative errors of the whole output.
constexpr double kOutlier = 12;

double cache_tolerance(Storage cache) {
  return cache == Storage::f32 ? kFloat32 : cache == Storage::f16 ? kHalf : cache == Storage::bf16 ? kBfloat16 : kQ8;
}

// One row as a dot of the team executor sees it: times the norm's weight, rounded to the kind of activation.
void rounded(simd::Rounding kind, const float* x, const float* weight, std::size_t width, double scale, double* out) {
  std::vector<std::byte> prepared(simd::prepared_bytes(kind, static_cast<int>(width)));
  simd::kernels().prepare[static_cast<std::size_t>(kind)](x, weight, static_cast<int>(width), prepared.data());
  for (std::size_t i = 0; i < width; ++i) {
    double value = 0;
    if (kind == simd::Rounding::q15) {
      simd::QuantBlock block;
      std::memcpy(&block, prepared.data() + i / 32 * sizeof block, sizeof block);
      value = static_cast<double>(block.scale) * block.value(static_cast<int>(i % 32));
    } else if (kind == simd::Rounding::bf16) {
      value = blocks::BF16::at(reinterpret_cast<const std::uint8_t*>(prepared.data()) + 2 * i, 0);
    } else {
      float number = 0;
      std::memcpy(&number, prepared.data() + i * sizeof number, sizeof number);
      value = number;
    }
    out[i] = value * scale;
  }
}

// How the executor under test computes.
struct Precision {
  bool rounds_activations;  // as the kernels' table says, by the weight's storage
  bool rounds_prompts;      // to bf16 or f16 in the dots and the attention of two tokens and more
  Storage cache;
  bool whole_tokens;  // decodes all steps in one go: keys, values and logits are those of that, other Values are not
};

class Comparison {
 public:
  Comparison(std::string step, std::string output, int width, double tolerance) : width_(width) {
    check_.step = std::move(step);
    check_.output = std::move(output);
    check_.tolerance = tolerance;
  }
  void add(double got, double expected) {
    got_.push_back(got);
    expected_.push_back(expected);
  }

  StepCheck verdict() && {
    double dot = 0, squares = 0, reference = 0;
    for (std::size_t i = 0; i < got_.size(); ++i) {
      if (!std::isfinite(got_[i]) || !std::isfinite(expected_[i])) {
        if (got_[i] == expected_[i] || (std::isnan(got_[i]) && std::isnan(expected_[i]))) continue;
        check_.distance = 1;
        check_.worst = mismatch(i);
        return std::move(check_);
      }
      dot += got_[i] * expected_[i];
      squares += got_[i] * got_[i] + expected_[i] * expected_[i];
      reference += expected_[i] * expected_[i];
    }
    check_.distance = squares > 0 ? std::max(0.0, 1 - 2 * dot / squares) : 0;
    const double rms = std::sqrt(reference / static_cast<double>(std::max<std::size_t>(1, got_.size())));
    find_outlier(std::sqrt(2 * check_.tolerance) * kOutlier, rms);
    return std::move(check_);
  }

 private:
  StepCheck::Mismatch mismatch(std::size_t i) const {
    return {static_cast<int>(i) / width_, static_cast<int>(i) % width_, got_[i], expected_[i]};
  }
  void find_outlier(double relative, double rms) {
    std::size_t worst = 0;
    double excess = -1;
    for (std::size_t i = 0; i < got_.size(); ++i) {
      const double off = std::abs(got_[i] - expected_[i]) / (rms + std::abs(expected_[i]));
      if (off > excess) {
        excess = off;
        worst = i;
      }
    }
    if (check_.distance > check_.tolerance || excess > relative) check_.worst = mismatch(worst);
  }

  StepCheck check_;
  int width_;
  std::vector<double> got_, expected_;
};

class Checker {
 public:
  Checker(const Program& program, const ReferenceWeights& weights, Session& session, Precision precision)
      : program_(program), weights_(weights), steps_(program, weights), session_(session), precision_(precision) {}

  // To be called in front of an eval that is to be compared: its scans start from these states.
  void remember_states() {
    before_.resize(static_cast<std::size_t>(program_.state_numbers()));
    if (session_.position() > 0) executor_of(session_).read_states(before_);
  }

  // Compares every step of the session's last eval, whose logits were all wanted.
  void compare(std::span<const int> ids, std::vector<StepCheck>& checks, const std::function<void()>& step_done) {
    const double rounding = precision_.rounds_prompts && ids.size() > 1 ? kBfloat16 : kFloat32;
    const int start = session_.position() - static_cast<int>(ids.size());
    for (const Step& step : program_.steps) {
      compare_step(step, ids, start, rounding, checks);
      step_done();
    }
  }

 private:
  using DotInputs = ReferenceSteps<double>::DotInputs;

  void compare_step(const Step& step, std::span<const int> ids, int start, double rounding,
                    std::vector<StepCheck>& checks) {
    tolerance_ = std::max(rounding, rounding_inside(step));
    if (precision_.whole_tokens && ids.size() == 1) {
      if (&step == &program_.steps.back()) tolerance_ = kToken;
      if (std::holds_alternative<Attend>(step.op)) tolerance_ = cache_tolerance(precision_.cache);
    }
    ReferenceState<double> state = inputs(ids, start, step);
    const auto* project = std::get_if<Project>(&step.op);
    const auto rounded = rounded_inputs(step, ids.size());
    steps_.run(step, state, rounded ? &*rounded : nullptr);
    for (const Value v : uses(step).writes) compare_value(step, v, state, checks);
    if (project == nullptr) return;
    if (const auto* append = std::get_if<Append>(&project->epilogue))
      compare_cache(step, append->cache, state, checks);
    else if (const auto* key = std::get_if<AppendKey>(&project->epilogue))
      compare_cache(step, key->cache, state, checks);
  }

  ReferenceState<double> inputs(std::span<const int> ids, int start, const Step& step) {
    ReferenceState<double> state;
    state.program = &program_;
    state.ids.assign(ids.begin(), ids.end());
    state.position = start;
    state.wanted = static_cast<int>(ids.size());
    state.values.resize(program_.values.size());
    state.caches.resize(program_.caches.size());
    put_states(state);
    const StepUses use = uses(step);
    for (const Value v : use.writes) state.values[id(v)].assign(numbers(v, ids.size()), 0);
    for (const Value v : use.reads) {
      const float* from = executor_of(session_).value(v);
      state.values[id(v)].assign(from, from + numbers(v, ids.size()));
    }
    if (const auto* attend = std::get_if<Attend>(&step.op)) {
      read_cache(attend->cache, state);
      if (attend->top_keys) read_cache(attend->top_keys->cache, state);
    }
    return state;
  }

  // Latent attention rounds in front of dots of its own: queries and sums of latents, or the latents themselves. Which
  // of the two the executor chooses, so the distance is bounded and the rounding is not repeated.
  double rounding_inside(const Step& step) const {
    const auto* attend = std::get_if<Attend>(&step.op);
    double most = kFloat32;
    if (!precision_.rounds_activations || !attend || !attend->latent) return most;
    for (const Weight w : {attend->latent->key_up, attend->latent->key_down, attend->latent->value_up}) {
      const auto kind = simd::kernels().rounding[simd::index(program_.tensor(w).storage)];
      most = std::max(most, kind == simd::Rounding::bf16 ? kBfloat16 : kind == simd::Rounding::q15 ? kQ15 : kFloat32);
    }
    return most;
  }

  void put_states(ReferenceState<double>& state) const {
    state.clear_states();
    auto from = before_.begin();
    for (auto& numbers : state.states) {
      std::copy_n(from, numbers.size(), numbers.begin());
      from += static_cast<std::ptrdiff_t>(numbers.size());
    }
  }

  // What each dot multiplies its weight with: the executor's own input, its norm's scalar aside, rounded as it rounds.
  // Nothing where dots take it exactly.
  std::optional<DotInputs> rounded_inputs(const Step& step, std::size_t tokens) {
    if (!precision_.rounds_activations) return {};
    if (const auto* project = std::get_if<Project>(&step.op); project != nullptr && !project->exact)
      return dot_inputs(project->in, project->norm, project->dots, tokens);
    if (const auto* experts = std::get_if<Experts>(&step.op)) {
      const auto chosen = static_cast<std::size_t>(program_.width(experts->ids));
      return dot_inputs(experts->in, experts->norm, experts->dots, experts->per_choice ? tokens * chosen : tokens);
    }
    return {};
  }
  DotInputs dot_inputs(Value value, const std::optional<NormSpec>& norm, const std::vector<Dot>& dots,
                       std::size_t rows) {
    const auto width = static_cast<std::size_t>(program_.tensor(dots[0].weight).cols);
    const float* in = executor_of(session_).value(value);
    std::vector<float> weight;
    if (norm) weight = weights_.vector<float>(norm->weight);
    DotInputs inputs;
    for (const Dot& dot : dots) {
      const auto kind = simd::kernels().rounding[simd::index(program_.tensor(dot.weight).storage)];
      auto& out = inputs.emplace_back(rows * width);
      for (std::size_t r = 0; r < rows; ++r) {
        const float* x = in + r * width;
        double scale = 1;
        if (norm) {
          const double squares = std::inner_product(x, x + width, x, 0.0);
          scale = static_cast<double>(norm->scale) /
                  std::sqrt(squares / static_cast<double>(width) + static_cast<double>(norm->eps));
        }
        rounded(kind, x, norm ? weight.data() : nullptr, width, scale, out.data() + r * width);
      }
    }
    return inputs;
  }

  void read_cache(int cache, ReferenceState<double>& state) {
    const CacheSpec& spec = program_.caches[static_cast<std::size_t>(cache)];
    auto& to = state.caches[static_cast<std::size_t>(cache)];
    std::vector<float> key(static_cast<std::size_t>(spec.head_dim)), value(static_cast<std::size_t>(spec.values()));
    for (int position = 0; position < session_.position(); ++position)
      for (int head = 0; head < spec.kv_heads; ++head) {
        executor_of(session_).cached(cache, position, head, key.data(), value.data());
        to.keys.insert(to.keys.end(), key.begin(), key.end());
        if (!spec.keys_only) to.values.insert(to.values.end(), value.begin(), value.end());
      }
  }

  void compare_value(const Step& step, Value v, ReferenceState<double>& state, std::vector<StepCheck>& checks) {
    const int width = program_.width(v);
    Comparison comparison(step.name, program_.values[id(v)].name, width, tolerance_);
    for (int t = 0; t < state.tokens(); ++t) {
      const float* got = v == program_.logits ? session_.logits(t).data()
                                              : executor_of(session_).value(v) + static_cast<std::ptrdiff_t>(t) * width;
      for (int i = 0; i < width; ++i) comparison.add(got[i], state.at(v, t)[i]);
    }
    checks.push_back(std::move(comparison).verdict());
  }

  void compare_cache(const Step& step, int cache, const ReferenceState<double>& state, std::vector<StepCheck>& checks) {
    const CacheSpec& spec = program_.caches[static_cast<std::size_t>(cache)];
    const auto& expected = state.caches[static_cast<std::size_t>(cache)];
    const double tolerance = std::max(tolerance_, cache_tolerance(precision_.cache));
    Comparison keys(step.name, "key", spec.kv_heads * spec.head_dim, tolerance);
    Comparison values(step.name, "value", spec.kv_heads * spec.values(), tolerance);
    std::vector<float> key(static_cast<std::size_t>(spec.head_dim)), value(static_cast<std::size_t>(spec.values()));
    for (int position = state.position; position < session_.position(); ++position)
      for (int head = 0; head < spec.kv_heads; ++head) {
        executor_of(session_).cached(cache, position, head, key.data(), value.data());
        const auto row = static_cast<std::size_t>(position * spec.kv_heads + head);
        for (std::size_t i = 0; i < key.size(); ++i) keys.add(key[i], expected.keys[row * key.size() + i]);
        for (std::size_t i = 0; i < value.size() && !spec.keys_only; ++i)
          values.add(value[i], expected.values[row * value.size() + i]);
      }
    checks.push_back(std::move(keys).verdict());
    if (!spec.keys_only) checks.push_back(std::move(values).verdict());
  }

  static std::size_t id(Value v) { return static_cast<std::size_t>(v.id); }
  std::size_t numbers(Value v, std::size_t tokens) const {
    return tokens * static_cast<std::size_t>(program_.width(v));
  }

  const Program& program_;
  const ReferenceWeights& weights_;
  ReferenceSteps<double> steps_;
  Session& session_;
  Precision precision_;
  double tolerance_ = kFloat32;  // of the step that is compared
  std::vector<float> before_;    // running states before the eval that is compared
};

}  // namespace

result<std::vector<StepCheck>> check_against_reference(const Model& model, SessionOptions options,
                                                       const WeightBytes& bytes, std::span<const int> ids,
                                                       const std::function<void(double)>& progress) {
  if (ids.size() < 2) return status{Code::invalid_argument, "a check needs at least 2 tokens"};
  auto weights = ReferenceWeights::load(model.program(), bytes);
  if (!weights.ok()) return weights.error();
  options.debug = true;
  options.context = std::max(options.context, static_cast<int>(ids.size()));
  options.batch = static_cast<int>(ids.size());
  auto session = model.session(options);
  if (!session.ok()) return session.error();
  const bool team = options.executor == "team", reference = options.executor.starts_with("reference");
  Checker checker(model.program(), *weights, *session,
                  {team && !options.f32, !team && !reference, reference ? Storage::f32 : session->cache(),
                   options.executor == "persistent"});
  std::vector<StepCheck> checks;
  const double all = static_cast<double>(model.program().steps.size() * ids.size());
  double done = 0;
  for (const auto part : {ids.first(ids.size() - 1), ids.last(1)}) {
    checker.remember_states();
    FOURFOLD_TRY(session->eval(part, static_cast<int>(part.size())));
    checker.compare(part, checks, [&] {
      done += static_cast<double>(part.size());
      if (progress) progress(done / all);
    });
  }
  return checks;
}

namespace {

// FNV-1a over words.                                                        Fowler, Noll and Vo, RFC 9923
std::uint64_t checksum(std::span<const float> numbers) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const float x : numbers) sum = (sum ^ std::bit_cast<std::uint32_t>(x)) * 0x100000001b3u;
  return sum;
}

std::optional<int> first_difference(const auto& a, const auto& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return at == a.end() ? std::nullopt : std::optional(static_cast<int>(at - a.begin()));
}

}  // namespace

result<RepeatCheck> check_repeats(const Model& model, SessionOptions options, int steps,
                                  const std::function<void(double)>& progress) {
  if (steps < 1) return status{Code::invalid_argument, "a check of repeats needs at least 1 step"};
  options.context = std::max(options.context, steps);
  auto session = model.session(options);
  if (!session.ok()) return session.error();
  const auto vocab = static_cast<std::uint64_t>(model.vocab());
  std::array<std::vector<std::uint64_t>, 2> sums;
  for (auto& own : sums) {
    FOURFOLD_TRY(session->rewind(0));
    for (int step = 0; step < steps; ++step) {
      const int id = step == 0 ? 1 : static_cast<int>(own.back() % vocab);
      FOURFOLD_TRY(session->eval({&id, 1}));
      own.push_back(checksum(session->logits()));
      if (progress) progress((&own == &sums[0] ? step : steps + step) / (2.0 * steps));
    }
  }
  RepeatCheck check{steps, first_difference(sums[0], sums[1]), {}};
  if (!session->decodes()) return check;
  const SamplingOptions sampling{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 7};
  std::array<std::vector<int>, 2> ids;
  for (auto& own : ids) {
    FOURFOLD_TRY(session->rewind(0));
    own.resize(static_cast<std::size_t>(steps));
    FOURFOLD_TRY(session->decode(1, own, sampling));
  }
  check.ids_differ = first_difference(ids[0], ids[1]);
  return check;
}

}  // namespace fourfold
