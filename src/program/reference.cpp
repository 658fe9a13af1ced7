#include "program/reference.hpp"

#include <algorithm>
#include <cstring>

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

  status forward(std::span<const int> ids, int position, int wanted, float* logits) override {
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
    end_ = position + static_cast<int>(ids.size());
    return {};
  }

  int rewind(int position) override {
    const bool gone = position < jumped_ || (position < end_ && !state_.states.empty());
    end_ = gone ? jumped_ = 0 : position;
    resize_caches(end_);
    return end_;
  }
  result<std::unique_ptr<Executor>> fork() const override {
    auto copy = std::make_unique<ReferenceExecutor>(model_);
    copy->state_.caches = state_.caches;
    copy->state_.states = state_.states;
    copy->jumped_ = jumped_;
    copy->end_ = end_;
    return std::unique_ptr<Executor>(std::move(copy));
  }
  std::size_t cache_bytes() const override {
    std::size_t sum = 0;
    for (const auto& cache : state_.caches) sum += (cache.keys.size() + cache.values.size()) * sizeof(T);
    for (const auto& state : state_.states) sum += state.size() * sizeof(T);
    return sum;
  }

  std::string_view row_format() const override { return sizeof(T) == sizeof(double) ? "f64" : "f32"; }
  std::size_t row_bytes(int cache) const override {
    return static_cast<std::size_t>(model_->program.caches[static_cast<std::size_t>(cache)].width()) * sizeof(T);
  }
  void read_rows(int cache, int first, int count, std::byte* out) const override {
    each_piece(state_.caches, cache, first, count, [&](const T* row, std::size_t bytes) {
      std::memcpy(out, row, bytes);
      out += bytes;
    });
  }
  status jump(int position) override {
    resize_caches(position);
    jumped_ = end_ = position;
    return {};
  }
  void write_rows(int cache, int first, int count, const std::byte* in) override {
    each_piece(state_.caches, cache, first, count, [&](T* row, std::size_t bytes) {
      std::memcpy(row, in, bytes);
      in += bytes;
    });
  }
  status randomize_cache(int positions, std::uint64_t seed) override {
    FOURFOLD_TRY(jump(positions));
    Noise noise(seed);
    for (auto& cache : state_.caches)
      for (auto* list : {&cache.keys, &cache.values})
        for (T& x : *list) x = noise();
    for (auto& state : state_.states)
      for (T& x : state) x = noise();
    return {};
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
  // Calls visit(numbers, bytes) for the key and then the value of each kv head, position after position.
  template <class Caches, class Visit>
  void each_piece(Caches& caches, int cache, int first, int count, Visit&& visit) const {
    const CacheSpec& spec = model_->program.caches[static_cast<std::size_t>(cache)];
    auto& c = caches[static_cast<std::size_t>(cache)];
    for (std::ptrdiff_t row = std::ptrdiff_t{first} * spec.kv_heads;
         row < std::ptrdiff_t{first + count} * spec.kv_heads; ++row) {
      visit(c.keys.data() + row * spec.head_dim, static_cast<std::size_t>(spec.head_dim) * sizeof(T));
      if (!spec.keys_only)
        visit(c.values.data() + row * spec.values(), static_cast<std::size_t>(spec.values()) * sizeof(T));
    }
  }
  void resize_caches(int positions) {
    for (std::size_t c = 0; c < state_.caches.size(); ++c) {
      state_.caches[c].keys.resize(key_numbers(c, positions));
      state_.caches[c].values.resize(value_numbers(c, positions));
    }
  }
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
  int end_ = 0;     // positions evaluated
  int jumped_ = 0;  // the caches may lack what a window did not need there
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
