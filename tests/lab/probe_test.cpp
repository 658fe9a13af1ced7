// The probe: figures are there and make sense, levels and errors, the cache file, the text. Nothing here judges speed.
#include "lab/probe.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cpu/topology.hpp"

namespace fourfold {
namespace {

ProbeOptions quick(int threads, std::string isa) {
  ProbeOptions options;
  options.threads = threads;
  options.isa = std::move(isa);
  options.quick = true;
  return options;
}

TEST(Probe, QuickFiguresArePositiveAndNamed) {
  const auto c = probe(quick(2, ""));
  ASSERT_TRUE(c.ok()) << c.error().message();
  EXPECT_EQ(c->threads, 2);
  EXPECT_EQ(c->isa, (*probe_level(""))->name);
  for (const double figure : {c->read_bytes_per_s, c->int8_ops, c->f32_flops, c->barrier_s, c->clock_hz}) {
    EXPECT_TRUE(std::isfinite(figure));
    EXPECT_GT(figure, 0);
  }
  EXPECT_NE(c->read_pattern.find("stream"), std::string::npos);
  EXPECT_EQ(c->int8_ops_1, 0);
}

TEST(Probe, SaysWhichPartsAreDone) {
  std::vector<int> parts;
  ProbeOptions options = quick(1, "");
  options.progress = [&](int part) { parts.push_back(part); };
  ASSERT_TRUE(probe(options).ok());
  EXPECT_EQ(parts, (std::vector{1, 2, 4, kProbeParts})) << "3 is left out when quick";
}

TEST(Probe, EveryLevelOfThisProcessorRuns) {
  for (const char* isa : {"scalar", "avx2", "avx512"}) {
    const auto level = probe_level(isa);
    if (!level.ok()) {
      EXPECT_EQ(level.error().code(), Code::unsupported);
      continue;
    }
    const simd::ProbeKernels& k = **level;
    EXPECT_STREQ(k.name, isa);
    EXPECT_LE(k.quick_walks, k.walk_count);
    for (const simd::OpLoop* loop : {&k.int8_dot, &k.bf16_dot, &k.f32_fma}) {
      EXPECT_EQ(loop->run == nullptr, loop->instruction == nullptr);
      if (loop->run != nullptr) loop->run(10);
    }
    EXPECT_NE(k.int8_dot.run, nullptr);
    EXPECT_NE(k.f32_fma.run, nullptr);
    auto buffer = PageBuffer::create(simd::kWalkGrain * 2, false);
    ASSERT_TRUE(buffer.ok());
    for (int i = 0; i < k.walk_count; ++i) k.walks[i].read(buffer->bytes().data(), buffer->bytes().size());
  }
}

TEST(Probe, ErrorsSayWhatIsAccepted) {
  const auto unknown = probe(quick(1, "avx1024"));
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code(), Code::unsupported);
  EXPECT_NE(unknown.error().message().find("avx1024"), std::string::npos);
  EXPECT_NE(unknown.error().message().find("scalar"), std::string::npos);
  EXPECT_FALSE(probe(quick(-3, "")).ok());
}

TEST(Probe, ReadsTheCallersBytesWhenGiven) {
  auto buffer = std::move(PageBuffer::create(8 << 20, true)).value();
  std::memset(buffer.bytes().data(), 7, buffer.bytes().size());
  ProbeOptions options = quick(2, "scalar");
  options.data = buffer.bytes();
  const auto c = probe(options);
  ASSERT_TRUE(c.ok()) << c.error().message();
  EXPECT_EQ(c->read_buffer_bytes, 8 << 20);
  EXPECT_GT(c->read_bytes_per_s, 0);
}

TEST(ReadProbe, ReadsTheCallersBytes) {
  auto pool = std::move(Pool::create(2)).value();
  auto buffer = std::move(PageBuffer::create(4 << 20, true)).value();
  std::memset(buffer.bytes().data(), 7, buffer.bytes().size());
  ReadProbe reads(*pool, **probe_level("scalar"));
  reads.add(buffer.bytes(), "weights");
  reads.choose(3, true);
  EXPECT_GT(reads.sample(), 0);
  EXPECT_GT(reads.median(), 0);
  EXPECT_GE(reads.spread(), 0);
  EXPECT_GT(reads.median_1(3), 0);
  EXPECT_NE(reads.pattern().find(", weights"), std::string::npos);
}

// A table whose loops only count: bytes flushed and not read since, and bytes read.
std::atomic<std::size_t> flushed, read_after_flush, read_without;
void count_flush(const void*, std::size_t bytes) { flushed += bytes; }
void count_read(const void*, std::size_t bytes) {
  (flushed >= bytes ? read_after_flush : read_without) += bytes;
  if (flushed >= bytes) flushed -= bytes;
}

TEST(ReadProbe, FlushesWhatItReads) {
  const simd::ReadWalk walk{"count", count_read};
  const simd::ProbeKernels kernels{"count", count_flush, &walk, 1, 1, {}, {}, {}};
  auto pool = std::move(Pool::create(3)).value();
  auto buffer = std::move(PageBuffer::create(3 << 20, false)).value();
  ReadProbe reads(*pool, kernels);
  reads.add(buffer.bytes(), "nothing");
  reads.choose(4, false);
  (void)reads.sample();
  (void)reads.median_1(2);
  EXPECT_EQ(read_after_flush, 7 * buffer.bytes().size());
  EXPECT_EQ(read_without, 0u);
}

TEST(ReadCeiling, SamplesAgainAndAgain) {
  auto buffer = std::move(PageBuffer::create(4 << 20, false)).value();
  std::memset(buffer.bytes().data(), 7, buffer.bytes().size());
  ProbeOptions options = quick(2, "");
  options.data = buffer.bytes();
  auto ceiling = ReadCeiling::create(options);
  ASSERT_TRUE(ceiling.ok()) << ceiling.error().message();
  for (int i = 0; i < 3; ++i) EXPECT_GT((*ceiling)->sample(), 0);
  EXPECT_FALSE(ReadCeiling::create(quick(-1, "")).ok());
  EXPECT_FALSE(ReadCeiling::create(quick(1, "none")).ok());
}

TEST(ProbeText, ShowsWhatWasMeasuredOnly) {
  Ceilings c;
  c.cpu = "A Fine CPU";
  c.isa = "avx512";
  c.threads = 2;
  c.read_bytes_per_s = 45.34e9;
  c.read_pattern = "4 streams, huge pages";
  c.read_buffer_bytes = 256 << 20;
  c.read_spread = 0.034;
  c.int8_ops = 2.05e12;
  c.barrier_s = 48e-9;
  const std::string text = format_probe(c);
  EXPECT_NE(text.find("A Fine CPU, 2 threads, avx512\n"), std::string::npos) << text;
  EXPECT_NE(text.find("45.34 GB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("4 streams, huge pages; 256 MiB, spread 3%"), std::string::npos) << text;
  EXPECT_NE(text.find("2.05 TOP/s"), std::string::npos) << text;
  EXPECT_NE(text.find("48 ns"), std::string::npos) << text;
  EXPECT_EQ(text.find("L3"), std::string::npos) << text;
  EXPECT_EQ(text.find("bf16"), std::string::npos) << text;
}

}  // namespace
}  // namespace fourfold
