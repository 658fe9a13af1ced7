#include "cuda/weights.hpp"

#include <algorithm>
#include <map>

namespace fourfold::cuda {

namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 20;  // of rows read and packed at a time
constexpr int kBatch = 1;  // a row group's tiles are neighbours, as the persistent kernel walks them

int groups_of(std::int64_t rows) { return static_cast<int>((rows + kTileRows - 1) / kTileRows); }

}  // namespace

const float* DeviceWeights::vector(Weight w) const {
  if (!w.valid()) return nullptr;
  const std::int64_t offset = vector_offset_[static_cast<std::size_t>(w.id)];
  return offset < 0 ? nullptr : vectors_.as<float>() + offset;
}

// Lays everything out first, so that one allocation holds it, then reads, uploads and packs chunk by chunk.
class WeightLoader {
 public:
  WeightLoader(const Program& program, const WeightBytes& bytes, const std::function<void(double)>& progress)
      : program_(program), bytes_(bytes), progress_(progress) {}

  result<DeviceWeights> load() {
    lay_out();
    auto tiles = DeviceMemory::allocate(tile_bytes_, "the weights");
    if (!tiles.ok()) return tiles.error();
    weights_.tiles_ = std::move(tiles).value();
    FOURFOLD_TRY(load_vectors());
    auto chunk = DeviceMemory::allocate(kChunkBytes, "a buffer to pack weights");
    if (!chunk.ok()) return chunk.error();
    chunk_ = std::move(chunk).value();
    for (std::size_t s = 0; s < program_.steps.size(); ++s)
      for (WeightRun& run : weights_.runs_[s])
        if (owned_.contains(&run)) FOURFOLD_TRY(load_run(std::get<Project>(program_.steps[s].op), run));
    for (std::size_t t = 0; t < program_.tensors.size(); ++t)
      if (WeightRun& table = weights_.tables_[t]; owned_.contains(&table)) {
        place(table);
        FOURFOLD_TRY(load_matrix({static_cast<int>(t)}, {}, table, 0, 1));
      }
    FOURFOLD_TRY(checked(cudaDeviceSynchronize(), "packing weights"));
    return std::move(weights_);
  }

 private:
  const TensorSpec& tensor(Weight w) const { return program_.tensor(w); }

