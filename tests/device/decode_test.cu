// Executors on a device as a program meets them, on tiny models: against the reference in double, against one another
// at every boundary of the context, from run to run, for any grid, beside another kernel. Skipped where there is no
// device.
#include <chrono>
#include <cstring>
#include <thread>

#include "cuda/backend.hpp"
#include "device.cuh"
#include "engine/check.hpp"
#include "engine/model_state.hpp"
#include "models/random_weights.hpp"
#include "models/shapes.hpp"
#include "text/sampling.hpp"

namespace fourfold::cuda::test {
namespace {

constexpr int kContext = 16384;
// Heads of 64 and 128, norms of queries and keys, biases, widths that fill no tile; heads that the persistent kernel
// does not take.
constexpr NamedShape kPlain{"plain", "llama", 2, 512, 8, 2, 64, 1024, 1000, true, 0, kContext, 10000.f};
constexpr NamedShape kNormed{"normed", "qwen3", 2, 1024, 8, 2, 128, 1536, 4000, false, 0, kContext, 10000.f};
constexpr NamedShape kBiased{"biased", "qwen2", 2, 896, 16, 2, 64, 1216, 3000, true, 0, kContext, 10000.f};
constexpr NamedShape kRagged{"ragged", "llama", 3, 576, 12, 3, 64, 1536, 2000, true, 0, kContext, 10000.f};
constexpr NamedShape kOdd{"odd", "qwen2", 2, 448, 9, 3, 64, 800, 2000, true, 0, kContext, 10000.f};
constexpr NamedShape kShapes[] = {kPlain, kNormed, kBiased, kRagged};

Model model_of(const NamedShape& shape, Storage storage) {
  auto state = std::make_shared<Model::State>();
  state->path = shape.name;
  state->spec = make_shape_model(shape, storage).value();
  state->bytes = std::make_shared<const RandomWeights>(1);
  return Model{std::move(state)};
}

class Decode : public DeviceTest {
 protected:
  static std::unique_ptr<Backend> backend(const NamedShape& shape, Storage storage) {
    return make_cuda(make_shape_model(shape, storage)->program, RandomWeights(1), {}).value();
  }
  static PlanOptions options(const char* executor, int grid = 0) {
    PlanOptions options;
    options.context = kContext;
    options.cache = Storage::bf16;
    options.executor = executor;
    options.grid = grid;
    return options;
  }
  static std::unique_ptr<Executor> executor(Backend& backend, const char* name, int grid = 0) {
    auto made = backend.plan(options(name, grid));
    EXPECT_TRUE(made.ok()) << made.error().message();
    auto executor = std::move(made).value();
    EXPECT_TRUE(executor->randomize_cache(kContext, 3).ok());
    return executor;
  }
  static std::vector<float> logits(Executor& executor, int id, int position, int vocab) {
    std::vector<float> out(static_cast<std::size_t>(vocab), std::nanf(""));
    const status done = executor.forward({&id, 1}, position, 1, out.data());
    EXPECT_TRUE(done.ok()) << done.message();
    return out;
  }
  static std::vector<int> ids(Executor& executor, int position, int count, float temperature, std::uint64_t seed = 5) {
    std::vector<int> out(static_cast<std::size_t>(count), -1);
    const status done = executor.decode(7, position, {temperature, 0, 1, 0, seed}, out);
    EXPECT_TRUE(done.ok()) << done.message();
    return out;
  }
};

double relative(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double(got[i]) - want[i], 2);
    norm += std::pow(double(want[i]), 2);
  }
  return std::sqrt(error / norm);
}

void expect_agreement(const NamedShape& shape, Storage storage, const char* executor) {
  SCOPED_TRACE(std::string(shape.name) + " " + std::string(info(storage).name) + " " + executor);
  const Model model = model_of(shape, storage);
  SessionOptions options;
  options.executor = executor;
  options.cache = Storage::bf16;
  const int ids[] = {3, 141, 59, 26, 535, 8, 97, 9, 32};
  const auto checks = check_against_reference(model, options, RandomWeights(1), ids);
  ASSERT_TRUE(checks.ok()) << checks.error().message();
  for (const StepCheck& c : *checks)
    EXPECT_TRUE(c.ok()) << c.step << " " << c.output << ": " << c.distance << " above " << c.tolerance;
}

