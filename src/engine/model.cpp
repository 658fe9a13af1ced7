#include <utility>

#include "cpu/team/team.hpp"
#ifdef FOURFOLD_CUDA
#include "cuda/backend.hpp"
#endif
#include "engine/checkpoint_bytes.hpp"
#include "engine/model_state.hpp"
#include "models/random_weights.hpp"
#include "program/reference.hpp"
#include "text/model_text.hpp"

namespace fourfold {
namespace {

// These share a backend: the weights on the device.
bool is_cuda(const std::string& executor) {
  return executor == "graph" || executor == "stream" || executor == "persistent";
}

result<std::unique_ptr<Backend>> make_backend(const Program& program, const WeightBytes& bytes,
                                              const SessionOptions& options) {
  const BackendOptions how{options.device, options.threads, options.f32, options.progress};
  if (options.executor == "team") return make_team(program, bytes, how);
  if (options.executor == "reference") return make_reference(program, bytes, how, true);
  if (options.executor == "reference-f32") return make_reference(program, bytes, how, false);
  if (is_cuda(options.executor)) {
#ifdef FOURFOLD_CUDA
    return make_cuda(program, bytes, how);
#else
    return status{Code::unsupported, "executor '" + options.executor +
                                         "' needs a build with CUDA; this one has team, reference, reference-f32"};
#endif
  }
  return status{Code::invalid_argument,
                "executor '" + options.executor +
                    "' is not known; accepted: team, reference, reference-f32, graph, stream, persistent"};
}

}  // namespace

result<std::shared_ptr<Backend>> Model::State::backend(const SessionOptions& options) {
  const std::lock_guard lock(guard_);
  const std::string key = is_cuda(options.executor)
                              ? "cuda/" + std::to_string(options.device)
                              : options.executor + "/" + std::to_string(options.threads) + (options.f32 ? "/f32" : "");
  if (auto made = backends_[key].lock()) return made;
  auto fresh = make_backend(spec.program, *bytes, options);
  if (!fresh.ok()) return fresh.error();
  std::shared_ptr<Backend> shared = std::move(fresh).value();
  backends_[key] = shared;
  return shared;
}

const Program& Model::program() const { return state_->spec.program; }
const std::string& Model::path() const { return state_->path; }
std::uint64_t Model::file_bytes() const { return state_->checkpoint ? state_->checkpoint->file_bytes() : 0; }
const result<Tokenizer>& Model::tokenizer() const { return state_->tokenizer; }

result<std::vector<int>> Model::tokenize(std::string_view text, const TokenizeOptions& options) const {
  if (!state_->tokenizer.ok()) return state_->tokenizer.error();
  return state_->tokenizer->encode(text, {options.bos, options.special});
}

result<std::string> Model::detokenize(std::span<const int> ids, bool special) const {
  if (!state_->tokenizer.ok()) return state_->tokenizer.error();
  return state_->tokenizer->decode(ids, special);
}

result<std::string> Model::chat_template() const {
  if (!state_->checkpoint) return status{Code::not_found, "a named shape has no chat template"};
  return read_chat_template(*state_->checkpoint);
}

Model Model::with(const std::function<void(Program&)>& change) const {
  auto state = std::make_shared<State>();
  state->path = state_->path;
  state->checkpoint = state_->checkpoint;
  state->spec = state_->spec;
  state->bytes = state_->bytes;
  state->tokenizer = state_->tokenizer;
  change(state->spec.program);
  return Model{std::move(state)};
}

result<Model> load(const std::string& path) {
  auto checkpoint = open_checkpoint(path);
  if (!checkpoint.ok()) return checkpoint.error();
  auto state = std::make_shared<Model::State>();
  state->path = path;
  state->checkpoint = std::make_shared<const Checkpoint>(std::move(checkpoint).value());
  auto spec = read_model(*state->checkpoint);
  if (!spec.ok()) return status{spec.error().code(), state->checkpoint->name() + ": " + spec.error().message()};
  state->spec = std::move(spec).value();
  state->bytes = std::make_shared<const CheckpointBytes>(*state->checkpoint);
  state->tokenizer = read_tokenizer(*state->checkpoint);
  return Model{std::move(state)};
}

result<Model> make_random_model(std::string_view shape, Storage storage, std::uint64_t seed) {
  auto spec = make_shape_model(shape, storage);
  if (!spec.ok()) return spec.error();
  auto state = std::make_shared<Model::State>();
  state->path = shape;
  state->spec = std::move(spec).value();
  state->bytes = std::make_shared<const RandomWeights>(seed);
  return Model{std::move(state)};
}

}  // namespace fourfold