  void lay_out() {
    weights_.runs_.resize(program_.steps.size());
    weights_.tables_.resize(program_.tensors.size());
    weights_.vector_offset_.assign(program_.tensors.size(), -1);
    for (std::size_t s = 0; s < program_.steps.size(); ++s)
      if (const auto* project = std::get_if<Project>(&program_.steps[s].op)) lay_out(*project, weights_.runs_[s]);
    for (std::size_t s = 0; s < program_.steps.size(); ++s)
      for (WeightRun& run : weights_.runs_[s]) {
        own(run);
        const Project& project = std::get<Project>(program_.steps[s].op);
        if (project.dots.size() == 1) weights_.tables_[id(project.dots[0].weight)] = run;
      }
    for (const Step& step : program_.steps)
      if (const auto* embed = std::get_if<Embed>(&step.op)) {
        WeightRun& table = weights_.tables_[id(embed->table)];
        if (table.order.groups > 0) continue;  // it is a Project's matrix, too
        const TensorSpec& spec = tensor(embed->table);
        table = run_of(resident_storage(spec.storage), spec.cols);
        append(table, spec.rows, 1);
        own(table);
      }
    for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
      const TensorSpec& spec = program_.tensors[t];
      if (spec.rows != 1) continue;
      weights_.vector_offset_[t] = floats_;
      floats_ += (spec.cols + 15) / 16 * 16;
    }
  }

  static std::size_t id(Weight w) { return static_cast<std::size_t>(w.id); }

  static WeightRun run_of(Storage resident, std::int64_t columns) {
    WeightRun run;
    run.storage = resident;
    run.columns = static_cast<int>(columns);
    const int tile = tile_size(resident).columns;
    run.order = {0, (run.columns + tile - 1) / tile, kBatch};
    return run;
  }
  static void append(WeightRun& run, std::int64_t rows, int copies) {
    run.first_groups.push_back(run.order.groups);
    run.order.groups += copies * groups_of(rows);
  }

  void lay_out(const Project& project, std::vector<WeightRun>& runs) const {
    if (std::holds_alternative<Gated>(project.epilogue)) {
      const TensorSpec &gate = tensor(project.dots[0].weight), &up = tensor(project.dots[1].weight);
      runs.push_back(run_of(gate.storage == up.storage ? resident_storage(gate.storage) : Storage::f32, gate.cols));
      append(runs.back(), gate.rows, 2);
      return;
    }
    for (std::size_t d = 0; d < project.dots.size(); ++d) {
      const TensorSpec& spec = tensor(project.dots[d].weight);
      if (runs.empty() || runs.back().storage != resident_storage(spec.storage)) {
        runs.push_back(run_of(resident_storage(spec.storage), spec.cols));
        runs.back().first_dot = static_cast<int>(d);
      }
      append(runs.back(), spec.rows, 1);
    }
  }

  void own(WeightRun& run) {
    owned_[&run] = tile_bytes_;
    tile_bytes_ += static_cast<std::size_t>(run.order.tiles()) * static_cast<std::size_t>(tile_size(run.storage).bytes);
    tile_bytes_ = (tile_bytes_ + 127) / 128 * 128;
  }
  void place(WeightRun& run) { run.tiles = weights_.tiles_.as<std::uint8_t>() + owned_.at(&run); }

  status load_run(const Project& project, WeightRun& run) {
    place(run);
    if (project.dots.size() == 1 && weights_.tables_[id(project.dots[0].weight)].tiles == nullptr)
      weights_.tables_[id(project.dots[0].weight)].tiles = run.tiles;
    if (std::holds_alternative<Gated>(project.epilogue)) {
      for (int d = 0; d < 2; ++d) {
        const Dot& dot = project.dots[static_cast<std::size_t>(d)];
        FOURFOLD_TRY(load_matrix(dot.weight, dot.scales, run, d, 2));
      }
      return {};
    }
    for (std::size_t i = 0; i < run.first_groups.size(); ++i) {
      const Dot& dot = project.dots[static_cast<std::size_t>(run.first_dot) + i];
      FOURFOLD_TRY(load_matrix(dot.weight, dot.scales, run, run.first_groups[i], 1));
    }
    return {};
  }

  status load_matrix(Weight w, Weight scales, const WeightRun& run, int first_group, int group_step) {
    const TensorSpec& spec = tensor(w);
    auto blocks = block_scales(spec, scales);
    if (!blocks.ok()) return blocks.error();
    const auto row_bytes = static_cast<std::size_t>(spec.row_bytes());
    const std::int64_t step = std::max<std::int64_t>(1, static_cast<std::int64_t>(kChunkBytes / row_bytes) / 128) * 128;
    if (step > static_cast<std::int64_t>(kChunkBytes / row_bytes))
      return {Code::unsupported, "cuda: rows of '" + spec.name + "' are longer than this build packs"};
    for (std::int64_t first = 0; first < spec.rows; first += step) {
      const std::int64_t count = std::min(step, spec.rows - first);
      FOURFOLD_TRY(fetch(spec, first, count));
      PackRows pack{spec.storage,
                    spec.storage != run.storage,
                    chunk_.as<std::uint8_t>(),
                    static_cast<int>(count),
                    run.columns,
                    const_cast<std::uint8_t*>(run.tiles),
                    run.order,
                    first_group + static_cast<int>(first / kTileRows) * group_step,
                    group_step};
      if (blocks->bytes() > 0) pack.block_scales = blocks->as<float>() + first / 128 * ((spec.cols + 127) / 128);
      FOURFOLD_TRY(checked(pack_rows(pack, nullptr), "packing '" + spec.name + "'"));
      loaded_ += static_cast<double>(count) * static_cast<double>(row_bytes);
      if (progress_) progress_(std::min(1.0, loaded_ / total()));
    }
    return {};
  }

  // Rows of a tensor into the chunk. The copy of the next rows waits for the packing of these: one stream.
  status fetch(const TensorSpec& spec, std::int64_t first, std::int64_t count) {
    const auto row_bytes = static_cast<std::uint64_t>(spec.row_bytes());
    const std::uint64_t offset = static_cast<std::uint64_t>(first) * row_bytes;
    const std::uint64_t size = static_cast<std::uint64_t>(count) * row_bytes;
    if (const auto random = bytes_.random(spec)) {
      const auto block = static_cast<std::uint64_t>(info(spec.storage).block_bytes);
      return checked(make_random(*random, offset / block, size / block, chunk_.as<std::uint8_t>(), nullptr),
                     "making random weights");
    }
    host_.resize(size);
    FOURFOLD_TRY(bytes_.read(spec, offset, host_));
    return checked(cudaMemcpy(chunk_.data(), host_.data(), size, cudaMemcpyHostToDevice), "copying weights");
  }

  // The scales of 128 x 128 blocks on the device; nothing where there are none.
  result<DeviceMemory> block_scales(const TensorSpec& spec, Weight scales) {
    if (!scales.valid() || tensor(scales).cols == spec.rows) return DeviceMemory{};
    auto numbers = decoded(tensor(scales));
    if (!numbers.ok()) return numbers.error();
    auto memory = DeviceMemory::allocate(numbers->size() * sizeof(float), "scales");
    if (!memory.ok()) return memory.error();
    FOURFOLD_TRY(checked(cudaMemcpy(memory->data(), numbers->data(), memory->bytes(), cudaMemcpyHostToDevice),
                         "copying scales"));
    return memory;
  }

  result<std::vector<float>> decoded(const TensorSpec& spec) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(spec.bytes()));
    FOURFOLD_TRY(bytes_.read(spec, 0, bytes));
    const auto& kind = info(spec.storage);
    std::vector<float> out(static_cast<std::size_t>(spec.rows * spec.cols));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto block = static_cast<std::size_t>(kind.block_elements);
      out[i] = decode(spec.storage,
                      reinterpret_cast<const std::uint8_t*>(bytes.data()) +
                          i / block * static_cast<std::size_t>(kind.block_bytes),
                      static_cast<int>(i % block)) +
               spec.add;
    }
    return out;
  }

  status load_vectors() {
    auto memory = DeviceMemory::allocate(static_cast<std::size_t>(floats_) * sizeof(float), "norms and biases");
    if (!memory.ok()) return memory.error();
    weights_.vectors_ = std::move(memory).value();
    for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
      if (weights_.vector_offset_[t] < 0) continue;
      auto numbers = decoded(program_.tensors[t]);
      if (!numbers.ok()) return numbers.error();
      FOURFOLD_TRY(checked(cudaMemcpy(weights_.vectors_.as<float>() + weights_.vector_offset_[t], numbers->data(),
                                      numbers->size() * sizeof(float), cudaMemcpyHostToDevice),
                           "copying '" + program_.tensors[t].name + "'"));
    }
    return {};
  }

  double total() {
    if (total_ == 0)
      for (const TensorSpec& spec : program_.tensors) total_ += static_cast<double>(spec.bytes());
    return total_;
  }

  const Program& program_;
  const WeightBytes& bytes_;
  const std::function<void(double)>& progress_;
  DeviceWeights weights_;
  std::map<const WeightRun*, std::size_t> owned_;  // where a run begins
  std::size_t tile_bytes_ = 0;
  std::int64_t floats_ = 0;
  DeviceMemory chunk_;
  std::vector<std::byte> host_;
  double loaded_ = 0, total_ = 0;
};

result<DeviceWeights> DeviceWeights::load(const Program& program, const WeightBytes& bytes,
                                          const std::function<void(double)>& progress) {
  return WeightLoader(program, bytes, progress).load();
}

}  // namespace fourfold::cuda
