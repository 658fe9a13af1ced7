#include "cpu/team/weights.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>

#include "fourfold/blocks.hpp"

namespace fourfold::team {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kChunkBytes = std::size_t{512} << 10;  // read and packed at a time: stays in a core's L2

// Tensors that are matrices, in the order steps read them; a table that is also the output matrix stands at the end.
std::vector<int> matrix_order(const Program& program) {
  std::vector<int> order;
  std::vector<bool> placed(program.tensors.size(), false);
  const auto place = [&](Weight w) {
    if (!placed[static_cast<std::size_t>(w.id)]) order.push_back(w.id);
    placed[static_cast<std::size_t>(w.id)] = true;
  };
  for (const Step& step : program.steps) {
    if (const auto* project = std::get_if<Project>(&step.op))
      for (const Dot& dot : project->dots) place(dot.weight);
    if (const auto* experts = std::get_if<Experts>(&step.op))
      for (const Dot& dot : experts->dots) place(dot.weight);
    if (const auto* attend = std::get_if<Attend>(&step.op); attend && attend->latent)
      for (Weight w : {attend->latent->key_down, attend->latent->value_up, attend->latent->key_up}) place(w);
  }
  for (const Step& step : program.steps)
    if (const auto* embed = std::get_if<Embed>(&step.op)) place(embed->table);
  return order;
}

// Some rows of one matrix of a tensor's stack: a unit of loading.
struct Chunk {
  int tensor, matrix;
  int first_tile, tiles;
};

std::vector<Chunk> cut(const Program& program, const std::vector<int>& order) {
  std::vector<Chunk> chunks;
  for (int id : order) {
    const TensorSpec& spec = program.tensors[static_cast<std::size_t>(id)];
    const auto tile = simd::tile_bytes(spec.storage, static_cast<int>(spec.cols));
    const int step = static_cast<int>(std::max<std::size_t>(1, kChunkBytes / tile));
    const int count = static_cast<int>((spec.rows + simd::kTileRows - 1) / simd::kTileRows);
    for (int matrix = 0; matrix < spec.stack; ++matrix)
      for (int first = 0; first < count; first += step)
        chunks.push_back({id, matrix, first, std::min(step, count - first)});
  }
  return chunks;
}

status pack(const TensorSpec& spec, const Chunk& chunk, const WeightBytes& bytes, std::vector<std::byte>& buffer,
            std::uint8_t* tiles) {
  const int cols = static_cast<int>(spec.cols);
  const auto row = simd::row_bytes(spec.storage, cols);
  const auto tile = simd::tile_bytes(spec.storage, cols);
  const std::int64_t first = std::int64_t{chunk.first_tile} * simd::kTileRows;
  const std::int64_t rows = std::min<std::int64_t>(spec.rows - first, std::int64_t{chunk.tiles} * simd::kTileRows);
  buffer.resize(static_cast<std::size_t>(rows) * row);
  FOURFOLD_TRY(bytes.read(spec, static_cast<std::uint64_t>(chunk.matrix * spec.rows + first) * row, buffer));
  const auto stack_tiles = static_cast<int>((spec.rows + simd::kTileRows - 1) / simd::kTileRows);
  tiles += static_cast<std::size_t>(chunk.matrix) * static_cast<std::size_t>(stack_tiles) * tile;
  const auto* source = reinterpret_cast<const std::uint8_t*>(buffer.data());
  for (int i = 0; i < chunk.tiles; ++i) {
    const std::int64_t begin = std::int64_t{i} * simd::kTileRows;
    simd::pack_tile(spec.storage, cols, source + static_cast<std::size_t>(begin) * row, row,
                    static_cast<int>(std::min<std::int64_t>(simd::kTileRows, rows - begin)),
                    tiles + static_cast<std::size_t>(chunk.first_tile + i) * tile);
  }
  return {};
}

// The same in a thread of the pool, which lets no exception out.
status packed(const TensorSpec& spec, const Chunk& chunk, const WeightBytes& bytes, std::vector<std::byte>& buffer,
              std::uint8_t* tiles) noexcept {
  try {
    return pack(spec, chunk, bytes, buffer, tiles);
  } catch (const std::bad_alloc&) {
    return {Code::resource, "out of memory"};
  }
}

result<std::vector<float>> decoded(const TensorSpec& spec, const WeightBytes& bytes) {
  std::vector<std::byte> raw(static_cast<std::size_t>(spec.bytes()));
  FOURFOLD_TRY(bytes.read(spec, 0, raw));
  const auto& row = info(spec.storage);
  std::vector<float> out(static_cast<std::size_t>(spec.stack * spec.rows * spec.cols));
  const auto* data = reinterpret_cast<const std::uint8_t*>(raw.data());
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(out.size()); ++i)
    out[static_cast<std::size_t>(i)] = spec.add + decode(spec.storage, data + i / row.block_elements * row.block_bytes,
                                                         static_cast<int>(i % row.block_elements));
  return out;
}

}  // namespace

