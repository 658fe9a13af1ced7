// How the ceilings are measured. Everything is timed inside one run of the team, so that starting it does not count.
#include "lab/probe.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "cpu/simd/kernels.hpp"
#include "cpu/topology.hpp"

namespace fourfold {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{128} << 20;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds from the moment all workers have prepared until all have run f(worker).
template <class Prepare, class F>
double timed(Pool& pool, Prepare&& prepare, F&& f) {
  double seconds = 0;
  (void)pool.run([&](Worker& w) {
    prepare(w);
    w.barrier();
    const auto start = Clock::now();
    f(w);
    w.barrier();
    if (w.index == 0) seconds = seconds_since(start);
  });
  return seconds;
}

template <class F>
double timed(Pool& pool, F&& f) {
  return timed(
      pool, [](Worker&) {}, std::forward<F>(f));
}

// Operations per second of one loop on all threads of the pool: the median of `rounds` of about `seconds` each.
double measure_ops(Pool& pool, const simd::OpLoop& loop, double seconds, int rounds) {
  if (loop.run == nullptr) return 0;
  std::int64_t iterations = 20'000;
  const auto once = [&] { return timed(pool, [&](Worker&) { loop.run(iterations); }); };
  once();
  iterations = std::max<std::int64_t>(iterations, static_cast<std::int64_t>(20'000 * seconds / once()));
  std::vector<double> rates;
  for (int i = 0; i < rounds; ++i) {
    rates.push_back(static_cast<double>(iterations) * loop.ops * pool.threads() / once());
  }
  return median_of(rates);
}

double measure_barrier(Pool& pool, int rounds) {
  constexpr int kBarriers = 2000;
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    seconds.push_back(timed(pool, [](Worker& w) {
      for (int k = 0; k < kBarriers; ++k) w.barrier();
    }));
  }
  return median_of(seconds) / kBarriers;
}

// A chain of dependent 64-bit multiplications takes 3 cycles each on every current x86 core (Fog, instruction tables),
// whatever else the core could do meanwhile.
double measure_clock(Pool& pool, int rounds) {
  constexpr int kChain = 200'000;
  constexpr double kCycles = 3;
  std::vector<double> rates;
  for (int i = 0; i < rounds; ++i) {
    std::vector<double> seconds(static_cast<std::size_t>(pool.threads()));
    timed(pool, [&](Worker& w) {
      std::uint64_t x = 3;
      const auto start = Clock::now();
      for (int k = 0; k < kChain; ++k) {
        x *= x;
        asm volatile("" : "+r"(x));
      }
      seconds[static_cast<std::size_t>(w.index)] = seconds_since(start);
    });
    rates.push_back(kCycles * kChain / median_of(seconds));
  }
  return median_of(rates);
}

// Bytes per second when each thread reads `part` bytes of its own again and again.
double measure_cache(Pool& pool, const simd::ProbeKernels& kernels, std::span<const std::byte> data, std::size_t part) {
  part = part / simd::kWalkGrain * simd::kWalkGrain;
  if (part == 0 || part * static_cast<std::size_t>(pool.threads()) > data.size()) return 0;
  const int passes = static_cast<int>(std::max<std::size_t>(4, (std::size_t{64} << 20) / part));
  std::vector<double> rates;
  for (int round = 0; round < 5; ++round) {
    const double seconds = timed(pool, [&](Worker& w) {
      for (int i = 0; i < passes; ++i)
        kernels.walks[0].read(data.data() + static_cast<std::size_t>(w.index) * part, part);
    });
    rates.push_back(static_cast<double>(part) * passes * pool.threads() / seconds);
  }
  return median_of(rates);
}

// Writes every page, each worker those it will read.
void touch(Pool& pool, std::span<std::byte> bytes) {
  (void)pool.run([&](Worker& w) {
    const Share mine = w.share(static_cast<std::int64_t>(bytes.size()), 4096);
    for (std::int64_t at = mine.begin; at < mine.end; at += 4096) bytes[static_cast<std::size_t>(at)] = std::byte{1};
  });
}

// Memory to read from: the caller's, or a buffer with huge pages and, unless quick, one without.
struct Memory {
  std::vector<PageBuffer> buffers;
  std::vector<std::pair<std::span<const std::byte>, std::string>> parts;
};

result<Memory> find_memory(Pool& pool, const ProbeOptions& options) {
  Memory memory;
  if (!options.data.empty()) {
    memory.parts.emplace_back(options.data, "the caller's bytes");
    return memory;
  }
  for (const bool huge : {true, false}) {
    if (options.quick && !huge) break;
    auto buffer = PageBuffer::create(kBufferBytes, huge);
    if (!buffer.ok()) return buffer.error();
    touch(pool, buffer->bytes());
    memory.parts.emplace_back(buffer->bytes(), huge ? "huge pages" : "4 KiB pages");
    memory.buffers.push_back(std::move(buffer).value());
  }
  return memory;
}

void measure_memory(Pool& pool, const simd::ProbeKernels& kernels, const Topology& machine, const Memory& memory,
                    bool quick, const std::function<void(int)>& done, Ceilings& c) {
  ReadProbe reads(pool, kernels);
  for (const auto& [data, label] : memory.parts) reads.add(data, label);
  reads.choose(quick ? 5 : 15, quick);
  c.read_bytes_per_s = reads.median();
  c.read_spread = reads.spread();
  c.read_pattern = reads.pattern();
  c.read_buffer_bytes = static_cast<double>(memory.parts.front().first.size());
  done(2);
  if (quick) return;
  c.read_bytes_per_s_1 = reads.median_1(5);
  done(3);
  const auto share = static_cast<std::size_t>(pool.threads());
  c.l2_bytes_per_s = measure_cache(pool, kernels, memory.parts.front().first, machine.l2 / 2);
  c.l3_bytes_per_s = measure_cache(pool, kernels, memory.parts.front().first, machine.l3 / 2 / share);
}

void measure_arithmetic(Pool& pool, const simd::ProbeKernels& kernels, bool quick, Ceilings& c) {
  const double seconds = quick ? 0.002 : 0.005;
  const int rounds = quick ? 3 : 7;
  c.int8_ops = measure_ops(pool, kernels.int8_dot, seconds, rounds);
  c.bf16_ops = measure_ops(pool, kernels.bf16_dot, seconds, rounds);
  c.f32_flops = measure_ops(pool, kernels.f32_fma, seconds, rounds);
  c.clock_hz = measure_clock(pool, rounds);
  c.barrier_s = measure_barrier(pool, rounds);
  if (quick) return;
  const auto one = Pool::create(1);
  if (!one.ok()) return;
  Pool& alone = **one;
  c.int8_ops_1 = measure_ops(alone, kernels.int8_dot, seconds, rounds);
  c.bf16_ops_1 = measure_ops(alone, kernels.bf16_dot, seconds, rounds);
  c.f32_flops_1 = measure_ops(alone, kernels.f32_fma, seconds, rounds);
}

}  // namespace

void PageBuffer::Unmap::operator()(std::byte* data) const { munmap(data, bytes); }

result<PageBuffer> PageBuffer::create(std::size_t bytes, bool huge) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return status(Code::resource, "probe: the system refuses a buffer of " + std::to_string(bytes) + " bytes");
  }
  madvise(data, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);  // a wish: a kernel without huge pages says no
  return PageBuffer(static_cast<std::byte*>(data), bytes);
}

