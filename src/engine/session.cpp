#include <algorithm>
#include <bit>
#include <utility>

#include "engine/session_file.hpp"
#include "engine/session_state.hpp"
#include "text/sampling.hpp"

namespace fourfold {
namespace {

constexpr int kDefaultContext = 8192;  // at most, unless asked for
constexpr int kMaxBatch = 4096;
constexpr int kMaxPage = 256;

status check(const SessionOptions& options, const Program& program) {
  const auto invalid = [](const std::string& message) { return status{Code::invalid_argument, message}; };
  if (options.context < 0 || options.context > program.context)
    return invalid("context " + std::to_string(options.context) + " is out of range; accepted: 1 to " +
                   std::to_string(program.context) + ", the length the model was made for (0: the default)");
  if (options.batch < 1 || options.batch > kMaxBatch)
    return invalid("batch " + std::to_string(options.batch) + " is out of range; accepted: 1 to " +
                   std::to_string(kMaxBatch));
  if (options.page < 1 || options.page > kMaxPage || !std::has_single_bit(static_cast<unsigned>(options.page)))
    return invalid("page " + std::to_string(options.page) + " is out of range; accepted: 1, 2, 4, 8 .. " +
                   std::to_string(kMaxPage));
  if (options.threads < 0) return invalid("threads " + std::to_string(options.threads) + " is negative");
  return {};
}

}  // namespace

result<std::unique_ptr<Session::State>> Session::State::make(const Model& model, const WeightBytes& weights,
                                                             std::shared_ptr<Backend> backend,
                                                             const SessionOptions& options) {
  const Program& program = model.program();
  auto state = std::make_unique<State>(State{model, std::move(backend), &weights, options, {}, {}, {}, {}, 0});
  if (options.context == 0) state->options.context = std::min(program.context, kDefaultContext);
  if (!options.cache) state->options.cache = options.f32 ? Storage::f32 : Storage::f16;
  state->plan = {state->options.context, std::min(options.batch, state->options.context),
                 *state->options.cache,  options.debug,
                 options.page,           options.executor};
  auto executor = state->backend->plan(state->plan);
  if (!executor.ok()) return executor.error();
  state->executor = std::move(executor).value();
  return state;
}

result<Session> Model::session(const SessionOptions& options) const {
  FOURFOLD_TRY(check(options, program()));
  auto backend = state_->backend(options);
  if (!backend.ok()) return backend.error();
  auto state = Session::State::make(*this, *state_->bytes, std::move(backend).value(), options);
  if (!state.ok()) return state.error();
  return Session{std::move(state).value()};
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

std::span<const int> Session::ids() const { return state_->ids; }
int Session::context() const { return state_->options.context; }
std::string Session::executor() const { return state_->backend->name(); }
std::size_t Session::weight_bytes() const { return state_->backend->weight_bytes(); }
std::size_t Session::cache_bytes() const { return state_->executor->cache_bytes(); }
Storage Session::cache() const { return *state_->options.cache; }
const Model& Session::model() const { return state_->model; }
Executor& executor_of(Session& session) { return *session.state_->executor; }

std::span<const float> Session::logits(int i) const {
  const auto vocab = static_cast<std::size_t>(state_->model.vocab()), row = static_cast<std::size_t>(i);
  if (i < 0 || row >= state_->logits.size() / vocab) return {};
  return std::span<const float>(state_->logits).subspan(row * vocab, vocab);
}

status Session::eval(std::span<const int> ids, int wanted, const std::atomic<bool>* cancel) {
  State& s = *state_;
  const int vocab = s.model.vocab(), count = static_cast<int>(ids.size());
  if (ids.empty()) return {Code::invalid_argument, "there is no token to evaluate"};
  if (wanted < 0 || wanted > count)
    return {Code::invalid_argument,
            "logits of " + std::to_string(wanted) + " tokens wanted of " + std::to_string(count)};
  for (int id : ids)
    if (id < 0 || id >= vocab)
      return {Code::invalid_argument, "token id " + std::to_string(id) + " is outside the vocabulary; accepted: 0 to " +
                                          std::to_string(vocab - 1)};
  if (ids.size() > static_cast<std::size_t>(s.options.context - position()))
    return {Code::resource, std::to_string(ids.size()) + " tokens do not fit: the context holds " +
                                std::to_string(s.options.context) +
                                (position() > 0 ? ", of which " + std::to_string(position()) + " are taken" : "")};
  s.logits.resize(static_cast<std::size_t>(wanted) * static_cast<std::size_t>(vocab));
  return s.advance(ids, wanted, s.logits.data(), cancel);
}

status Session::State::advance(std::span<const int> more, int wanted, float* out, const std::atomic<bool>* cancel) {
  const int count = static_cast<int>(more.size());
  const int first_wanted = count - wanted;  // index of the first id whose logits are kept
  for (int done = 0; done < count;) {
    if (cancel && cancel->load())
      return {Code::cancelled,
              "interrupted after " + std::to_string(done) + " of " + std::to_string(count) + " tokens"};
    int n = std::min(plan.batch, count - done);
    if (count - done - n == 1 && n > 2) --n;  // one token alone would count as decoded, where that makes a difference
    const int want = std::clamp(done + n - first_wanted, 0, n);
    const auto row = static_cast<std::size_t>(std::max(0, done - first_wanted));
    const auto batch = more.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(n));
    FOURFOLD_TRY(executor->forward(batch, static_cast<int>(ids.size()), want,
                                   out + row * static_cast<std::size_t>(model.vocab())));
    ids.insert(ids.end(), batch.begin(), batch.end());
    done += n;
  }
  return {};
}

namespace {

Choice choice_of(const SamplingOptions& o) {
  if (o.temperature <= 0) return {};
  return {o.temperature, std::max(0, o.top_k), o.top_p, o.min_p, seed_of(o)};
}

}  // namespace

bool Session::decodes(const SamplingOptions& how) const {
  return only_filters(how) && state_->executor->decodes(choice_of(how));
}

status Session::decode(int id, std::span<int> out, const SamplingOptions& how) {
  State& s = *state_;
  FOURFOLD_TRY(validate(how));
  if (!decodes(how)) return {Code::unsupported, "executor " + s.backend->name() + " does not choose ids by itself so"};
  if (out.empty()) return {};
  if (id < 0 || id >= s.model.vocab())
    return {Code::invalid_argument, "token id " + std::to_string(id) + " is outside the vocabulary"};
  if (out.size() > static_cast<std::size_t>(s.options.context - position()))
    return {Code::resource, std::to_string(out.size()) + " tokens do not fit: the context holds " +
                                std::to_string(s.options.context) + ", of which " + std::to_string(position()) +
                                " are taken"};
  s.logits.clear();
  FOURFOLD_TRY(s.executor->decode(id, position(), choice_of(how), out));
  s.ids.push_back(id);
  s.ids.insert(s.ids.end(), out.begin(), out.end() - 1);
  return {};
}

status Session::rewind(int position) {
  State& s = *state_;
  if (position < 0 || position > this->position())
    return {Code::invalid_argument, "position " + std::to_string(position) + " is out of range; accepted: 0 to " +
                                        std::to_string(this->position())};
  if (position == this->position()) return {};
  s.logits.clear();
  const int held = s.executor->rewind(position);
  const std::vector<int> again(s.ids.begin() + held, s.ids.begin() + position);
  s.ids.resize(static_cast<std::size_t>(held));
  if (again.empty()) return {};
  if (held < std::exchange(s.filled, 0))
    return {Code::unsupported, "position " + std::to_string(position) +
                                   " lies before what the caches' windows hold, and random values cannot be evaluated "
                                   "again; fork the session before it goes on"};
  return s.advance(again, 0, nullptr, nullptr);
}

status Session::fill(int positions, std::uint64_t seed) {
  if (positions < 0 || positions > context())
    return {Code::invalid_argument,
            "cannot fill " + std::to_string(positions) + " positions of a context of " + std::to_string(context())};
  state_->ids.clear();
  state_->logits.clear();
  FOURFOLD_TRY(state_->executor->randomize_cache(positions, seed));
  state_->ids.assign(static_cast<std::size_t>(positions), 0);
  state_->filled = positions;
  return {};
}

result<Session> Session::fork() const {
  auto executor = state_->executor->fork();
  if (!executor.ok()) return executor.error();
  const State& s = *state_;
  return Session{std::make_unique<State>(
      State{s.model, s.backend, s.weights, s.options, s.plan, std::move(executor).value(), s.ids, s.logits, s.filled})};
}

status Session::save(const std::string& path) const {
  const State& s = *state_;
  return write_session(path, {model().program(), *s.weights, *s.executor, context()}, s.ids);
}

status Session::restore(const std::string& path) {
  State& s = *state_;
  auto saved = read_session(path, {model().program(), *s.weights, *s.executor, context()},
                            [&s] { return s.backend->plan(s.plan); });
  if (!saved.ok()) return saved.error();
  s.executor = std::move(saved->executor);
  s.ids = std::move(saved->ids);
  s.logits.clear();
  s.filled = 0;
  return {};
}

}  // namespace fourfold
