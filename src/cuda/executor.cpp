#include "cuda/executor.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/persistent/decoder.hpp"
#include "program/visit.hpp"

namespace fourfold::cuda {

CudaExecutor::CudaExecutor(std::shared_ptr<const CudaModel> model, const PlanOptions& options)
    : model_(std::move(model)), options_(options), graph_(options.executor != "stream") {}

result<std::unique_ptr<Executor>> CudaExecutor::make(std::shared_ptr<const CudaModel> model,
                                                     const PlanOptions& options) {
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(std::move(model), options));
  FOURFOLD_TRY(executor->prepare());
  return std::unique_ptr<Executor>(std::move(executor));
}

status CudaExecutor::prepare() {
  const Program& program = model_->program;
  FOURFOLD_TRY(checked(cudaSetDevice(model_->device.index), "opening the device"));
  const ArenaPlan arena = plan_arena(program, !options_.debug);
  auto memory = allocate_sequence(program, options_, arena);
  if (!memory.ok()) return memory.error();
  memory_ = std::move(memory).value();
  plan_ = resolve(program, model_->weights, memory_, memory_.activations(), arena);
  auto prompt = Prompt::make(program, model_->weights, memory_, arena, options_.batch);
  if (!prompt.ok()) return prompt.error();
  prompt_ = std::move(prompt).value();
  auto staging = PinnedMemory::allocate(sizeof(TokenState));
  auto prompt_ids = PinnedMemory::allocate(static_cast<std::size_t>(options_.batch) * sizeof(int));
  auto ids = PinnedMemory::allocate(kIds * sizeof(int));
  auto row = PinnedMemory::allocate(static_cast<std::size_t>(program.vocab) * sizeof(float));
  for (const auto* made : {&staging, &prompt_ids, &ids, &row})
    if (!made->ok()) return made->error();
  staging_ = std::move(staging).value();
  prompt_ids_ = std::move(prompt_ids).value();
  ids_ = std::move(ids).value();
  row_ = std::move(row).value();
  filter_.logits = sampling_.logits = memory_.logits.as<float>();
  filter_.vocab = sampling_.vocab = program.vocab;
  filter_.least = memory_.least();
  filter_.done = memory_.filters_done();
  filter_.candidates = memory_.candidates.as<unsigned long long>();
  sampling_.best = memory_.best();
  sampling_.state = memory_.token();
  sampling_.ids = ids_.as<int>();
  sampling_.capacity = kIds;
  if (options_.executor == "persistent") {
    auto decoder = persistent::Decoder::make(*model_, memory_, options_);
    if (!decoder.ok()) return decoder.error();
    persistent_ = std::move(decoder).value();
  }
  return checked(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}

CudaExecutor::~CudaExecutor() {
  if (stream_ == nullptr) return;
  static_cast<void>(cudaStreamSynchronize(stream_));
  for (cudaGraphExec_t graph : graphs_)
    if (graph != nullptr) static_cast<void>(cudaGraphExecDestroy(graph));
  static_cast<void>(cudaStreamDestroy(stream_));
}

void CudaExecutor::note(cudaError_t error, const char* doing) const {
  if (error != cudaSuccess && health_.ok()) health_ = checked(error, doing);
}

// ---- A token --------------------------------------------------------------------------------------------------------

cudaError_t CudaExecutor::launch_token(End end, bool programmatic) {
  const int sms = model_->device.multiprocessors;
  bool follows = false;  // the first kernel waits for everything before it
  const auto launch = [&](const DeviceStep& step) {
    const bool early = programmatic && follows;
    follows = true;
    return std::visit(
        Overloaded{
            [&](const DeviceEmbed& s) { return embed_token(s.table, s.scale, memory_.token(), s.out, early, stream_); },
            [&](const DeviceProject& s) { return project_token(s, sms, early, stream_); },
            [&](const DeviceAttend& s) { return attend_decode(s.attention, s.kind, early, stream_); }},
        step);
  };
  for (const DeviceStep& step : plan_.steps)
    if (const cudaError_t error = launch(step); error != cudaSuccess) return error;
  if (end == End::caches) return cudaSuccess;
  if (const cudaError_t error = project_token(plan_.head, sms, programmatic, stream_); error != cudaSuccess)
    return error;
  if (end == End::logits) return cudaSuccess;
  if (filter_.k > 0)
    if (const cudaError_t error = filter_logits(filter_, programmatic, stream_); error != cudaSuccess) return error;
  return sample_token(sampling_, programmatic, stream_);
}

cudaError_t CudaExecutor::capture(End end, cudaGraphExec_t& graph) {
  cudaGraph_t captured = nullptr;
  cudaError_t error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return error;
  const cudaError_t launched = launch_token(end, true);
  error = cudaStreamEndCapture(stream_, &captured);
  if (launched != cudaSuccess) return launched;
  if (error != cudaSuccess) return error;
  error = cudaGraphInstantiate(&graph, captured, 0);
  static_cast<void>(cudaGraphDestroy(captured));
  return error;
}

void CudaExecutor::run_token(End end) {
  if (!health_.ok()) return;
  if (!graph_) return note(launch_token(end, false), "launching a token");
  cudaGraphExec_t& graph = graphs_[static_cast<std::size_t>(end)];
  if (graph == nullptr) note(capture(end, graph), "capturing a token's graph");
  if (graph != nullptr) note(cudaGraphLaunch(graph, stream_), "launching a token's graph");
}

void CudaExecutor::set_state(TokenState state) {
  TokenState& staged = *staging_.as<TokenState>();
  staged = state;
  note(cudaMemcpyAsync(memory_.token(), &staged, sizeof staged, cudaMemcpyHostToDevice, stream_), "setting a token");
}

status CudaExecutor::forward(std::span<const int> ids, int position, int wanted, float* logits) {
  note(cudaSetDevice(model_->device.index), "opening the device");
  values_.assign(options_.debug ? model_->program.values.size() : 0, {});
  set_state({ids[0], position, 0});
  if (ids.size() > 1) {
    run_prompt(ids, wanted, logits);
  } else if (persistent_) {
    run_persistent(ids[0], position, wanted, logits);
  } else {
    run_token(wanted > 0 ? End::logits : End::caches);
    if (wanted > 0) take_logits(logits);
  }
  note(cudaStreamSynchronize(stream_), "running tokens");
  if (options_.debug) keep_values(ids.size());
  return health_;
}

void CudaExecutor::run_prompt(std::span<const int> ids, int wanted, float* logits) {
  const std::size_t count = ids.size();
  std::copy(ids.begin(), ids.end(), prompt_ids_.as<int>());
  if (health_.ok()) note(prompt_.run({prompt_ids_.as<int>(), count}, stream_), "running a prompt");
  for (int row = 0; row < wanted && health_.ok(); ++row) {
    const DeviceProject head = prompt_.head(static_cast<int>(count) - wanted + row);
    note(project_token(head, model_->device.multiprocessors, false, stream_), "computing logits");
    take_logits(logits + std::ptrdiff_t{row} * model_->program.vocab);
  }
}

// A debug plan's Values are those of the kernels one by one; keys, values and logits are the persistent kernel's.
void CudaExecutor::run_persistent(int id, int position, int wanted, float* logits) {
  if (options_.debug) run_token(End::caches);
  int chosen = 0;
  auto* to = memory_.logits.as<float>();
  if (health_.ok()) health_ = persistent_->decode(id, position, 0, 0, {&chosen, 1}, stream_, wanted > 0 ? to : nullptr);
  if (wanted > 0) take_logits(logits);
}

void CudaExecutor::take_logits(float* to) {
  const std::size_t bytes = static_cast<std::size_t>(model_->program.vocab) * sizeof(float);
  note(cudaMemcpyAsync(row_.as<float>(), memory_.logits.data(), bytes, cudaMemcpyDeviceToHost, stream_),
       "reading logits");
  note(cudaStreamSynchronize(stream_), "reading logits");
  std::memcpy(to, row_.as<float>(), bytes);
}

// The persistent kernel filters nothing; the graph's filter starts from the best few.
bool CudaExecutor::decodes(const Choice& choice) const {
  const bool all = choice.top_k <= 0 && choice.top_p >= 1 && choice.min_p <= 0;
  return choice.temperature <= 0 || all ||
         (!persistent_ && choice.top_k >= 1 && choice.top_k <= kMostKept && model_->program.vocab <= kMostFiltered);
}

void CudaExecutor::choose_by(const Choice& choice) {
  if (choice == choice_) return;
  choice_ = choice;
  sampling_.inverse_temperature = choice.temperature > 0 ? 1 / choice.temperature : 0;
  sampling_.seed = choice.seed;
  filter_.k = choice.temperature > 0 ? std::min(choice.top_k, model_->program.vocab) : 0;
  filter_.mass = choice.top_p;
  filter_.share = choice.min_p;
  sampling_.least = filter_.k > 0 ? filter_.least : nullptr;
  cudaGraphExec_t& graph = graphs_[static_cast<std::size_t>(End::sample)];
  if (graph != nullptr) note(cudaGraphExecDestroy(graph), "replacing a graph");
  graph = nullptr;
}

status CudaExecutor::decode(int id, int position, const Choice& choice, std::span<int> ids) {
  note(cudaSetDevice(model_->device.index), "opening the device");
  if (persistent_) {
    if (health_.ok()) health_ = persistent_->decode(id, position, choice.temperature, choice.seed, ids, stream_);
    return health_;
  }
  choose_by(choice);
  for (std::size_t done = 0; done < ids.size() && health_.ok();) {
    const std::size_t n = std::min<std::size_t>(kIds, ids.size() - done);
    set_state({done == 0 ? id : ids[done - 1], position + static_cast<int>(done), 0});
    for (std::size_t i = 0; i < n; ++i) run_token(End::sample);
    note(cudaStreamSynchronize(stream_), "running tokens");
    std::copy_n(ids_.as<int>(), n, ids.begin() + static_cast<std::ptrdiff_t>(done));
    done += n;
  }
  return health_;
}

result<persistent::Traced> CudaExecutor::trace(int id, int position) {
  if (!persistent_) return status{Code::unsupported, "executor '" + options_.executor + "' leaves no stamps"};
  FOURFOLD_TRY(checked(cudaSetDevice(model_->device.index), "opening the device"));
  return persistent_->trace(id, position, stream_);
}

// ---- Caches and Values ----------------------------------------------------------------------------------------------

result<std::unique_ptr<Executor>> CudaExecutor::fork() const {
  std::unique_ptr<CudaExecutor> copy(new CudaExecutor(model_, options_));
  FOURFOLD_TRY(copy->prepare());
  for (std::size_t c = 0; c < memory_.caches.size(); ++c)
    FOURFOLD_TRY(checked(cudaMemcpy(copy->memory_.caches[c].data(), memory_.caches[c].data(), memory_.caches[c].bytes(),
                                    cudaMemcpyDeviceToDevice),
                         "copying the cache"));
  return std::unique_ptr<Executor>(std::move(copy));
}

std::string_view CudaExecutor::row_format() const {
  return memory_.type == KvType::bf16 ? "bf16" : memory_.type == KvType::f16 ? "f16" : "fp8";
}

std::size_t CudaExecutor::row_bytes(int cache) const {
  const CacheLayout& layout = memory_.layouts[static_cast<std::size_t>(cache)];
  return static_cast<std::size_t>(2 * layout.kv_heads * layout.head_dim * layout.element_bytes);
}

// f(element in a leaf's copy, byte of the rows) for each element of the rows, leaf by leaf; with `write`, the leaves go
// back to the device.
template <class F>
void CudaExecutor::each_row(int cache, int first, int count, bool write, F f) const {
  const auto c = static_cast<std::size_t>(cache);
  const CacheLayout& layout = memory_.layouts[c];
  std::vector<std::byte> host(static_cast<std::size_t>(layout.leaf_bytes()));
  for (int head = 0; head < layout.kv_heads; ++head)
    for (int leaf = first / kLeafKeys; leaf * kLeafKeys < first + count; ++leaf) {
      const std::int64_t start = layout.leaf(head, leaf, Part::key);
      std::byte* device = memory_.caches[c].data() + start;
      note(cudaMemcpy(host.data(), device, host.size(), cudaMemcpyDeviceToHost), "reading the cache");
      const int begin = std::max(first, leaf * kLeafKeys), end = std::min(first + count, (leaf + 1) * kLeafKeys);
      for (int position = begin; position < end; ++position)
        for (const Part part : {Part::key, Part::value})
          for (int i = 0; i < layout.head_dim; ++i) {
            const int at = (2 * head + (part == Part::value ? 1 : 0)) * layout.head_dim + i;
            f(host.data() + (layout.place(head, position, part, i) - start),
              static_cast<std::size_t>(position - first) * row_bytes(cache) +
                  static_cast<std::size_t>(at * layout.element_bytes));
          }
      if (write) note(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice), "writing the cache");
    }
}

