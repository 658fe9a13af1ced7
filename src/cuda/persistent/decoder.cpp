#include "cuda/persistent/decoder.hpp"

#include <algorithm>
#include <array>

#include "cuda/persistent/instances.hpp"
#include "cuda/persistent/validate.hpp"

namespace fourfold::cuda::persistent {
namespace {

// What all matrices of a Program are stored as; nothing when they differ.
std::optional<Storage> storage_of(const CudaModel& model) {
  std::optional<Storage> storage;
  for (std::size_t s = 0; s < model.program.steps.size(); ++s) {
    const Step& step = model.program.steps[s];
    if (const auto* embed = std::get_if<Embed>(&step.op)) storage = model.weights.table(embed->table).storage;
    if (!std::holds_alternative<Project>(step.op)) continue;
    for (const WeightRun& run : model.weights.runs(s))
      if (run.storage != storage.value_or(run.storage)) return std::nullopt;
  }
  return storage;
}

status check_limits(const CudaModel& model, const PlanOptions& options, const Plan& plan) {
  std::string unmet;
  const auto require = [&](bool met, const std::string& what) {
    if (!met) unmet += "\n  " + what + " (runs on `graph`)";
  };
  require(options.cache == Storage::bf16,
          "cache: storage " + std::string(info(options.cache).name) + " is not in {bf16}");
  require(plan.counters.size() <= kMostCounters,
          "plan: " + std::to_string(plan.counters.size()) + " counters are above " + std::to_string(kMostCounters));
  for (const Phase& phase : plan.phases) {
    if (phase.kind == Kind::attend && phase.cache == 0)
      require(phase.queries <= kMostQueries && phase.head_outputs() <= plan.slice,
              phase.name + ": " + std::to_string(phase.queries) + " queries of " + std::to_string(phase.head_dim) +
                  " dims share a key; at most 8, and no more numbers than a tile has columns, are accepted");
    if (phase.kind == Kind::project)
      require(phase.columns % 4 == 0,
              phase.name + ": " + std::to_string(phase.columns) + " columns do not divide by 4");
  }
  for (const Step& step : model.program.steps)
    if (const auto* project = std::get_if<Project>(&step.op))
      for (const Dot& dot : project->dots)
        require((!dot.bias.valid() && !dot.scales.valid()) || model.program.tensor(dot.weight).rows % kGroupRows == 0,
                step.name + ": rows with scales or biases do not fill groups of " + std::to_string(kGroupRows));
  if (unmet.empty()) return {};
  return {Code::unsupported, "plan: cannot run this Program on `persistent`" + unmet};
}

status occupancy(const Instance& instance, int grid, int sms) {
  FOURFOLD_TRY(
      checked(cudaFuncSetAttribute(instance.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, instance.shared_bytes),
              "sizing shared memory"));
  int each = 0;
  FOURFOLD_TRY(checked(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, instance.kernel, kCtaThreads,
                                                                     static_cast<std::size_t>(instance.shared_bytes)),
                       "asking for the occupancy"));
  if (grid <= each * sms) return {};
  return {Code::unsupported, "plan: a grid of " + std::to_string(grid) + " CTAs cannot be resident; at most " +
                                 std::to_string(each * sms) + " are"};
}

template <class T>
result<DeviceMemory> upload(const std::vector<T>& values, const char* what) {
  auto memory = DeviceMemory::allocate(values.size() * sizeof(T), what);
  if (!memory.ok()) return memory;
  FOURFOLD_TRY(
      checked(cudaMemcpy(memory->data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), what));
  return memory;
}

std::uint64_t address(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

}  // namespace

result<std::unique_ptr<Decoder>> Decoder::make(const CudaModel& model, const SequenceMemory& memory,
                                               const PlanOptions& options) {
  const auto storage = storage_of(model);
  const int head_dim = model.program.caches.empty() ? 0 : model.program.caches[0].head_dim;
  const Instance* instance = storage ? find_instance(*storage, head_dim) : nullptr;
  if (!instance)
    return status{Code::unsupported,
                  "plan: cannot run this Program on `persistent`\n  weights: " +
                      (storage ? std::string(info(*storage).name) : std::string("several storages")) +
                      " with heads of " + std::to_string(head_dim) + " are not in {" + instance_names() +
                      "} (runs on `graph`)"};
  const int sms = model.device.multiprocessors;
  const int grid = options.grid > 0 ? options.grid : best_grid(model.program, sms);
  auto plan = make_plan(model.program, {grid, instance->slice});
  if (!plan.ok()) {
    std::string lines = plan.error().message();
    for (std::size_t at = 0; (at = lines.find('\n', at)) != std::string::npos; at += 3) lines.replace(at, 1, "\n  ");
    return status{plan.error().code(), "plan: cannot run this Program on `persistent`\n  " + lines};
  }
  FOURFOLD_TRY(check_limits(model, options, plan.value()));
  FOURFOLD_TRY(occupancy(*instance, plan->grid(), sms));
  FOURFOLD_TRY(validate(plan.value()));
  std::unique_ptr<Decoder> decoder(new Decoder(model.program, *instance, std::move(plan).value()));
  FOURFOLD_TRY(decoder->prepare(model, memory));
  return decoder;
}

// What each row of a step's dots is scaled or shifted by, as one array in the order of the tiles' rows; dots that have
// none get zeros.
status Decoder::join_vectors(const CudaModel& model, Weight Dot::*what, std::vector<std::uint64_t>& places) {
  for (std::size_t s = 0; s < program_.steps.size(); ++s) {
    const auto* project = std::get_if<Project>(&program_.steps[s].op);
    if (!project) continue;
    const auto by_row = [&](const Dot& dot) {
      return (dot.*what).valid() && program_.tensor(dot.*what).cols == program_.tensor(dot.weight).rows;
    };
    if (std::none_of(project->dots.begin(), project->dots.end(), by_row)) continue;
    const bool alternate = std::holds_alternative<Gated>(project->epilogue);
    std::int64_t rows = 0;
    for (const Dot& dot : project->dots)
      rows += (program_.tensor(dot.weight).rows + kGroupRows - 1) / kGroupRows * kGroupRows;
    auto memory = DeviceMemory::allocate(static_cast<std::size_t>(rows) * sizeof(float), "scales and biases");
    if (!memory.ok()) return memory.error();
    float* at = memory->as<float>();
    for (const Dot& dot : project->dots) {
      const auto n = static_cast<std::size_t>(program_.tensor(dot.weight).rows);
      const std::size_t group = kGroupRows * sizeof(float), pitch = alternate ? 2 * group : group;
      if (by_row(dot))
        FOURFOLD_TRY(checked(cudaMemcpy2D(at, pitch, model.weights.vector(dot.*what), group, group, n / kGroupRows,
                                          cudaMemcpyDeviceToDevice),
                             "copying scales and biases"));
      at += alternate ? kGroupRows : static_cast<std::ptrdiff_t>(n);
    }
    places[s] = address(memory->data());
    memory_.push_back(std::move(memory).value());
  }
  return {};
}

status Decoder::prepare(const CudaModel& model, const SequenceMemory& memory) {
  Places places;
  places.tiles.resize(program_.steps.size());
  places.biases.resize(program_.steps.size());
  for (std::size_t s = 0; s < program_.steps.size(); ++s)
    if (std::holds_alternative<Project>(program_.steps[s].op))
      places.tiles[s] = address(model.weights.runs(s)[0].tiles);
  places.scales.resize(program_.steps.size());
  FOURFOLD_TRY(join_vectors(model, &Dot::bias, places.biases));
  FOURFOLD_TRY(join_vectors(model, &Dot::scales, places.scales));
  places.vector = [&](Weight w) { return address(model.weights.vector(w)); };
  for (const DeviceMemory& cache : memory.caches) places.caches.push_back(address(cache.data()));
  for (const DeviceMemory& turns : memory.turns) places.turns.push_back(address(turns.data()));
  const Records records = make_records(plan_, program_, places);
  launch_.stride = records.stride;
  launch_.counters = static_cast<int>(records.targets.size());
  launch_.sampled = plan_.sampled;
  launch_.vocab = program_.vocab;
  launch_.patience = kPatience;
  launch_.cache_head_bytes = memory.layouts[0].head_bytes();
  const auto& embed = std::get<Embed>(program_.steps[0].op);
  launch_.embedding = model.weights.table(embed.table).tiles;
  launch_.embedding_scale = embed.scale;
  auto uploaded = upload(records.records, "the plan's records");
  auto counts = upload(records.counts, "the plan's records");
  auto targets = upload(records.targets, "the plan's counters");
  // Counters, then the watchdog's word, then the best keys: what a launch begins with as zeros.
  const std::size_t counter_bytes = records.targets.size() * kCounterWords * sizeof(std::uint32_t);
  auto zeros = DeviceMemory::allocate(counter_bytes + sizeof(unsigned long long) * (1 + kLaunchTokens), "counters");
  auto arena = DeviceMemory::allocate(static_cast<std::size_t>(plan_.arena) * sizeof(float), "activations");
  auto ids = PinnedMemory::allocate(kLaunchTokens * sizeof(int));
  for (const auto* made : {&uploaded, &counts, &targets, &zeros, &arena})
    if (!made->ok()) return made->error();
  if (!ids.ok()) return ids.error();
  FOURFOLD_TRY(checked(cudaMemset(arena->data(), 0xff, arena->bytes()), "marking activations as unwritten"));
  launch_.records = uploaded->as<Record>();
  launch_.counts = counts->as<std::uint16_t>();
  launch_.targets = targets->as<CounterTarget>();
  launch_.count = zeros->as<std::uint32_t>();
  launch_.stall = reinterpret_cast<unsigned long long*>(zeros->data() + counter_bytes);
  launch_.best = launch_.stall + 1;
  launch_.arena = arena->as<float>();
  ids_ = std::move(ids).value();
  launch_.ids = ids_.as<int>();
  for (auto* made : {&uploaded, &counts, &targets, &zeros, &arena}) memory_.push_back(std::move(*made).value());
  return {};
}

status Decoder::decode(int id, int position, float temperature, std::uint64_t seed, std::span<int> ids,
                       cudaStream_t stream, float* logits) {
  launch_.inverse_temperature = temperature > 0 ? 1 / temperature : 0;
  launch_.seed = seed;
  for (std::size_t done = 0; done < ids.size();) {
    const std::size_t n = std::min<std::size_t>(kLaunchTokens, ids.size() - done);
    launch_.first_id = done == 0 ? id : ids[done - 1];
    launch_.position = position + static_cast<int>(done);
    launch_.tokens = static_cast<int>(n);
    launch_.logits = logits == nullptr ? nullptr : logits + done * static_cast<std::size_t>(program_.vocab);
    const auto* end = reinterpret_cast<const std::byte*>(launch_.best + n);
    const auto zeros = static_cast<std::size_t>(end - reinterpret_cast<const std::byte*>(launch_.count));
    FOURFOLD_TRY(checked(cudaMemsetAsync(launch_.count, 0, zeros, stream), "clearing counters"));
    void* arguments[] = {&launch_};
    FOURFOLD_TRY(checked(
        cudaLaunchCooperativeKernel(instance_.kernel, dim3(static_cast<unsigned>(plan_.grid())), dim3(kCtaThreads),
                                    arguments, static_cast<std::size_t>(instance_.shared_bytes), stream),
        "launching the persistent kernel"));
    FOURFOLD_TRY(stalled(stream));
    std::copy_n(ids_.as<int>(), n, ids.begin() + static_cast<std::ptrdiff_t>(done));
    done += n;
  }
  return {};
}

result<Traced> Decoder::trace(int id, int position, cudaStream_t stream) {
  std::vector<unsigned long long> stamps(plan_.tasks.size() * static_cast<std::size_t>(launch_.stride) * kStamps);
  auto memory = upload(stamps, "a launch's stamps");
  if (!memory.ok()) return memory.error();
  std::array<int, kTracedTokens> ids{};
  launch_.trace = memory->as<unsigned long long>();
  const status done = decode(id, position, 0, 0, ids, stream);
  launch_.trace = nullptr;
  FOURFOLD_TRY(done);
  FOURFOLD_TRY(checked(cudaMemcpy(stamps.data(), memory->data(), memory->bytes(), cudaMemcpyDeviceToHost),
                       "reading a launch's stamps"));
  return Traced{plan_, measured(plan_, stamps, launch_.stride)};
}

status Decoder::stalled(cudaStream_t stream) const {
  unsigned long long bits = 0;
  FOURFOLD_TRY(checked(cudaMemcpyAsync(&bits, launch_.stall, sizeof bits, cudaMemcpyDeviceToHost, stream),
                       "reading the watchdog"));
  FOURFOLD_TRY(checked(cudaStreamSynchronize(stream), "running the persistent kernel"));
  const Stall stall = Stall::of(bits);
  if (stall.found == 0) return {};
  return {Code::resource,
          "persistent kernel: stalled for 2 s: " + plan_.phases[static_cast<std::size_t>(stall.phase)].name +
              " of CTA " + std::to_string(stall.cta) + " waits for counter " +
              plan_.counters[static_cast<std::size_t>(stall.counter)].name + ", token " + std::to_string(stall.token)};
}

}  // namespace fourfold::cuda::persistent
