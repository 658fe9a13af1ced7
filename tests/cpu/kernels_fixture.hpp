// Shared by the kernel tests: buffers that end on a guard page, random blocks with sane scales, the levels to test.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fourfold/blocks.hpp>
#include <random>
#include <vector>

#include "cpu/simd/kernels.hpp"
#include "cpu/simd/tile.hpp"

namespace fourfold::simd::test {

// `count` values whose end meets an unreadable page, so that any over-read crashes. Starts with 0xAA bytes.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t count) : count_(count) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    bytes_ = (count * sizeof(T) + page - 1) / page * page + page;
    base_ = static_cast<char*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + bytes_ - page, page, PROT_NONE);
    data_ = reinterpret_cast<T*>(base_ + bytes_ - page - count * sizeof(T));
    std::memset(static_cast<void*>(data_), 0xAA, count * sizeof(T));
  }
  Guarded(Guarded&& from) noexcept : count_(from.count_), bytes_(from.bytes_), base_(from.base_), data_(from.data_) {
    from.base_ = nullptr;
  }
  Guarded& operator=(Guarded&&) = delete;
  ~Guarded() {
    if (base_) munmap(base_, bytes_);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + count_; }

 private:
  std::size_t count_, bytes_;
  char* base_;
  T* data_;
};

inline std::vector<const Kernels*> levels() {
  const Levels found = available_levels(detect_features());
  return {found.table, found.table + found.count};
}

inline auto every_storage() {
  return ::testing::Values(Storage::f32, Storage::f16, Storage::bf16, Storage::q4_0, Storage::q4_1, Storage::q5_0,
                           Storage::q5_1, Storage::q8_0, Storage::q4_k, Storage::q5_k, Storage::q6_k, Storage::mxfp4);
}
inline std::string storage_name(const ::testing::TestParamInfo<Storage>& p) { return std::string(info(p.param).name); }

using Random = std::mt19937;

inline float normal(Random& random) { return std::normal_distribution<float>()(random); }

inline void put_f16(std::uint8_t* at, float x) { blocks::store_u16(at, float_to_half(x)); }

// One random block of a storage: any codes, scales around 0.01 of either sign.
inline void random_block(Storage storage, Random& random, std::uint8_t* block) {
  const StorageInfo& row = info(storage);
  for (int i = 0; i < row.block_bytes; ++i) block[i] = static_cast<std::uint8_t>(random());
  const auto scale = [&] { return 0.01f * normal(random); };
  switch (storage) {
    case Storage::f32: {
      const float x = normal(random);
      std::memcpy(block, &x, 4);
      return;
    }
    case Storage::f16:
      return put_f16(block, normal(random));
    case Storage::bf16:
      return blocks::store_u16(block, float_to_bf16(normal(random)));
    case Storage::q4_1:
    case Storage::q5_1:
    case Storage::q4_k:
    case Storage::q5_k:
      put_f16(block + 2, scale());
      return put_f16(block, scale());
    case Storage::mxfp4:
      block[0] = static_cast<std::uint8_t>(119 + random() % 4);
      return;
    default:
      return put_f16(block + (storage == Storage::q6_k ? 208 : 0), scale());
  }
}

// A matrix [n, k] in file layout.
inline std::vector<std::uint8_t> random_matrix(Storage storage, int n, int k, Random& random) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n) * row_bytes(storage, k));
  const auto block = static_cast<std::size_t>(info(storage).block_bytes);
  for (std::size_t at = 0; at < bytes.size(); at += block) random_block(storage, random, bytes.data() + at);
  return bytes;
}

inline float element(Storage storage, const std::vector<std::uint8_t>& file, int k, int row, int column) {
  const StorageInfo& s = info(storage);
  const std::uint8_t* block = file.data() + static_cast<std::size_t>(row) * row_bytes(storage, k) +
                              static_cast<std::size_t>(column / s.block_elements * s.block_bytes);
  return decode(storage, block, column % s.block_elements);
}

inline void pack_matrix(Storage storage, const std::vector<std::uint8_t>& file, int n, int k, std::uint8_t* tiles) {
  const std::size_t row = row_bytes(storage, k);
  for (int r = 0; r < n; r += kTileRows, tiles += tile_bytes(storage, k))
    pack_tile(storage, k, file.data() + static_cast<std::size_t>(r) * row, row, std::min(kTileRows, n - r), tiles);
}

inline std::size_t tiles_bytes(Storage storage, int n, int k) {
  return static_cast<std::size_t>((n + kTileRows - 1) / kTileRows) * tile_bytes(storage, k);
}

}  // namespace fourfold::simd::test