void CudaExecutor::read_rows(int cache, int first, int count, std::byte* out) const {
  const auto size = static_cast<std::size_t>(memory_.layouts[static_cast<std::size_t>(cache)].element_bytes);
  each_row(cache, first, count, false,
           [&](const std::byte* element, std::size_t at) { std::memcpy(out + at, element, size); });
}

void CudaExecutor::write_rows(int cache, int first, int count, const std::byte* in) {
  const auto size = static_cast<std::size_t>(memory_.layouts[static_cast<std::size_t>(cache)].element_bytes);
  each_row(cache, first, count, true, [&](std::byte* element, std::size_t at) { std::memcpy(element, in + at, size); });
}

std::size_t CudaExecutor::cache_bytes() const {
  std::size_t sum = 0;
  for (const DeviceMemory& cache : memory_.caches) sum += cache.bytes();
  return sum;
}

status CudaExecutor::randomize_cache(int positions, std::uint64_t seed) {
  for (std::size_t c = 0; c < memory_.caches.size(); ++c)
    note(fill_cache(memory_.layouts[c], memory_.type, memory_.caches[c].data(), positions, RandomBytes::mix(seed + c),
                    stream_),
         "filling the cache");
  note(cudaStreamSynchronize(stream_), "filling the cache");
  return health_;
}

