// TeamWeights: every weight of a Program, resident once, in the layout that decode, prefill and the embedding gather
// share (simd/tile.hpp). Matrices lie in the order the steps read them, in one mapping backed by huge pages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cpu/pool.hpp"
#include "cpu/simd/tile.hpp"
#include "fourfold/program.hpp"
#include "fourfold/status.hpp"
#include "program/backend.hpp"

namespace fourfold::team {

// Anonymous memory, zeroed, 2 MiB aligned, huge pages asked for.
class Mapping {
 public:
  Mapping() = default;
  static result<Mapping> create(std::size_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  void* base_ = nullptr;
  std::size_t mapped_ = 0;
};

// One matrix, or the first of a stack of equal ones that begin on tiles of their own.
struct Matrix {
  const std::uint8_t* tiles = nullptr;
  Storage storage = Storage::f32;
  int rows = 0, cols = 0;
  std::size_t tile_bytes = 0;
  int stack = 1;

  int tile_count() const { return (rows + simd::kTileRows - 1) / simd::kTileRows; }
  std::size_t bytes() const { return static_cast<std::size_t>(tile_count()) * tile_bytes; }  // of one matrix
  const std::uint8_t* tile(int i) const { return tiles + static_cast<std::size_t>(i) * tile_bytes; }
};

class TeamWeights {
 public:
  static result<TeamWeights> load(const Program& program, const WeightBytes& bytes, Pool& pool,
                                  const std::function<void(double)>& progress);

  const Matrix& matrix(Weight w) const { return matrices_[static_cast<std::size_t>(w.id)]; }
  const float* vector(Weight w) const;  // of what is no matrix of a dot; null when absent
  std::span<const std::byte> tiles() const { return std::as_bytes(std::span(tiles_.data(), tiles_.size())); }
  std::size_t bytes() const { return tiles_.size() + floats_.size() * sizeof(float); }

 private:
  status place_matrices(const Program& program, const std::vector<int>& order);
  status read_vectors(const Program& program, const WeightBytes& bytes);
  status read_matrices(const Program& program, const std::vector<int>& order, const WeightBytes& bytes, Pool& pool,
                       const std::function<void(double)>& progress);

  Mapping tiles_;
  std::vector<Matrix> matrices_;        // per tensor; empty for vectors
  std::vector<float> floats_;           // every vector, decoded, `add` applied
  std::vector<std::ptrdiff_t> offset_;  // per tensor into floats_; -1 for matrices
};

}  // namespace fourfold::team