result<const simd::ProbeKernels*> probe_level(const std::string& isa) {
  const auto kernels = isa.empty() ? simd::selected_kernels() : simd::select_kernels(isa.c_str());
  if (!kernels.ok()) return kernels.error();
  return simd::probe_kernels(kernels.value()->name);
}

void ReadProbe::add(std::span<const std::byte> data, std::string label) {
  memories_.push_back({data, std::move(label), nullptr, {}});
}

double ReadProbe::pass(const Arm& arm) {
  const std::size_t threads = static_cast<std::size_t>(pool_->threads());
  const std::size_t part = arm.data.size() / threads / simd::kWalkGrain * simd::kWalkGrain;
  const auto mine = [&](const Worker& w) { return arm.data.data() + static_cast<std::size_t>(w.index) * part; };
  const double seconds = timed(
      *pool_, [&](Worker& w) { kernels_->flush(mine(w), part); }, [&](Worker& w) { arm.walk->read(mine(w), part); });
  return static_cast<double>(part * threads) / seconds;
}

// All arms take turns, so that a slow second of the machine is nobody's fault; then the best median comes first.
void ReadProbe::play(std::span<Arm> arms, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (Arm& arm : arms) arm.rates.push_back(pass(arm));
  }
  for (Arm& arm : arms) std::sort(arm.rates.begin(), arm.rates.end());
  std::stable_sort(arms.begin(), arms.end(),
                   [](const Arm& a, const Arm& b) { return median_of(a.rates) > median_of(b.rates); });
}

