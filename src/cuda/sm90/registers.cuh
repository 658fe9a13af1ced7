// How a warpgroup hands registers to another one of its block. PTX ISA, setmaxnreg.
#pragma once

namespace fourfold::cuda::sm90 {

// Registers per thread of this warpgroup from here on; all of its warps ask for the same.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace fourfold::cuda::sm90