TEST_F(Decode, AgreesWithTheReference) {
  for (const char* executor : {"stream", "graph", "persistent"})
    for (const NamedShape& shape : kShapes) expect_agreement(shape, Storage::bf16, executor);
  for (const char* executor : {"stream", "graph"}) expect_agreement(kOdd, Storage::bf16, executor);
  for (const Storage storage : {Storage::fp8, Storage::q8_0, Storage::int4, Storage::mxfp4})
    for (const char* executor : {"graph", "persistent"}) expect_agreement(kNormed, storage, executor);
  for (const char* executor : {"graph", "persistent"}) expect_agreement(kPlain, Storage::q8_0, executor);
}

// Mostly to float32 rounding; where the token's own key or value rounds to a neighbour in bf16, somewhat less.
TEST_F(Decode, PersistentAgreesWithGraphAtEveryBoundary) {
  for (const NamedShape& shape : kShapes) {
    const auto made = backend(shape, Storage::bf16);
    const auto graph = executor(*made, "graph"), persistent = executor(*made, "persistent");
    std::vector<double> all;
    for (const int position : {0,   1,    62,   63,   64,   127,  128,  129,  255,  256,  257,   511,
                               512, 1023, 1024, 2047, 2048, 4095, 4096, 4097, 8191, 8192, 12345, kContext - 1}) {
      const double off =
          relative(logits(*persistent, 11, position, shape.vocab), logits(*graph, 11, position, shape.vocab));
      EXPECT_LE(off, 1e-4) << shape.name << " at " << position;
      all.push_back(off);
    }
    std::sort(all.begin(), all.end());
    EXPECT_LE(all[all.size() / 2], 1e-5) << shape.name;
  }
}

// What lies behind the position may be left over from tokens that were taken back, and be no number at all.
TEST_F(Decode, LooksAtNoCellBehindThePosition) {
  const auto made = backend(kNormed, Storage::bf16);
  for (const char* name : {"graph", "persistent"}) {
    const auto one = executor(*made, name);
    for (const int position : {0, 37, 64, 255, 1000}) {
      const auto expected = logits(*one, 11, position, kNormed.vocab);
      for (int cache = 0; cache < kNormed.layers; ++cache) {
        constexpr int kRows = 300;
        const std::vector<std::byte> poison(kRows * one->row_bytes(cache), std::byte{0xff});
        one->write_rows(cache, position, kRows, poison.data());
      }
      const auto got = logits(*one, 11, position, kNormed.vocab);
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0) << name << " at " << position;
      ASSERT_TRUE(one->randomize_cache(kContext, 3).ok());
    }
  }
}

TEST_F(Decode, ChoosesTheBestOfItsOwnLogits) {
  const auto made = backend(kNormed, Storage::bf16);
  for (const char* name : {"graph", "persistent"}) {
    const auto one = executor(*made, name), many = executor(*made, name);
    int id = 7, position = 250;
    for (const int chosen : ids(*many, position, 70, 0)) {
      const auto row = logits(*one, id, position++, kNormed.vocab);
      id = static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin());
      ASSERT_EQ(chosen, id) << name << " behind position " << position - 1;
    }
  }
}

TEST_F(Decode, SamplesAtATemperature) {
  constexpr int kDraws = 2000;
  constexpr float kTemperature = 0.7f;
  const auto made = backend(kPlain, Storage::bf16);
  for (const char* name : {"graph", "persistent"}) {
    const auto one = executor(*made, name);
    const auto row = logits(*one, 7, 40, kPlain.vocab);
    const float best = *std::max_element(row.begin(), row.end());
    std::vector<double> expected;
    for (const float x : row) expected.push_back(std::exp((double(x) - best) / kTemperature));
    double sum = 0;
    for (const double e : expected) sum += e;
    std::vector<int> drawn(row.size(), 0);
    for (int seed = 0; seed < kDraws; ++seed)
      ++drawn[static_cast<std::size_t>(ids(*one, 40, 1, kTemperature, seed)[0])];
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double n = kDraws * expected[i] / sum;
      EXPECT_NEAR(drawn[i], n, 6 * std::sqrt(n) + 3) << name << ", id " << i;
    }
    EXPECT_EQ(ids(*one, 40, 50, kTemperature), ids(*one, 40, 50, kTemperature)) << name;
  }
}

