// The kernels alone. decode/STORAGE/K/threads: weights streamed from memory, bytes per second against the read ceiling.
// prefill/STORAGE/K: 512 tokens, operations per second and their share of this core's int8 (or f32) dot peak, probed
// here. attend: the cache's bytes per second for one token, floating-point operations for a prompt.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cpu/simd/kernels.hpp"
#include "cpu/simd/tile.hpp"

namespace fourfold::simd {
namespace {

// Zeroed memory in large pages where the system gives them.
std::shared_ptr<std::uint8_t> pages(std::size_t bytes) {
  constexpr std::size_t kLarge = std::size_t{2} << 20;
  const std::size_t size = (bytes + 2 * kLarge) / kLarge * kLarge;
  auto* base =
      static_cast<std::uint8_t*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  madvise(base, size, MADV_HUGEPAGE);
  std::memset(base, 0x11, size);
  return {base, [size](std::uint8_t* p) { munmap(p, size); }};
}

struct Activations {
  std::size_t stride;
  std::vector<std::uint8_t> rows;
};

Activations activations(const Kernels& table, Rounding kind, int k, int tokens) {
  Activations a{prepared_bytes(kind, k), {}};
  a.rows.resize(a.stride * static_cast<std::size_t>(tokens));
  std::vector<float> x(static_cast<std::size_t>(k), 0.5f);
  for (int t = 0; t < tokens; ++t)
    table.prepare[static_cast<int>(kind)](x.data(), nullptr, k, a.rows.data() + static_cast<std::size_t>(t) * a.stride);
  return a;
}

// Each thread streams its own 128 MB as matrices of 256 rows.
void decode(benchmark::State& state, Storage storage, bool f32_mode) {
  const Kernels& table = kernels();
  const int k = static_cast<int>(state.range(0)), rows = 256;
  const std::size_t matrix = static_cast<std::size_t>(rows / kTileRows) * tile_bytes(storage, k);
  const std::size_t count = (std::size_t{128} << 20) / matrix;
  const auto weights = pages(count * matrix);
  const Activations x = activations(table, f32_mode ? Rounding::f32 : table.rounding[index(storage)], k, 1);
  std::vector<float> out(rows);
  const auto dot = f32_mode ? table.dot_f32[index(storage)] : table.dot[index(storage)];
  for (auto _ : state) {
    for (std::size_t m = 0; m < count; ++m)
      dot({weights.get() + m * matrix, rows, k, x.rows.data(), x.stride, 1, out.data(), out.size()});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * count * matrix));
}

// Operations (2 x 64) of vpdpbusd that this core does in a second; 0 where the level has none.
[[gnu::target("avx512f")]] double probe_int8_peak() {
  double best = 0;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    long n = 100000;
    asm volatile(
        "1:\n\t"
        ".irp i,0,1,2,3,4,5,6,7,8,9,10,11\n\t"
        "vpdpbusd %%zmm30, %%zmm31, %%zmm\\i\n\t"
        ".endr\n\t"
        "dec %0\n\tjnz 1b"
        : "+r"(n)
        :
        : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11", "cc");
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 1e5 * 12 * 128 / seconds);
  }
  return best;
}

double int8_peak() {
  static const double peak = std::string(kernels().name) == "avx512" ? probe_int8_peak() : 0;
  return peak;
}

void prefill(benchmark::State& state, Storage storage, bool f32_mode) {
  const Kernels& table = kernels();
  const int k = static_cast<int>(state.range(0)), rows = 768, tokens = static_cast<int>(state.range(1));
  const auto weights = pages(static_cast<std::size_t>(rows / kTileRows) * tile_bytes(storage, k));
  const Rounding kind = f32_mode ? Rounding::f32 : table.rounding[index(storage)];
  const Activations x = activations(table, kind, k, tokens);
  std::vector<float> out(static_cast<std::size_t>(rows) * static_cast<std::size_t>(tokens));
  const auto dot = f32_mode ? table.dot_f32[index(storage)] : table.dot[index(storage)];
  for (auto _ : state) {
    dot({weights.get(), rows, k, x.rows.data(), x.stride, tokens, out.data(), static_cast<std::size_t>(rows)});
    benchmark::ClobberMemory();
  }
  const double operations = 2.0 * rows * k * tokens * static_cast<double>(state.iterations());
  state.counters["ops"] = benchmark::Counter(operations, benchmark::Counter::kIsRate);
  // A bf16 vector holds half as many products as an int8 one, an f32 vector a quarter.
  const double peak = int8_peak() / (kind == Rounding::q15 ? 1 : kind == Rounding::bf16 ? 2 : 4);
  if (peak > 0) state.counters["peak_share"] = benchmark::Counter(operations / peak, benchmark::Counter::kIsRate);
}

