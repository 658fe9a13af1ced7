// DeviceWeights: a Program's weights on the device. The dots of a Project lie together, in runs of one storage each:
// one after the other, but gate and up of a Gated alternate by row groups of 16. Matrices are tiles, vectors float32.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/pack.hpp"
#include "fourfold/program.hpp"
#include "program/backend.hpp"

namespace fourfold::cuda {

// Tiles of some dots of one step (or of an embedding table).
struct WeightRun {
  Storage storage = Storage::f32;  // of the tiles
  const std::uint8_t* tiles = nullptr;
  TileOrder order{};
  int columns = 0;
  int first_dot = 0;              // of the step
  std::vector<int> first_groups;  // per dot, of the run
};

class DeviceWeights {
 public:
  // `progress` is called with the fraction that is there.
  static result<DeviceWeights> load(const Program& program, const WeightBytes& bytes,
                                    const std::function<void(double)>& progress);

  // Of a Project step, in the order of its dots.
  const std::vector<WeightRun>& runs(std::size_t step) const { return runs_[step]; }
  // Of an embedding table: row r is row r of its tiles.
  const WeightRun& table(Weight w) const { return tables_[static_cast<std::size_t>(w.id)]; }
  // A tensor as float32 numbers, `add` included; null when absent.
  const float* vector(Weight w) const;
  std::size_t bytes() const { return tiles_.bytes() + vectors_.bytes(); }

 private:
  friend class WeightLoader;

  DeviceMemory tiles_, vectors_;
  std::vector<std::vector<WeightRun>> runs_;  // per step
  std::vector<WeightRun> tables_;             // per tensor
  std::vector<std::int64_t> vector_offset_;   // per tensor, floats; -1: none
};

// Bytes of a tile of the storage, and its columns.
struct TileSize {
  int bytes, columns;
};
constexpr TileSize tile_size(Storage resident) {
  return with_tile(resident, [](auto tile) { return TileSize{decltype(tile)::kBytes, decltype(tile)::kColumns}; });
}

}  // namespace fourfold::cuda
