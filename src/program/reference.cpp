#include "program/reference.hpp"

#include <algorithm>
#include <istream>
#include <ostream>

#include "program/noise.hpp"
#include "program/reference_steps.hpp"

namespace fourfold {
namespace {

struct Loaded {
  Program program;
  ReferenceWeights weights;
};

template <class T>
class ReferenceExecutor : public Executor {
 public:
  explicit ReferenceExecutor(std::shared_ptr<const Loaded> model)
      : model_(std::move(model)), steps_(model_->program, model_->weights) {
    state_.program = &model_->program;
    state_.values.resize(model_->program.values.size());
    state_.caches.resize(model_->program.caches.size());
    state_.clear_states();
  }

  void forward(std::span<const int> ids, int position, int wanted, float* logits) override {
    const Program& program = model_->program;
    state_.ids.assign(ids.begin(), ids.end());
    state_.position = position;
    state_.wanted = wanted;
    for (std::size_t v = 0; v < state_.values.size(); ++v) {
      const std::size_t rows = static_cast<int>(v) == program.logits.id ? static_cast<std::size_t>(wanted) : ids.size();
      state_.values[v].assign(rows * static_cast<std::size_t>(program.values[v].width), T{0});
    }
    if (position == 0) state_.clear_states();
    for (const Step& step : program.steps) steps_.run(step, state_);
    const T* out = state_.at(program.logits, 0);
    for (std::int64_t i = 0; i < std::int64_t{wanted} * program.vocab; ++i) logits[i] = static_cast<float>(out[i]);
    for (auto& values : shown_) values.clear();
  }

  void save_cache(std::ostream& out, int positions) const override {
    for (std::size_t c = 0; c < state_.caches.size(); ++c) {
      const auto write = [&](const std::vector<T>& list, std::size_t count) {
        out.write(reinterpret_cast<const char*>(list.data()), static_cast<std::streamsize>(count * sizeof(T)));
      };
      write(state_.caches[c].keys, key_numbers(c, positions));
      write(state_.caches[c].values, value_numbers(c, positions));
    }
    for (const auto& state : state_.states)
      out.write(reinterpret_cast<const char*>(state.data()), static_cast<std::streamsize>(state.size() * sizeof(T)));
  }
  status load_cache(std::istream& in, int positions) override {
    for (std::size_t c = 0; c < state_.caches.size(); ++c) {
      const auto read = [&](std::vector<T>& list, std::size_t count) {
        list.resize(count);
        in.read(reinterpret_cast<char*>(list.data()), static_cast<std::streamsize>(count * sizeof(T)));
      };
      read(state_.caches[c].keys, key_numbers(c, positions));
      read(state_.caches[c].values, value_numbers(c, positions));
    }
    for (auto& state : state_.states)
      in.read(reinterpret_cast<char*>(state.data()), static_cast<std::streamsize>(state.size() * sizeof(T)));
    return in.good() ? status{} : status{Code::malformed, "the saved cache ends early"};
  }
  std::size_t cache_bytes() const override {
    std::size_t sum = 0;
    for (const auto& cache : state_.caches) sum += (cache.keys.size() + cache.values.size()) * sizeof(T);
    for (const auto& state : state_.states) sum += state.size() * sizeof(T);
    return sum;
  }
  void randomize_cache(int positions, std::uint64_t seed) override {
    Noise noise(seed);
    for (std::size_t c = 0; c < state_.caches.size(); ++c) {
      state_.caches[c].keys.resize(key_numbers(c, positions));
      state_.caches[c].values.resize(value_numbers(c, positions));
      for (auto* list : {&state_.caches[c].keys, &state_.caches[c].values})
        for (T& x : *list) x = noise();
    }
    for (auto& state : state_.states)
      for (T& x : state) x = noise();
  }

  void read_states(std::span<float> out) const override {
    auto to = out.begin();
    for (const auto& state : state_.states) to = std::copy(state.begin(), state.end(), to);
  }
  void write_states(std::span<const float> states) override {
    auto from = states.begin();
    for (auto& state : state_.states) {
      std::copy_n(from, state.size(), state.begin());
      from += static_cast<std::ptrdiff_t>(state.size());
    }
  }

  const float* value(Value v) const override {
    shown_.resize(state_.values.size());
    const auto& from = state_.values[static_cast<std::size_t>(v.id)];
    auto& to = shown_[static_cast<std::size_t>(v.id)];
    to.assign(from.begin(), from.end());
    return to.data();
  }
  void cached(int cache, int position, int head, float* key, float* value) const override {
    const CacheSpec& spec = model_->program.caches[static_cast<std::size_t>(cache)];
    const auto& c = state_.caches[static_cast<std::size_t>(cache)];
    const std::ptrdiff_t row = std::ptrdiff_t{position} * spec.kv_heads + head;
    std::copy_n(c.keys.begin() + row * spec.head_dim, spec.head_dim, key);
    if (!spec.keys_only) std::copy_n(c.values.begin() + row * spec.values(), spec.values(), value);
  }

 private:
  std::size_t key_numbers(std::size_t cache, int positions) const {
    const CacheSpec& spec = model_->program.caches[cache];
    return static_cast<std::size_t>(positions) * static_cast<std::size_t>(spec.kv_heads * spec.head_dim);
  }
  std::size_t value_numbers(std::size_t cache, int positions) const {
    const CacheSpec& spec = model_->program.caches[cache];
    return static_cast<std::size_t>(positions) * static_cast<std::size_t>(spec.width()) - key_numbers(cache, positions);
  }

  std::shared_ptr<const Loaded> model_;
  ReferenceSteps<T> steps_;
  ReferenceState<T> state_{};
  mutable std::vector<std::vector<float>> shown_;
};

template <class T>
class ReferenceBackend : public Backend {
 public:
  explicit ReferenceBackend(std::shared_ptr<const Loaded> model) : model_(std::move(model)) {}
  std::string name() const override { return sizeof(T) == sizeof(double) ? "reference, double" : "reference, float"; }
  std::size_t weight_bytes() const override { return model_->weights.bytes(); }
  result<std::unique_ptr<Executor>> plan(const PlanOptions&) override {
    return std::unique_ptr<Executor>(std::make_unique<ReferenceExecutor<T>>(model_));
  }

 private:
  std::shared_ptr<const Loaded> model_;
};

}  // namespace

result<std::unique_ptr<Backend>> make_reference(const Program& program, const WeightBytes& bytes,
                                                const BackendOptions& options, bool in_double) {
  auto weights = ReferenceWeights::load(program, bytes);
  if (!weights.ok()) return weights.error();
  if (options.progress) options.progress(1);
  auto model = std::make_shared<const Loaded>(Loaded{program, std::move(weights).value()});
  if (in_double) return std::unique_ptr<Backend>(std::make_unique<ReferenceBackend<double>>(std::move(model)));
  return std::unique_ptr<Backend>(std::make_unique<ReferenceBackend<float>>(std::move(model)));
}

}  // namespace fourfold