// `heads` query heads share each of 8 kv heads; 4096 keys; one token, or 64 positions.
void attend(benchmark::State& state, Storage type, int positions) {
  const Kernels& table = kernels();
  const int d = static_cast<int>(state.range(0)), heads = static_cast<int>(state.range(1)), keys = 4096;
  const std::size_t leaf = kv_leaf_bytes(type, d), head_bytes = leaf * (keys / kLeafKeys);
  const int kv_heads = positions == 1 ? static_cast<int>((std::size_t{128} << 20) / head_bytes) : 1;
  const auto cache = pages(head_bytes * static_cast<std::size_t>(kv_heads));
  const auto queries = static_cast<std::size_t>(heads * positions);
  const std::vector<float> q(static_cast<std::size_t>(d), 0.1f);
  const std::vector<const float*> rows(queries, q.data());
  const std::vector<std::int32_t> first(queries, 0), last(queries, kBlockKeys);
  std::vector<float> states(queries * state_floats(d));
  std::vector<const std::uint8_t*> leaves;
  for (int i = 0; i < kv_heads * keys / kLeafKeys; ++i)
    leaves.push_back(cache.get() + static_cast<std::size_t>(i) * leaf);
  leaves.push_back(nullptr);
  for (auto _ : state) {
    for (int block = 0; block < kv_heads * keys / kBlockKeys; ++block)
      table.attend({type,
                    {d, d},
                    leaves.data() + std::ptrdiff_t{block} * (kBlockKeys / kLeafKeys),
                    0,
                    static_cast<int>(queries),
                    rows.data(),
                    first.data(),
                    last.data(),
                    0.125f,
                    0,
                    states.data(),
                    state_floats(d)});
    benchmark::ClobberMemory();
  }
  const double passes = static_cast<double>(state.iterations()) * kv_heads;
  if (positions == 1)
    return state.SetBytesProcessed(static_cast<std::int64_t>(passes * static_cast<double>(head_bytes)));
  const double operations = passes * 4.0 * keys * d * static_cast<double>(queries);
  state.counters["ops"] = benchmark::Counter(operations, benchmark::Counter::kIsRate);
  if (int8_peak() > 0)
    state.counters["peak_share"] = benchmark::Counter(operations / (int8_peak() / 4), benchmark::Counter::kIsRate);
}

// One token's `heads` queries over 4096 latents of 512 + 64 numbers: floating-point operations and the cache's bytes.
void attend_latent(benchmark::State& state, Storage type) {
  const Kernels& table = kernels();
  const KvShape shape{576, 512, true};
  const int heads = static_cast<int>(state.range(0)), keys = 4096;
  const std::size_t leaf = kv_leaf_bytes(type, shape), stride = state_floats(shape.value);
  const int sequences = static_cast<int>((std::size_t{128} << 20) / (leaf * (keys / kLeafKeys)));
  const auto cache = pages(leaf * static_cast<std::size_t>(sequences * keys / kLeafKeys));
  const auto queries = static_cast<std::size_t>(heads);
  const std::vector<float> q(static_cast<std::size_t>(shape.key), 0.1f);
  const std::vector<const float*> rows(queries, q.data());
  const std::vector<std::int32_t> first(queries, 0), last(queries, kBlockKeys);
  std::vector<float> states(queries * stride);
  std::vector<const std::uint8_t*> leaves;
  for (int i = 0; i < sequences * keys / kLeafKeys; ++i)
    leaves.push_back(cache.get() + static_cast<std::size_t>(i) * leaf);
  leaves.push_back(nullptr);
  for (auto _ : state) {
    for (int block = 0; block < sequences * keys / kBlockKeys; ++block)
      table.attend({type, shape, leaves.data() + std::ptrdiff_t{block} * (kBlockKeys / kLeafKeys), 0, heads,
                    rows.data(), first.data(), last.data(), 0.1f, 0, states.data(), stride});
    benchmark::ClobberMemory();
  }
  const double passes = static_cast<double>(state.iterations()) * sequences;
  state.SetBytesProcessed(static_cast<std::int64_t>(passes * static_cast<double>(leaf * (keys / kLeafKeys))));
  const double operations = passes * 2.0 * (shape.key + shape.value) * keys * heads;
  state.counters["ops"] = benchmark::Counter(operations, benchmark::Counter::kIsRate);
  if (int8_peak() > 0)
    state.counters["peak_share"] = benchmark::Counter(operations / (int8_peak() / 4), benchmark::Counter::kIsRate);
}

// File rows to tiles: bytes of one side.
void pack(benchmark::State& state, Storage storage) {
  const int k = 576;
  const std::size_t tile = tile_bytes(storage, k), count = (std::size_t{64} << 20) / tile;
  const auto from = pages(count * tile), to = pages(count * tile);
  for (auto _ : state)
    for (std::size_t i = 0; i < count; ++i)
      pack_tile(storage, k, from.get() + i * tile, tile / kTileRows, kTileRows, to.get() + i * tile);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * count * tile));
}

void add_all() {
  for (const StorageInfo& s : kStorages) {
    const std::string name(s.name);
    const int k = s.block_elements == 256 ? 2048 : 576;
    benchmark::RegisterBenchmark(("decode/" + name).c_str(), decode, s.storage, false)
        ->Arg(k)
        ->Threads(1)
        ->Threads(2)
        ->UseRealTime();
    benchmark::RegisterBenchmark(("decode_f32/" + name).c_str(), decode, s.storage, true)
        ->Arg(k)
        ->Threads(2)
        ->UseRealTime();
    benchmark::RegisterBenchmark(("prefill/" + name).c_str(), prefill, s.storage, false)
        ->Args({k, 512})
        ->Args({1536, 512})
        ->Args({k, 5});
    benchmark::RegisterBenchmark(("prefill_f32/" + name).c_str(), prefill, s.storage, true)->Args({k, 512});
    benchmark::RegisterBenchmark(("pack/" + name).c_str(), pack, s.storage);
  }
  for (const Storage type : {Storage::f32, Storage::f16, Storage::bf16, Storage::q8_0}) {
    const std::string name(info(type).name);
    benchmark::RegisterBenchmark(("attend_latent/" + name).c_str(), attend_latent, type)->Arg(4)->Arg(16)->Arg(128);
    benchmark::RegisterBenchmark(("attend_decode/" + name).c_str(), attend, type, 1)
        ->Args({64, 3})
        ->Args({256, 4})
        ->Threads(1)
        ->Threads(2)
        ->UseRealTime();
    benchmark::RegisterBenchmark(("attend_prefill/" + name).c_str(), attend, type, 64)->Args({64, 3})->Args({256, 4});
  }
}

const bool kAdded = (add_all(), true);

}  // namespace
}  // namespace fourfold::simd