result<Mapping> Mapping::create(std::size_t bytes) {
  Mapping m;
  m.size_ = bytes;
  m.mapped_ = bytes + kHugePage;
  m.base_ = mmap(nullptr, m.mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m.base_ == MAP_FAILED) {
    m.base_ = nullptr;
    return status{Code::resource, "out of memory: cannot reserve " + std::to_string(bytes) + " bytes"};
  }
  const auto address = reinterpret_cast<std::uintptr_t>(m.base_);
  m.data_ = static_cast<std::uint8_t*>(m.base_) + ((address + kHugePage - 1) / kHugePage * kHugePage - address);
  madvise(m.data_, bytes, MADV_HUGEPAGE);
  return m;
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(base_, other.base_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Mapping::~Mapping() {
  if (base_) munmap(base_, mapped_);
}

const float* TeamWeights::vector(Weight w) const {
  return w.valid() ? floats_.data() + offset_[static_cast<std::size_t>(w.id)] : nullptr;
}

result<TeamWeights> TeamWeights::load(const Program& program, const WeightBytes& bytes, Pool& pool,
                                      const std::function<void(double)>& progress) {
  TeamWeights w;
  const std::vector<int> order = matrix_order(program);
  FOURFOLD_TRY(w.place_matrices(program, order));
  FOURFOLD_TRY(w.read_vectors(program, bytes));
  FOURFOLD_TRY(w.read_matrices(program, order, bytes, pool, progress));
  return w;
}

status TeamWeights::place_matrices(const Program& program, const std::vector<int>& order) {
  matrices_.resize(program.tensors.size());
  std::vector<std::size_t> places;
  std::size_t total = 0;
  for (int id : order) {
    const TensorSpec& spec = program.tensors[static_cast<std::size_t>(id)];
    Matrix& m = matrices_[static_cast<std::size_t>(id)];
    m = {nullptr,
         spec.storage,
         static_cast<int>(spec.rows),
         static_cast<int>(spec.cols),
         simd::tile_bytes(spec.storage, static_cast<int>(spec.cols)),
         static_cast<int>(spec.stack)};
    places.push_back(total);
    total += (m.bytes() * static_cast<std::size_t>(m.stack) + 63) / 64 * 64;
  }
  auto mapping = Mapping::create(total);
  if (!mapping.ok()) return mapping.error();
  tiles_ = std::move(mapping).value();
  for (std::size_t i = 0; i < order.size(); ++i)
    matrices_[static_cast<std::size_t>(order[i])].tiles = tiles_.data() + places[i];
  return {};
}

status TeamWeights::read_vectors(const Program& program, const WeightBytes& bytes) {
  offset_.assign(program.tensors.size(), -1);
  for (std::size_t id = 0; id < program.tensors.size(); ++id) {
    if (matrices_[id].tiles) continue;
    auto floats = decoded(program.tensors[id], bytes);
    if (!floats.ok()) return floats.error();
    offset_[id] = static_cast<std::ptrdiff_t>(floats_.size());
    floats_.insert(floats_.end(), floats->begin(), floats->end());
    floats_.resize((floats_.size() + 15) / 16 * 16);
  }
  return {};
}

status TeamWeights::read_matrices(const Program& program, const std::vector<int>& order, const WeightBytes& bytes,
                                  Pool& pool, const std::function<void(double)>& progress) {
  const std::vector<Chunk> chunks = cut(program, order);
  std::atomic<std::size_t> next{0}, done{0};
  std::mutex guard;
  status failure;
  FOURFOLD_TRY(pool.run([&](Worker& worker) {
    std::vector<std::byte> buffer;
    for (std::size_t i; (i = next.fetch_add(1)) < chunks.size();) {
      const auto id = static_cast<std::size_t>(chunks[i].tensor);
      std::uint8_t* tiles = tiles_.data() + (matrices_[id].tiles - tiles_.data());
      if (status s = packed(program.tensors[id], chunks[i], bytes, buffer, tiles); !s.ok()) {
        const std::lock_guard lock(guard);
        failure = s;
        next = chunks.size();
      }
      const auto finished = done.fetch_add(1) + 1;
      if (progress && worker.index == 0) progress(static_cast<double>(finished) / static_cast<double>(chunks.size()));
    }
  }));
  return failure;
}

}  // namespace fourfold::team