void CudaExecutor::keep_values(std::size_t tokens) {
  for (std::size_t v = 0; v < values_.size(); ++v) {
    const std::int64_t offset = plan_.arena.offset[v];
    if (offset < 0) continue;
    const float* from = tokens > 1 ? prompt_.value(v) : memory_.arena.as<float>() + offset;
    values_[v].resize(tokens * static_cast<std::size_t>(model_->program.values[v].width));
    note(cudaMemcpy(values_[v].data(), from, values_[v].size() * sizeof(float), cudaMemcpyDeviceToHost),
         "reading a value");
  }
}

const float* CudaExecutor::value(Value v) const { return values_[static_cast<std::size_t>(v.id)].data(); }

void CudaExecutor::cached(int cache, int position, int head, float* key, float* value) const {
  const auto c = static_cast<std::size_t>(cache);
  const CacheLayout& layout = memory_.layouts[c];
  std::vector<std::byte> leaf(static_cast<std::size_t>(layout.leaf_bytes()));
  const std::int64_t start = layout.leaf(head, position / kLeafKeys, Part::key);
  if (cudaMemcpy(leaf.data(), memory_.caches[c].data() + start, leaf.size(), cudaMemcpyDeviceToHost) != cudaSuccess)
    return;
  for (const Part part : {Part::key, Part::value})
    for (int i = 0; i < layout.head_dim; ++i) {
      const auto* at =
          reinterpret_cast<const std::uint8_t*>(leaf.data()) + layout.place(head, position, part, i) - start;
      const float x = memory_.type == KvType::f8    ? e4m3_to_float(*at)
                      : memory_.type == KvType::f16 ? blocks::load_f16(at)
                                                    : bf16_to_float(blocks::load_u16(at));
      (part == Part::key ? key : value)[i] = x;
    }
}

}  // namespace fourfold::cuda
