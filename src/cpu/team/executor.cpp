#include "cpu/team/executor.hpp"

#include <cmath>

#include "cpu/team/team.hpp"
#include "cpu/topology.hpp"

namespace fourfold::team {

TeamExecutor::TeamExecutor(std::shared_ptr<TeamModel> model, const PlanOptions& options, TeamCache cache)
    : model_(std::move(model)),
      k_(*model_->kernels),
      options_(options),
      plan_(resolve(model_->program, model_->weights, k_, model_->pool->threads(), model_->f32, options.debug)),
      cache_(std::move(cache)),
      running_(static_cast<std::size_t>(model_->program.state_numbers())),
      checkpoint_(running_.size()),
      queue_(model_->pool->threads()) {
  const auto batch = static_cast<std::size_t>(options.batch);
  arena_.resize(static_cast<std::size_t>(plan_.arena.width) * batch);
  scale_.resize(batch);
  int heads = 0, kv_heads = 0, value_dim = 0, rows = 0;
  for (const TeamStep& step : plan_.steps) {
    if (const auto* attend = std::get_if<TeamAttend>(&step)) {
      heads = std::max(heads, attend->heads);
      kv_heads = std::max(kv_heads, attend->kv_heads);
      rows = std::max(rows, attend->heads / attend->kv_heads * kQueryTile);
      value_dim = std::max(value_dim, attend->shape.value);
    }
    if (const auto* latent = std::get_if<TeamLatent>(&step)) {
      heads = std::max(heads, latent->attend.heads);
      value_dim = std::max(value_dim, latent->rank);
      latent_.resize(*latent, options.batch, options.context);
    }
  }
  for (const RopeSpec& rope : model_->program.ropes) {
    cos_.emplace_back(batch * static_cast<std::size_t>(rope.dims / 2));
    sin_.emplace_back(batch * static_cast<std::size_t>(rope.dims / 2));
  }
  blocks_ = (options.context + simd::kBlockKeys - 1) / simd::kBlockKeys;
  states_.resize(static_cast<std::size_t>(heads) * static_cast<std::size_t>(blocks_) * simd::state_floats(value_dim));
  done_ = std::vector<std::atomic<int>>(static_cast<std::size_t>(std::max(1, kv_heads)));
  key_.resize(simd::kMaxHeadDim);
  locals_.resize(static_cast<std::size_t>(model_->pool->threads()));
  for (std::size_t kind = 0; kind < 3; ++kind)
    if (plan_.prepared[kind] > 0) prepared_[kind].resize(batch * plan_.prepared[kind] + 64);
  lists_.resize(plan_.max_experts, batch * static_cast<std::size_t>(plan_.max_chosen));
  for (Local& local : locals_) {
    for (std::size_t kind = 0; kind < 3; ++kind)
      if (plan_.prepared[kind] > 0) local.prepared[kind].resize(plan_.prepared[kind] + 64);
    local.ids.resize(static_cast<std::size_t>(plan_.max_chosen));
    local.weights.resize(static_cast<std::size_t>(plan_.max_chosen));
    local.route.experts.reserve(static_cast<std::size_t>(plan_.max_experts));
    local.route.groups.reserve(static_cast<std::size_t>(plan_.max_experts));
    local.row.resize(static_cast<std::size_t>(plan_.max_width));
    local.out.resize(
        std::max(batch * static_cast<std::size_t>(plan_.max_unit_rows), static_cast<std::size_t>(plan_.max_rows)));
    local.out2.resize(local.out.size());
    reserve_scratch(local);
    for (const TeamStep& step : plan_.steps)
      if (const auto* latent = std::get_if<TeamLatent>(&step))
        local.latent.resize(*latent, options.context, options.cache);
    local.states.resize(2 * static_cast<std::size_t>(rows) * simd::state_floats(value_dim));
  }
}

float* TeamExecutor::at(Value v, int tokens, int token) const {
  if (v == model_->program.logits) return logits_ + static_cast<std::ptrdiff_t>(token) * width(v);
  return const_cast<float*>(arena_.data()) + plan_.arena.offset[static_cast<std::size_t>(v.id)] * tokens +
         static_cast<std::ptrdiff_t>(token) * width(v);
}

status TeamExecutor::forward(std::span<const int> ids, int position, int wanted, float* logits) {
  FOURFOLD_TRY(cache_.prepare(position, static_cast<int>(ids.size())));
  ids_ = ids;
  position_ = position;
  wanted_ = wanted;
  logits_ = logits;
  if (position == 0) std::fill(running_.begin(), running_.end(), 0.0f);
  if (ids.size() > 1) {
    std::copy(running_.begin(), running_.end(), checkpoint_.begin());
    checked_ = position;
  }
  end_ = position + static_cast<int>(ids.size());
  const std::lock_guard turn(model_->running);
  return model_->pool->run([this](Worker& worker) {
    make_rope_tables(worker);
    const bool decode = ids_.size() == 1;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      std::visit([&](const auto& s) { run_step(worker, s); }, plan_.steps[i]);
      if (!decode) {
        worker.barrier();
        continue;
      }
      WarmUp next = warm_up_after(i, worker);
      worker.barrier([&next]() noexcept { return next.touch(); });
    }
  });
}