// Ids that the filters leave, as often as their probability says.
TEST_F(Decode, SamplesWhatFiltersLeave) {
  constexpr int kDraws = 1000;
  const Model model = model_of(kPlain, Storage::bf16);
  SessionOptions options;
  options.executor = "graph";
  auto session = model.session(options).value();
  ASSERT_TRUE(session.eval(std::vector<int>{5, 6, 7}).ok());
  ASSERT_TRUE(session.eval(std::vector<int>{8}).ok());
  SamplingOptions how{.temperature = 0.9f, .top_k = 20, .top_p = 0.8f, .min_p = 0.1f};
  ASSERT_TRUE(session.decodes(how));
  Sampler host(how, kPlain.vocab);
  std::vector<int> expected(kPlain.vocab, 0), drawn(kPlain.vocab, 0);
  const std::vector<float> row(session.logits().begin(), session.logits().end());
  for (int i = 0; i < 50 * kDraws; ++i) ++expected[static_cast<std::size_t>(host.sample(row))];
  for (int i = 0; i < kDraws; ++i) {
    int id = -1;
    how.seed = i;
    ASSERT_TRUE(session.rewind(3).ok());
    ASSERT_TRUE(session.decode(8, {&id, 1}, how).ok());
    ASSERT_GT(expected[static_cast<std::size_t>(id)], 0) << "id " << id << " was filtered";
    ++drawn[static_cast<std::size_t>(id)];
  }
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double n = expected[i] / 50.0;
    EXPECT_NEAR(drawn[i], n, 6 * std::sqrt(n) + 3) << "id " << i;
  }
  how.typical_p = 0.5f;
  EXPECT_FALSE(session.decodes(how));
}

TEST_F(Decode, BitsDoNotDependOnTheGrid) {
  const auto made = backend(kNormed, Storage::bf16);
  for (const int position : {5, 300, 5000}) {
    const auto expected = logits(*executor(*made, "persistent"), 11, position, kNormed.vocab);
    for (const int grid : {2, 7, 33, 64, 131, 132}) {
      const auto got = logits(*executor(*made, "persistent", grid), 11, position, kNormed.vocab);
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0)
          << "a grid of " << grid << " at position " << position;
    }
  }
}

TEST_F(Decode, RefusesAGridThatCannotBeResident) {
  int device = 0, sms = 0;
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  ASSERT_EQ(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), cudaSuccess);
  const auto made = backend(kNormed, Storage::bf16);
  const auto refused = made->plan(options("persistent", sms + 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::unsupported);
  EXPECT_NE(refused.error().message().find("a grid of " + std::to_string(sms + 1)), std::string::npos)
      << refused.error().message();
}

// Until the host says so, or for five seconds.
__global__ void occupy(const volatile int* stop) {
  std::uint64_t begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (*stop == 0 && now - begin < 5'000'000'000u);
}

// A cooperative launch needs all its multiprocessors at once, so it waits; a graph's kernels run on those that are
// free.
TEST_F(Decode, FinishesBesideAKernelOnHalfTheMultiprocessors) {
  constexpr int kShared = 200 * 1024;
  const auto made = backend(kNormed, Storage::bf16);
  int* stop = nullptr;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaHostAlloc(&stop, sizeof(int), cudaHostAllocMapped), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaFuncSetAttribute(occupy, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared), cudaSuccess);
  for (const char* name : {"graph", "persistent"}) {
    const auto one = executor(*made, name);
    const auto expected = ids(*one, 100, 40, 0);
    *stop = 0;
    occupy<<<66, 64, kShared, stream>>>(stop);
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
    std::thread release([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      *static_cast<volatile int*>(stop) = 1;
    });
    EXPECT_EQ(ids(*one, 100, 40, 0), expected) << name;
    release.join();
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
  cudaStreamDestroy(stream);
  cudaFreeHost(stop);
}

TEST_F(Decode, TenThousandStepsTwiceGiveTheSameBits) {
  for (const char* executor : {"graph", "persistent"}) {
    SessionOptions options;
    options.executor = executor;
    options.cache = Storage::bf16;
    const auto check = check_repeats(model_of(kPlain, Storage::bf16), options, 10000);
    ASSERT_TRUE(check.ok()) << check.error().message();
    EXPECT_FALSE(check->logits_differ) << executor << ", step " << *check->logits_differ;
    EXPECT_FALSE(check->ids_differ) << executor << ", step " << *check->ids_differ;
  }
}

}  // namespace
}  // namespace fourfold::cuda::test
