// Matrix products of a warpgroup: 64 rows from registers, 128 or 256 columns from swizzled shared memory.
//
// A warp's 16 rows are a left operand as in matrix.cuh. The right operand stands in shared memory as rows (columns of
// the product) of 64 elements, 128 bytes, chunks swizzled as in cache.hpp, from a multiple of 1024 bytes on. Of the
// result, lane 4 g + t of a warp holds d[4 j ..]: row g, columns 8 j + 2 t and the next; then row g + 8.
#pragma once

#include <cstdint>

namespace fourfold::cuda::sm90 {

// PTX ISA, matrix descriptor: address, distance of 8 rows, 128-byte swizzle.
__device__ __forceinline__ std::uint64_t swizzled_descriptor(std::uint32_t address) {
  constexpr std::uint64_t kEightRows = 1024 >> 4, kSwizzle128 = 1;
  return (address & 0x3ffff) >> 4 | std::uint64_t{1} << 16 | kEightRows << 32 | kSwizzle128 << 62;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

#define FOURFOLD_EIGHT(i)                                                                                     \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])

// d += a b over 16 elements of k, asynchronously; a: bf16 pairs; 128 columns.
__device__ __forceinline__ void wgmma_bf16(float (&d)[64], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1, 0;\n"
      "}\n"
      : FOURFOLD_EIGHT(0), FOURFOLD_EIGHT(8), FOURFOLD_EIGHT(16), FOURFOLD_EIGHT(24), FOURFOLD_EIGHT(32),
        FOURFOLD_EIGHT(40), FOURFOLD_EIGHT(48), FOURFOLD_EIGHT(56)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// The same of 256 columns.
__device__ __forceinline__ void wgmma_bf16(float (&d)[128], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "{%128, %129, %130, %131}, %132, add, 1, 1, 0;\n"
      "}\n"
      : FOURFOLD_EIGHT(0), FOURFOLD_EIGHT(8), FOURFOLD_EIGHT(16), FOURFOLD_EIGHT(24), FOURFOLD_EIGHT(32),
        FOURFOLD_EIGHT(40), FOURFOLD_EIGHT(48), FOURFOLD_EIGHT(56), FOURFOLD_EIGHT(64), FOURFOLD_EIGHT(72),
        FOURFOLD_EIGHT(80), FOURFOLD_EIGHT(88), FOURFOLD_EIGHT(96), FOURFOLD_EIGHT(104), FOURFOLD_EIGHT(112),
        FOURFOLD_EIGHT(120)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef FOURFOLD_EIGHT

}  // namespace fourfold::cuda::sm90