// What this worker's next Project reads first: no result of the steps before it can change that.
WarmUp TeamExecutor::warm_up_after(std::size_t i, const Worker& worker) const {
  for (++i; i < plan_.steps.size(); ++i) {
    if (std::holds_alternative<TeamRoute>(plan_.steps[i])) break;
    if (const auto* experts = std::get_if<TeamExperts>(&plan_.steps[i])) return warm_up(*experts, worker);
    const auto* project = std::get_if<TeamProject>(&plan_.steps[i]);
    if (!project) continue;
    const std::vector<Unit>& stretches = project->stretches;
    const Unit& own =
        stretches[stretches.size() / static_cast<std::size_t>(worker.count) * static_cast<std::size_t>(worker.index)];
    const std::uint8_t* weights = project->dots[static_cast<std::size_t>(own.dot)].row(own.row);
    return {weights, weights + std::min(static_cast<std::size_t>(own.bytes), kWarmUpBytes)};
  }
  return {};
}

void TeamExecutor::make_rope_tables(Worker& worker) {
  const Share share = worker.share(static_cast<std::int64_t>(ids_.size()));
  for (std::size_t r = 0; r < cos_.size(); ++r) {
    const auto& [dims, interleaved, frequency, skip, scale] = model_->program.ropes[r];
    for (std::int64_t t = share.begin; t < share.end; ++t)
      for (std::size_t i = 0; i < frequency.size(); ++i) {
        const double angle = static_cast<double>(position_ + t) * frequency[i];
        const std::size_t place = static_cast<std::size_t>(t) * frequency.size() + i;
        cos_[r][place] = static_cast<float>(scale * std::cos(angle));
        sin_[r][place] = static_cast<float>(scale * std::sin(angle));
      }
  }
}

void TeamExecutor::run_step(Worker& worker, const TeamEmbed& step) {
  const int tokens = static_cast<int>(ids_.size());
  const Share share = worker.share(tokens);
  for (std::int64_t t = share.begin; t < share.end; ++t) {
    const int id = ids_[static_cast<std::size_t>(t)];
    float* out = at(step.out, tokens, static_cast<int>(t));
    simd::unpack_row(step.table.storage, step.table.cols, step.table.tile(id / simd::kTileRows), id % simd::kTileRows,
                     out);
    if (step.scale != 1) k_.scale(out, step.scale, step.table.cols);
  }
}

const float* TeamExecutor::value(Value v) const { return at(v, static_cast<int>(ids_.size())); }

// States go back to the last checkpoint at or before `position`, keys and values to it.
int TeamExecutor::rewind(int position) {
  if (position == end_) return position;
  if (!running_.empty()) position = position >= checked_ ? checked_ : 0;
  end_ = cache_.rewind(position) ? position : 0;
  checked_ = std::min(checked_, end_);
  if (end_ > 0) std::copy(checkpoint_.begin(), checkpoint_.end(), running_.begin());
  return end_;
}

result<std::unique_ptr<Executor>> TeamExecutor::fork() const {
  auto cache = cache_.fork();
  if (!cache.ok()) return cache.error();
  auto copy = std::make_unique<TeamExecutor>(model_, options_, std::move(cache).value());
  copy->running_ = running_;
  copy->checkpoint_ = running_;
  copy->end_ = copy->checked_ = end_;
  return std::unique_ptr<Executor>(std::move(copy));
}

status TeamExecutor::jump(int position) {
  end_ = checked_ = position;
  return cache_.jump(position);
}

namespace {

class TeamBackend : public Backend {
 public:
  explicit TeamBackend(std::shared_ptr<TeamModel> model) : model_(std::move(model)) {}

  std::string name() const override {
    const int threads = model_->pool->threads();
    return "team, " + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + model_->kernels->name;
  }
  std::size_t weight_bytes() const override { return model_->weights.bytes(); }

  result<std::unique_ptr<Executor>> plan(const PlanOptions& options) override {
    FOURFOLD_TRY(check_team(model_->program, options.cache));
    auto cache = TeamCache::create(model_->program, options);
    if (!cache.ok()) return cache.error();
    return std::unique_ptr<Executor>(std::make_unique<TeamExecutor>(model_, options, std::move(cache).value()));
  }

 private:
  std::shared_ptr<TeamModel> model_;
};

}  // namespace
}  // namespace fourfold::team

namespace fourfold {

result<std::unique_ptr<Backend>> make_team(const Program& program, const WeightBytes& bytes,
                                           const BackendOptions& options) {
  FOURFOLD_TRY(team::check_team(program, {}));
  auto pool = Pool::create(options.threads > 0 ? options.threads : default_threads());
  if (!pool.ok()) return pool.error();
  auto weights = team::TeamWeights::load(program, bytes, **pool, options.progress);
  if (!weights.ok()) return weights.error();
  std::shared_ptr<team::TeamModel> model(
      new team::TeamModel{program, std::move(pool).value(), &simd::kernels(), std::move(weights).value(), options.f32});
  return std::unique_ptr<Backend>(std::make_unique<team::TeamBackend>(std::move(model)));
}

}  // namespace fourfold