void ReadProbe::choose(int rounds, bool quick) {
  constexpr std::size_t kFinalists = 6;
  arms_.clear();
  for (const Arm& memory : memories_) {
    for (int i = 0; i < (quick ? kernels_->quick_walks : kernels_->walk_count); ++i) {
      arms_.push_back({memory.data, memory.label, &kernels_->walks[i], {}});
    }
  }
  constexpr int kHeats = 2;
  if (arms_.size() > kFinalists && rounds > kHeats) {
    play(arms_, kHeats);
    arms_.resize(kFinalists);
    rounds -= kHeats;
  }
  play(arms_, rounds);
}

double ReadProbe::sample() { return pass(arms_.front()); }

double ReadProbe::median() const { return median_of(arms_.front().rates); }

double ReadProbe::spread() const {
  const std::vector<double>& rates = arms_.front().rates;
  return (rates.back() - rates.front()) / median();
}

double ReadProbe::median_1(int rounds) {
  double best = 0;
  std::vector<std::vector<double>> rates(arms_.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      const std::size_t bytes = arms_[i].data.size() / simd::kWalkGrain * simd::kWalkGrain;
      kernels_->flush(arms_[i].data.data(), bytes);
      const auto start = Clock::now();
      arms_[i].walk->read(arms_[i].data.data(), bytes);
      rates[i].push_back(static_cast<double>(bytes) / seconds_since(start));
    }
  }
  for (const auto& r : rates) best = std::max(best, median_of(r));
  return best;
}

std::string ReadProbe::pattern() const { return arms_.front().walk->name + (", " + arms_.front().label); }

result<Ceilings> probe(const ProbeOptions& options) {
  const auto level = probe_level(options.isa);
  if (!level.ok()) return level.error();
  const Topology machine = read_topology();
  auto pool = Pool::create(options.threads == 0 ? default_threads(machine) : options.threads);
  if (!pool.ok()) return pool.error();

  const auto done = [&](int parts) {
    if (options.progress) options.progress(parts);
  };
  Ceilings c;
  c.cpu = machine.cpu_model;
  c.isa = (*level)->name;
  c.threads = (*pool)->threads();
  {
    const auto memory = find_memory(**pool, options);
    if (!memory.ok()) return memory.error();
    done(1);
    measure_memory(**pool, **level, machine, memory.value(), options.quick, done, c);
  }
  done(4);
  measure_arithmetic(**pool, **level, options.quick, c);
  done(kProbeParts);
  return c;
}

result<std::unique_ptr<ReadCeiling>> ReadCeiling::create(const ProbeOptions& options) {
  const auto level = probe_level(options.isa);
  if (!level.ok()) return level.error();
  auto pool = Pool::create(options.threads == 0 ? default_threads() : options.threads);
  if (!pool.ok()) return pool.error();
  ProbeOptions quick = options;
  quick.quick = true;
  auto memory = find_memory(**pool, quick);
  if (!memory.ok()) return memory.error();
  std::unique_ptr<ReadCeiling> ceiling(new ReadCeiling(std::move(pool).value(), **level));
  for (const auto& [data, label] : memory->parts) ceiling->reads_.add(data, label);
  ceiling->buffers_ = std::move(memory->buffers);
  return ceiling;
}

double ReadCeiling::sample() {
  reads_.choose(5, true);
  return reads_.median();
}

}  // namespace fourfold
