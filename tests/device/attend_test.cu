// Device attention against double: every storage, head dims, groups, windows, soft caps, walks of lists, sinks; lengths
// around every boundary; bits from run to run and for any cut of a prompt. Skipped where there is no device.
#include <cstring>

#include "attention_case.cuh"
#include "cuda/sm90/attend_decode.cuh"
#include "cuda/sm90/attend_prefill.cuh"

namespace fourfold::cuda::test {
namespace {

class Attend : public DeviceTest {};

std::string name_of(const Case& c, const AttentionKind& kind) {
  const char* types[] = {"bf16", "f16", "f8"};
  return std::string(types[static_cast<int>(c.shape.type)]) + " h" + std::to_string(c.shape.heads) + "/" +
         std::to_string(c.shape.kv_heads) + " d" + std::to_string(c.shape.head_dim) + " at " +
         std::to_string(c.position) + "+" + std::to_string(c.tokens) + " window " + std::to_string(kind.window) +
         " cap " + std::to_string(static_cast<int>(kind.soft_cap));
}

void check(const Case& c, const AttentionKind& kind, bool decode, bool sinks = false) {
  const Attention a = c.attention(sinks);
  ASSERT_EQ(decode ? attend_decode(a, kind, false, nullptr) : attend_prefill(a, kind, false, nullptr), cudaSuccess);
  const Window walk{kind.window > 0 ? kind.window : kEveryKey};
  const std::string name = name_of(c, kind) + (decode ? " decode" : " prefill") + (sinks ? " sinks" : "");
  kind.soft_cap > 0 ? expect_exact(c, a, walk, Scale{kind.scale} | SoftCap{kind.soft_cap}, name)
                    : expect_exact(c, a, walk, Scale{kind.scale}, name);
}

float scale_of(const Shape& s) { return 1 / std::sqrt(static_cast<float>(s.head_dim)); }

const Shape kShapes[] = {{KvType::bf16, 32, 8, 128}, {KvType::f16, 9, 3, 64},   {KvType::bf16, 4, 1, 256},
                         {KvType::f8, 8, 2, 128},    {KvType::bf16, 2, 2, 16},  {KvType::f16, 4, 4, 80},
                         {KvType::f8, 4, 1, 256},    {KvType::bf16, 24, 2, 64}, {KvType::f8, 3, 1, 64},
                         {KvType::bf16, 2, 1, 192},  {KvType::f16, 16, 8, 128}};

TEST_F(Attend, DecodesEveryShape) {
  for (const Shape& s : kShapes)
    for (int position : {0, 1, 62, 63, 64, 700, 4095}) {
      const Case c(s, position, 1, 7 + position);
      check(c, {0, scale_of(s), 0}, true);
      if (HasFatalFailure()) return;
    }
}

TEST_F(Attend, DecodesEveryLengthOfTwoBlocks) {
  const Shape s{KvType::bf16, 8, 2, 64};
  for (int position = 0; position <= 2 * kLeafKeys + 1; ++position)
    check(Case(s, position, 1, position), {0, 0.2f, 0}, true);
  for (int position : {1023, 8191, 8192, 8193, 16383, 16384, 20000})
    check(Case(s, position, 1, position), {0, 0.2f, 0}, true);
}

TEST_F(Attend, DecodesWindowsCapsAndSinks) {
  const Shape s{KvType::bf16, 8, 2, 128};
  for (int window : {1, 2, 63, 64, 65, 500, 4000})
    for (int position : {0, 63, 64, 129, 3000}) {
      const Case c(s, position, 1, window + position);
      check(c, {window, scale_of(s), 0}, true);
      check(c, {window, scale_of(s), 30}, true);
      check(c, {window, scale_of(s), 0}, true, true);
    }
}

TEST_F(Attend, PrefillsEveryShape) {
  for (const Shape& s : kShapes)
    for (const auto& [position, tokens] :
         {std::pair{0, 1}, {0, 2}, {0, 64}, {0, 65}, {63, 2}, {0, 200}, {130, 129}, {1000, 70}}) {
      const Case c(s, position, tokens, position + tokens);
      check(c, {0, scale_of(s), 0}, false);
      if (HasFatalFailure()) return;
    }
}

TEST_F(Attend, PrefillsWindowsCapsAndSinks) {
  const Shape s{KvType::bf16, 8, 2, 128};
  for (int window : {1, 2, 63, 64, 65, 150})
    for (int position : {0, 100}) {
      const Case c(s, position, 190, window + position);
      check(c, {window, scale_of(s), 0}, false);
      check(c, {window, scale_of(s), 30}, false);
      check(c, {window, scale_of(s), 0}, false, true);
    }
}

template <class W, class S>
void check_walk(const Case& c, const W& walk, const S& score, const std::string& name) {
  const Attention a = c.attention(true);
  ASSERT_EQ((launch_prefill<Kv16<Bf16>, 64>(a, walk, score, false, nullptr)), cudaSuccess);
  expect_exact(c, a, walk, score, name + " prefill");
  if (c.tokens > 1) return;
  ASSERT_EQ((launch_decode<Kv16<Bf16>, 64>(a, walk, score, false, nullptr)), cudaSuccess);
  expect_exact(c, a, walk, score, name + " decode");
}

// A walk and a score of a user's own, as types only.
struct WindowWithSinks {
  int window, sinks;
  constexpr bool visible(int query, int key) const { return key <= query && (query - key < window || key < sinks); }
  constexpr auto tiles(Range queries) const { return ranges({0, sinks}, {queries.first - window + 1, queries.end}); }
};

TEST_F(Attend, RunsOtherWalksAndScores) {
  const Shape s{KvType::bf16, 8, 2, 64};
  for (const auto& [position, tokens] : {std::pair{0, 1}, {200, 1}, {1500, 1}, {0, 150}, {333, 100}}) {
    const Case c(s, position, tokens, 99 + position);
    check_walk(c, Causal{}, Scale{0.1f} | Alibi{8}, "alibi");
    check_walk(c, Chunk{100}, Scale{0.1f}, "chunk");
    check_walk(c, WindowWithSinks{90, 4}, Scale{0.1f} | SoftCap{20}, "window with sinks");
    check_walk(c, Window{100} & Chunk{70}, Scale{0.1f}, "both");
  }
}

// One value that is NaN or infinite reaches the tokens that see its key, and changes no bit of any other.
TEST_F(Attend, PoisonReachesThoseWhoSeeItOnly) {
  constexpr int kTokens = 150, kStart = 30;
  for (const Shape& s : {Shape{KvType::bf16, 4, 2, 128}, {KvType::f8, 2, 1, 64}, {KvType::f16, 2, 1, 256}})
    for (const int window : {0, 40}) {
      const AttentionKind kind{window, scale_of(s), 0};
      const Case c(s, kStart, kTokens, 11);
      ASSERT_EQ(attend_prefill(c.attention(), kind, false, nullptr), cudaSuccess);
      const std::vector<float> clean = c.out.host();
      for (const int key : {0, 33, 95, 96, 130, kStart + kTokens - 1}) {
        const std::int64_t at = c.layout.place(0, key, Part::value, 5);
        std::vector<char> kept(c.layout.element_bytes), poison(kept.size(), char(0xff));  // NaN of every kind
        if (key == 95 && s.type == KvType::f16) poison = {0, char(0xfc)};
        if (key == 95 && s.type == KvType::bf16) poison = {char(0x80), 0x7f};
        cudaMemcpy(kept.data(), c.cache.get() + at, kept.size(), cudaMemcpyDeviceToHost);
        cudaMemcpy(c.cache.get() + at, poison.data(), poison.size(), cudaMemcpyHostToDevice);
        ASSERT_EQ(attend_prefill(c.attention(), kind, false, nullptr), cudaSuccess);
        const std::vector<float> got = c.out.host();
        cudaMemcpy(c.cache.get() + at, kept.data(), kept.size(), cudaMemcpyHostToDevice);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const int dim = i % s.head_dim, head = i / s.head_dim % s.heads, query = kStart + i / s.head_dim / s.heads;
          const bool sees = key <= query && (window == 0 || query - key < window);
          if (sees && dim == 5 && head < s.heads / s.kv_heads)
            ASSERT_FALSE(std::isfinite(got[i])) << name_of(c, kind) << ", key " << key << ", query " << query;
          else
            ASSERT_EQ(got[i], clean[i]) << name_of(c, kind) << ", key " << key << ", query " << query << ", dim "
                                        << dim;
        }
      }
    }
}

TEST_F(Attend, GivesTheSameBitsEveryTime) {
  const Shape s{KvType::bf16, 32, 8, 128};
  const Case c(s, 5000, 1, 3);
  std::vector<float> first;
  for (int run = 0; run < 20; ++run) {
    c.attention();
    cudaMemset(c.out.get(), 0xff, first.size() * 4);
    ASSERT_EQ(attend_decode(c.attention(), {0, 0.1f, 0}, run % 2 == 1, nullptr), cudaSuccess);
    const std::vector<float> now = c.out.host();
    if (run == 0) first = now;
    ASSERT_EQ(std::memcmp(now.data(), first.data(), now.size() * 4), 0) << "run " << run;
  }
}

TEST_F(Attend, PromptsMayBeCutAnywhere) {
  for (const Shape& s : {Shape{KvType::bf16, 4, 2, 128}, Shape{KvType::f8, 2, 1, 64}, Shape{KvType::f16, 2, 1, 256}}) {
    const Case c(s, 0, 333, 17);
    const AttentionKind kind{100, scale_of(s), 0};
    ASSERT_EQ(attend_prefill(c.attention(), kind, false, nullptr), cudaSuccess);
    const std::vector<float> whole = c.out.host();
    const std::size_t width = std::size_t(s.heads) * s.head_dim;
    for (int step : {1, 2, 37, 64, 100}) {
      cudaMemset(c.out.get(), 0xff, whole.size() * 4);
      for (int at = 0; at < c.tokens; at += step) {
        const Buffer<int> start(std::vector<int>{at});
        Attention part = c.attention();
        part.query += at * width;
        part.out += at * width;
        part.position = start.get();
        part.tokens = std::min(step, c.tokens - at);
        ASSERT_EQ(attend_prefill(part, kind, false, nullptr), cudaSuccess);
        cudaDeviceSynchronize();
      }
      const std::vector<float> cut = c.out.host();
      for (std::size_t i = 0; i < whole.size(); ++i)
        ASSERT_EQ(whole[i], cut[i]) << "cut every " << step << ": token " << i / width << ", column " << i % width;
    }
  }
}

}  // namespace
}  // namespace fourfold::cuda::test
