// What the machine's ceilings are measured with: one table of plain loops per ISA level, beside the kernels' tables.
//
// Reading: walks over a part of a large buffer, in as many ways as pay off somewhere. Arithmetic: independent chains of
// one instruction, in registers only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fourfold::simd {

inline constexpr std::size_t kWalkGrain = 8192;  // walks read whole multiples of this many bytes

struct ReadWalk {
  const char* name;
  void (*read)(const void* data, std::size_t bytes);  // 64-byte aligned; bytes a multiple of kWalkGrain
};

struct OpLoop {
  const char* instruction;  // null where this level has none
  double ops;               // per iteration; a multiply and an add are two
  void (*run)(std::int64_t iterations);
};

struct ProbeKernels {
  const char* name;                                    // scalar, avx2, avx512
  void (*flush)(const void* data, std::size_t bytes);  // out of all caches
  const ReadWalk* walks;
  int walk_count;
  int quick_walks;  // the first ones are the usual winners
  OpLoop int8_dot, bf16_dot, f32_fma;
};

// The table of a level by its name; null for a name there is none of. The caller knows that the processor has it.
const ProbeKernels* probe_kernels(std::string_view level);

}  // namespace fourfold::simd
