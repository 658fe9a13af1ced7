// The ceilings of this machine, measured: what memory, arithmetic units and threads can do at best.
//
// Each figure is the median of several rounds; of several ways to read memory the best median counts. A figure is a
// rate over all threads of the team unless its name ends in _1. What a machine gives changes from one second to the
// next (neighbours, clocks, where a hypervisor puts the processors): a share of a ceiling needs both measured in turns,
// and ReadProbe exists for that.
#pragma once

#include <cstddef>
#include <fourfold/status.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "cpu/pool.hpp"
#include "cpu/simd/probe.hpp"

namespace fourfold {

struct Ceilings {
  std::string cpu;  // model name
  std::string isa;  // level of the loops: scalar, avx2, avx512
  int threads = 0;

  double read_bytes_per_s = 0, read_bytes_per_s_1 = 0;  // from memory, nothing in the caches
  double read_spread = 0;                               // (highest - lowest round) / median
  double read_buffer_bytes = 0;
  std::string read_pattern;                       // the walk and the pages that gave the best median
  double l2_bytes_per_s = 0, l3_bytes_per_s = 0;  // 0: not measured, or no such cache

  double int8_ops = 0, int8_ops_1 = 0;    // int8 multiplies and adds per second; a dot product of n counts 2n
  double bf16_ops = 0, bf16_ops_1 = 0;    // bfloat16 into float32; 0 where the level has no such instruction
  double f32_flops = 0, f32_flops_1 = 0;  // fused multiply-add counts 2

  double barrier_s = 0;  // one barrier of the team
  double clock_hz = 0;   // with all threads busy
};

struct ProbeOptions {
  int threads = 0;     // 0: default_threads()
  std::string isa;     // level; empty: the one the kernels use
  bool quick = false;  // the likely walks only, no figures of one thread or of caches
  // Memory to read instead of an own buffer (of 128 MiB): weights that are resident anyway. At least 1 MiB a thread,
  // 64-byte aligned. How much of it the caches could hold does not matter: it is flushed before every pass.
  std::span<const std::byte> data = {};
  std::function<void(int)> progress = {};  // of probe(): so many of kProbeParts parts are done
};
inline constexpr int kProbeParts = 5;

// Takes about 0.7 s; when quick, 0.1 s, and up to 0.2 s more where a hypervisor has to find the buffer first. Errors: a
// thread count or level that cannot be had, no memory for the buffer.
result<Ceilings> probe(const ProbeOptions& options);

std::string format_probe(const Ceilings& ceilings);  // aligned lines for people
nlohmann::json to_json(const Ceilings& ceilings);    // the struct's field names

// The table of a level by name, empty for the level the kernels use; an error names the levels this machine runs.
result<const simd::ProbeKernels*> probe_level(const std::string& isa);

// Memory from the system, page-aligned, with or without huge pages, touched by nobody yet.
class PageBuffer {
 public:
  static result<PageBuffer> create(std::size_t bytes, bool huge);
  std::span<std::byte> bytes() const { return {data_.get(), data_.get_deleter().bytes}; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* data) const;
  };
  explicit PageBuffer(std::byte* data, std::size_t bytes) : data_(data, Unmap{bytes}) {}
  std::unique_ptr<std::byte, Unmap> data_;
};

// Reads memory as fast as the team can, one pass at a time, each after the bytes were flushed from all caches: the
// denominator of "% of ceiling". Works on the caller's bytes (weights that are resident anyway) or on a buffer.
class ReadProbe {
 public:
  ReadProbe(Pool& pool, const simd::ProbeKernels& kernels) : pool_(&pool), kernels_(&kernels) {}

  // Adds memory to try, already written, at least 1 MiB per thread and 64-byte aligned; it must outlive the probe.
  // `label` goes into pattern().
  void add(std::span<const std::byte> data, std::string label);
  // Tries every walk on every memory and keeps the best median of `rounds`; quick tries the usual winners only.
  void choose(int rounds, bool quick);
  // Bytes per second of one pass of the chosen walk.
  double sample();

  double median() const;        // of the rounds that chose the walk, bytes per second
  double spread() const;        // (highest - lowest) / median of those
  double median_1(int rounds);  // the best median of one thread, over the walks that were good for all
  std::string pattern() const;

 private:
  struct Arm {
    std::span<const std::byte> data;
    std::string label;
    const simd::ReadWalk* walk = nullptr;
    std::vector<double> rates;  // ascending
  };
  double pass(const Arm& arm);
  void play(std::span<Arm> arms, int rounds);

  Pool* pool_;
  const simd::ProbeKernels* kernels_;
  std::vector<Arm> memories_;  // without a walk
  std::vector<Arm> arms_;      // best first
};

// The read ceiling now, again and again: a team, memory and a ReadProbe that stay, so that one look takes some 50 ms.
class ReadCeiling {
 public:
  // With `data` (see ProbeOptions) nothing is allocated. Errors as those of probe().
  static result<std::unique_ptr<ReadCeiling>> create(const ProbeOptions& options);
  double sample();  // bytes per second: the best median of five rounds of the likely walks

 private:
  ReadCeiling(std::unique_ptr<Pool> pool, const simd::ProbeKernels& kernels)
      : pool_(std::move(pool)), reads_(*pool_, kernels) {}

  std::unique_ptr<Pool> pool_;
  std::vector<PageBuffer> buffers_;
  ReadProbe reads_;
};

}  // namespace fourfold
