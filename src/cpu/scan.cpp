// The public entrances to the scan kernels of this machine's ISA level.
#include <fourfold/scan_kernel.hpp>

#include "cpu/simd/kernels.hpp"

namespace fourfold {

// The state in panels, 9 rows of padded keys per token of a chunk and two more, the chunk's own products, and what it
// takes to begin on a cache line.
std::size_t scan_scratch_floats(int keys, int values) {
  const auto rows = static_cast<std::size_t>((keys + 15) / 16 * 16);
  const auto columns = static_cast<std::size_t>((values + kScanPanel - 1) / kScanPanel * kScanPanel);
  constexpr std::size_t kTokens = kScanChunk;
  return columns * static_cast<std::size_t>(keys) + (9 * kTokens + 2) * rows + 4 * kTokens * (kTokens + kScanPanel) +
         15;
}

void scan_steps(const ScanRun& run) { simd::kernels().scan_steps(run); }
void scan_chunks(const ScanRun& run) { simd::kernels().scan_chunks(run); }
void scan_channels(const ChannelRun& run) { simd::kernels().scan_channels(run); }

}  // namespace fourfold
