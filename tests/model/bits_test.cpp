// Logits are the same bits for any number of threads and any chunks of the prompt, decode included, within one level
// of the instruction set and one cache storage. CTest runs this program once for each level.
#include <cstring>
#include <ostream>

#include "cpu/simd/kernels.hpp"
#include "support/models.hpp"

namespace fourfold {
namespace {

struct Split {
  int threads, chunk;
};
// Against one thread and the whole prompt at once.
constexpr Split kSplits[] = {{2, 512}, {1, 1}, {2, 2}, {2, 7}, {7, 8}, {1, 33}, {7, 64}};

struct Case {
  const char* model;
  Storage cache;
  bool f32;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.model << ", cache " << info(c.cache).name << (c.f32 ? ", f32" : "");
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* model :
       {"llama", "qwen2", "qwen3", "gemma3", "variants/gguf_llama_blocks.gguf", "variants/gguf_gemma3_pattern.gguf",
        "variants/glm4_moe_groups", "variants/qwen2_moe", "variants/gpt_oss_mxfp4"})
    for (Storage cache : {Storage::f32, Storage::f16, Storage::bf16, Storage::q8_0}) {
      const bool blocks = std::string_view(model).starts_with("variants/gguf");  // heads of 32, as q8_0 needs
      if (cache == Storage::q8_0 && !blocks) continue;
      all.push_back({model, cache, false});
      if (cache == Storage::f32) all.push_back({model, cache, true});
    }
  return all;
}

// The first logit whose bits differ, or -1.
std::ptrdiff_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return static_cast<std::ptrdiff_t>(i);
  return -1;
}

class Bits : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!simd::selected_kernels().ok()) GTEST_SKIP() << simd::selected_kernels().error().message();
  }
  static void expect_same(const Model& model, SessionOptions options, int count, std::span<const Split> splits) {
    const auto ids = test::some_ids(count, model.vocab());
    options.threads = 1;
    const auto whole = test::all_logits(model, options, ids, 512);
    for (const auto [threads, chunk] : splits) {
      options.threads = threads;
      const auto at = first_difference(test::all_logits(model, options, ids, chunk), whole);
      EXPECT_EQ(at, -1) << threads << " threads, chunks of " << chunk << ": token " << at / model.vocab() << ", logit "
                        << at % model.vocab();
    }
  }
};

TEST_P(Bits, HoldForThreadsAndChunks) {
  const Case& c = GetParam();
  expect_same(test::open_model(c.model), {.f32 = c.f32, .cache = c.cache}, 210, kSplits);
}

INSTANTIATE_TEST_SUITE_P(Models, Bits, testing::ValuesIn(cases()), [](const auto& info) {
  return test::test_name(std::string(info.param.model) + "_" + std::string(fourfold::info(info.param.cache).name) +
                         (info.param.f32 ? "_f32" : ""));
});

// Past 1024 keys attention merges the states of several blocks.
TEST_F(Bits, HoldAcrossBlocksOfKeys) {
  constexpr Split splits[] = {{2, 512}, {7, 1}, {2, 33}};
  expect_same(test::open_model("variants/gguf_llama_blocks.gguf"), {}, 1100, splits);
}

// A page may be a part of a leaf or several leaves; windows give pages of every size back.
TEST_F(Bits, HoldForPagesOfAnySize) {
  const std::pair<const char*, Storage> models[] = {{"gemma3", Storage::f16},
                                                    {"variants/gguf_llama_blocks.gguf", Storage::q8_0},
                                                    {"variants/gguf_gemma3_pattern.gguf", Storage::f32}};
  for (const auto& [name, cache] : models) {
    const Model model = test::open_model(name);
    const auto ids = test::some_ids(200, model.vocab());
    const auto whole = test::all_logits(model, {.threads = 1, .cache = cache}, ids, 512);
    for (const int page : {1, 2, 4, 8, 16, 32, 128, 256})
      for (const int chunk : {1, 30}) {
        const auto found = test::all_logits(model, {.threads = 2, .cache = cache, .page = page}, ids, chunk);
        EXPECT_EQ(first_difference(found, whole), -1) << name << ", pages of " << page << ", chunks of " << chunk;
      }
  }
}

// What else shares a forward changes no bit: the same continuation alone, in a fork, and after a rewind.
TEST_F(Bits, HoldForForksAndRewinds) {
  const Model model = test::open_model("gemma3");
  const auto ids = test::some_ids(90, model.vocab());
  const auto whole = test::all_logits(model, {.threads = 1}, ids, 512);
  const auto last = [&](const Session& session) {
    return std::memcmp(session.logits().data(), whole.data() + whole.size() - session.logits().size(),
                       session.logits().size_bytes()) == 0;
  };
  auto session = model.session({.threads = 2});
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(session->eval(std::span(ids).first(50)).ok());
  auto fork = session->fork();
  ASSERT_TRUE(fork.ok()) << fork.error().message();
  ASSERT_TRUE(fork->eval(std::span(ids).subspan(50)).ok());
  EXPECT_TRUE(last(*fork));
  ASSERT_TRUE(session->eval(test::some_ids(60, model.vocab(), 9)).ok());  // another future
  ASSERT_TRUE(session->rewind(50).ok());
  ASSERT_TRUE(session->eval(std::span(ids).subspan(50)).ok());
  EXPECT_TRUE(last(*session));
}

}  // namespace
}  // namespace fourfold
