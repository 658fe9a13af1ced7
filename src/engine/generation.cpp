#include <algorithm>

#include "engine/session_state.hpp"
#include "text/sampling.hpp"
#include "text/utf8.hpp"

namespace fourfold {

std::string_view name(Finish finish) {
  switch (finish) {
    case Finish::running:
      return "running";
    case Finish::eos:
      return "eos";
    case Finish::length:
      return "length";
    case Finish::context:
      return "context";
    case Finish::stop:
      return "stop";
    case Finish::cancelled:
      return "cancelled";
    case Finish::error:
      return "error";
  }
  return "error";
}

namespace {

DryBreakers breakers(const Model& model, const SamplingOptions& options) {
  if (options.dry_multiplier == 0 || !model.tokenizer().ok()) return {};
  return dry_breakers(*model.tokenizer(), options.dry_sequence_breakers);
}

}  // namespace

struct FOURFOLD_LOCAL Generation::State {
  State(Session& session, const GenerateOptions& options)
      : session(session),
        options(options),
        sampler(options.sampling, session.model().vocab(), breakers(session.model(), options.sampling)) {
    this->options.sampling.seed = sampler.seed();
  }

  Session& session;
  GenerateOptions options;
  Sampler sampler;
  Utf8Stream utf8{};
  std::vector<int> ids{};
  std::string piece{};    // what next() returned
  std::string pending{};  // text held back because a stop string may begin in it
  Finish finish = Finish::running;
  status error{};
  int start = 0, reached = -1;  // positions: behind the prompt, and behind what was evaluated ahead
  std::vector<int> ahead{};     // ids that the executor chose by itself
  std::size_t taken = 0;        // of them

  void end(Finish why) {
    if (finish != Finish::running) return;
    finish = why;
    forget_ahead();
  }
  // What was evaluated beyond the ids that were taken, unless the session has moved on since. Once: a generation that
  // has ended may outlive its session.
  void forget_ahead() {
    const int whole = start + static_cast<int>(ids.size());
    if (reached > whole && session.position() == reached) static_cast<void>(session.rewind(whole));
    reached = -1;
  }
  void fail(status s) {
    end(s.code() == Code::cancelled ? Finish::cancelled : Finish::error);
    error = std::move(s);
  }
  bool is_end(int id) const {
    const auto& tokenizer = session.model().tokenizer();
    return !options.ignore_eos && tokenizer.ok() && tokenizer->is_end(id);
  }
  std::string text_of(int id) const {
    const auto& tokenizer = session.model().tokenizer();
    return tokenizer.ok() ? tokenizer->piece(id, options.special) : std::string{};
  }
  std::string release(bool at_end);
  std::optional<int> step();
  std::optional<int> choose();
};

// Moves text out of `pending`: all of it, or what precedes a stop string or the beginning of one.
std::string Generation::State::release(bool at_end) {
  std::size_t keep = pending.size();
  for (const std::string& stop : options.stop) {
    if (stop.empty()) continue;
    if (const std::size_t found = pending.find(stop); found != std::string::npos) {
      end(Finish::stop);
      finish = Finish::stop;
      pending.resize(found);
      return std::exchange(pending, {});
    }
    for (std::size_t n = std::min(stop.size() - 1, pending.size()); n > 0 && !at_end; --n)
      if (pending.ends_with(std::string_view(stop).substr(0, n))) {
        keep = std::min(keep, pending.size() - n);
        break;
      }
  }
  std::string out = pending.substr(0, keep);
  pending.erase(0, keep);
  return out;
}

// The next id: sampled from the last logits, or chosen ahead by an executor that can choose so.
std::optional<int> Generation::State::choose() {
  constexpr int kAhead = 16;
  if (taken < ahead.size()) return ahead[taken++];
  if (ids.empty()) return sampler.sample(session.logits());
  if (session.position() == session.context()) return end(Finish::context), std::nullopt;
  if (!session.decodes(options.sampling)) {
    if (status s = session.eval({&ids.back(), 1}); !s.ok()) return fail(std::move(s)), std::nullopt;
    return sampler.sample(session.logits());
  }
  int n = std::min(kAhead, session.context() - session.position());
  if (options.max_tokens >= 0) n = std::min(n, options.max_tokens - static_cast<int>(ids.size()));
  ahead.assign(static_cast<std::size_t>(n), 0);
  taken = 0;
  if (status s = session.decode(ids.back(), ahead, options.sampling); !s.ok()) return fail(std::move(s)), std::nullopt;
  reached = session.position();
  return ahead[taken++];
}

// Chooses one more id, unless the generation ends; what was evaluated beyond its end is forgotten.
std::optional<int> Generation::State::step() {
  const auto& cancel = options.cancel;
  if (finish != Finish::running) return {};
  if (cancel && cancel->load()) return end(Finish::cancelled), std::nullopt;
  if (options.max_tokens >= 0 && static_cast<int>(ids.size()) >= options.max_tokens)
    return end(Finish::length), std::nullopt;
  const auto chosen = choose();
  if (!chosen) return {};
  const int id = *chosen;
  if (is_end(id)) return end(Finish::eos), std::nullopt;
  sampler.accept(id);
  ids.push_back(id);
  return id;
}

std::optional<std::string_view> Generation::next() {
  State& s = *state_;
  if (s.finish != Finish::running) return {};
  if (const auto id = s.step()) {
    s.pending += s.utf8.push(s.text_of(*id));
    s.piece = s.release(false);
    return s.piece;
  }
  s.pending += s.utf8.flush();
  s.piece = s.release(true);
  return s.piece.empty() ? std::nullopt : std::optional<std::string_view>(s.piece);
}

Generation::Generation(std::unique_ptr<State> state) : state_(std::move(state)) {}
Generation::Generation(Generation&&) noexcept = default;
Generation& Generation::operator=(Generation&&) noexcept = default;
Generation::~Generation() {
  if (state_) state_->forget_ahead();
}
std::span<const int> Generation::ids() const { return state_->ids; }
Finish Generation::finish() const { return state_->finish; }
const status& Generation::error() const { return state_->error; }

Generation Session::generate(std::span<const int> prompt, const GenerateOptions& options) {
  const status valid = validate(options.sampling);
  GenerateOptions checked = options;
  if (!valid.ok()) checked.sampling = {};
  auto state = std::make_unique<Generation::State>(*this, checked);
  if (!valid.ok()) state->fail(valid);
  if (prompt.empty() && state_->logits.empty()) state->fail({Code::invalid_argument, "the prompt is empty"});
  for (int id : ids()) state->sampler.accept(id);
  if (valid.ok() && !prompt.empty()) {
    if (status s = eval(prompt, 1, options.cancel); !s.ok()) state->fail(std::move(s));
    for (int id : prompt) state->sampler.accept(id);
  }
  state->start = position();
  return Generation{std::move(state)};
}

Generation Session::generate(std::string_view prompt, const GenerateOptions& options) {
  const auto ids = model().tokenize(prompt);
  if (ids.ok()) return generate(std::span<const int>(*ids), options);
  auto state = std::make_unique<Generation::State>(*this, GenerateOptions{});
  state->fail(ids.error());
  return Generation{std::move(state)};
}

}  // namespace fourfold
