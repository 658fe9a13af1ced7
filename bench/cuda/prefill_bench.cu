// Times the prefill of a Llama-3-8B-shaped model's 32 layers on the device, bf16, and each kind of kernel in it. One
// line of JSON a case; the layers take their weights in turn from eight sets of random ones (3.5 GB).
#include "cuda/gemm.hpp"
#include "device.hpp"

namespace {

using namespace fourfold;
using namespace fourfold::cuda;
using bench::allocate;

constexpr int kWidth = 4096, kHidden = 14336, kHeads = 32, kKvHeads = 8, kDim = 128, kLayers = 32, kSets = 8;
constexpr int kQkv = (kHeads + 2 * kKvHeads) * kDim;
constexpr unsigned kSmall = 0xbcffbcffu;  // bf16 below 2^-3, mostly far below

struct Layer {
  std::uint8_t *qkv, *o, *gate_up, *down;
};

std::uint8_t* weights(int rows, int columns, cudaStream_t stream) {
  return bench::random<std::uint8_t>(std::size_t(rows) * columns * 2, kSmall, stream);
}

struct Prompt {
  int tokens;
  cudaStream_t stream;
  std::vector<Layer> layers;
  CacheLayout layout;
  float *x, *dots, *query, *attended, *hidden, *norm, *scale;
  std::byte *panels, *cache;
  int* position;
  float2* turns;

  Prompt(int tokens, std::vector<Layer> layers, cudaStream_t stream)
      : tokens(tokens), stream(stream), layers(std::move(layers)), layout{kKvHeads, kDim, 2, tokens} {
    const std::size_t t = static_cast<std::size_t>(tokens);
    x = bench::random<float>(t * kWidth, 0xbfffffffu, stream);
    dots = allocate<float>(t * kQkv);
    query = bench::random<float>(t * kWidth, 0xbfffffffu, stream);
    attended = allocate<float>(t * kWidth);
    hidden = allocate<float>(t * kHidden);
    norm = bench::random<float>(kWidth, 0xbfffffffu, stream);
    scale = allocate<float>(t);
    panels = allocate<std::byte>(Panels{nullptr, tokens, kHidden}.bytes());
    cache = bench::random<std::byte>(static_cast<std::size_t>(layout.bytes()), 0xbfffbfffu, stream);
    position = allocate<int>(1);
    CHECK(cudaMemset(position, 0, 4));
    turns = allocate<float2>(t * kDim / 2);
    CHECK(cudaMemset(turns, 0, t * kDim / 2 * 8));
  }
  ~Prompt() {
    for (void* p :
         {static_cast<void*>(x), static_cast<void*>(dots), static_cast<void*>(query), static_cast<void*>(attended),
          static_cast<void*>(hidden), static_cast<void*>(norm), static_cast<void*>(scale), static_cast<void*>(panels),
          static_cast<void*>(cache), static_cast<void*>(position), static_cast<void*>(turns)})
      cudaFree(p);
  }

  Panels in(int columns) const { return {panels, tokens, columns}; }
  // y = w x, finished by `epilogue` into `out`; a gate's rows are those of gate and up together.
  DeviceProject project(const std::uint8_t* tiles, int rows, int columns, const float* from, DeviceEpilogue epilogue,
                        float* out, bool normed) const {
    DeviceProject p;
    p.tiles = tiles;
    p.order = unpacked_order(rows / kTileRows, columns);
    p.columns = columns;
    p.in = from;
    if (normed) p.norm = {norm, 1e-5f, 1};
    const bool gated = epilogue == DeviceEpilogue::gated;
    p.dot_count = gated ? 2 : 1;
    p.dots[0].rows = p.dots[1].rows = gated ? rows / 2 : rows;
    p.epilogue = epilogue;
    p.activation = gated ? Activation::silu : Activation::none;
    p.residual = x;
    p.out = out;
    p.position = position;
    p.heads.raw = dots;
    p.heads.turns = turns;
    p.heads.rope_dims = kDim;
    p.heads.heads = kHeads;
    p.heads.query = query;
    p.heads.cache = cache;
    p.heads.layout = layout;
    return p;
  }
  DeviceProject qkv(const Layer& w) const {
    return project(w.qkv, kQkv, kWidth, x, DeviceEpilogue::append, nullptr, true);
  }
  DeviceProject output(const Layer& w) const {
    return project(w.o, kWidth, kWidth, attended, DeviceEpilogue::add, x, false);
  }
  DeviceProject gate_up(const Layer& w) const {
    return project(w.gate_up, 2 * kHidden, kWidth, x, DeviceEpilogue::gated, hidden, true);
  }
  DeviceProject down(const Layer& w) const {
    return project(w.down, kWidth, kHidden, hidden, DeviceEpilogue::add, x, false);
  }
  void make(const DeviceProject& p) const { CHECK(prepare(p, in(p.columns), scale, true, stream)); }
  void product(const DeviceProject& p) const { CHECK(multiply(p, in(p.columns), scale, true, stream)); }
  void append(const Layer& w) const { CHECK(append_heads(qkv(w), tokens, true, stream)); }
  void attend() const {
    CHECK(attend_prefill({query, attended, cache, layout, KvType::bf16, kHeads, tokens, position}, {0, 0.0883883f, 0},
                         true, stream));
  }
  void layer(const Layer& w) const {
    const auto all = [&](const DeviceProject& p) {
      CHECK(project_prompt(p, tokens, {panels, scale, nullptr}, true, stream));
    };
    all(qkv(w));
    attend();
    all(output(w));
    all(gate_up(w));
    all(down(w));
  }
};

void run(int tokens, const std::vector<Layer>& layers, cudaStream_t stream) {
  const Prompt p(tokens, layers, stream);
  const double us = bench::time(stream, 5, [&] {
    for (int l = 0; l < kLayers; ++l) p.layer(layers[static_cast<std::size_t>(l % kSets)]);
  });
  const double weights = double{kWidth} * (kQkv + kWidth + 3.0 * kHidden);
  const double flops = kLayers * (2.0 * tokens * weights + 2.0 * kHeads * kDim * double(tokens) * tokens);
  std::printf("{\"prefill\": \"8b layers\", \"tokens\": %d, \"ms\": %.2f, \"tflops\": %.0f}\n", tokens, us * 1e-3,
              flops / us * 1e-6);
  const auto kind = [&](const char* name, double flops, auto&& f) {
    int l = 0;
    const double one = bench::time(stream, 8, [&] { f(layers[static_cast<std::size_t>(l++ % kSets)]); });
    std::printf("  {\"kind\": \"%s\", \"tokens\": %d, \"us\": %.1f, \"tflops\": %.0f}\n", name, tokens, one,
                flops / one * 1e-6);
  };
  const double t = tokens;
  kind("qkv", 2 * t * kQkv * kWidth, [&](const Layer& w) { p.product(p.qkv(w)); });
  kind("output", 2 * t * kWidth * kWidth, [&](const Layer& w) { p.product(p.output(w)); });
  kind("gate up", 4 * t * kHidden * kWidth, [&](const Layer& w) { p.product(p.gate_up(w)); });
  kind("down", 2 * t * kWidth * kHidden, [&](const Layer& w) { p.product(p.down(w)); });
  kind("attend", 2 * t * t * kHeads * kDim, [&](const Layer&) { p.attend(); });
  kind("append", 0, [&](const Layer& w) { p.append(w); });
  kind("prepare normed", 0, [&](const Layer& w) { p.make(p.qkv(w)); });
  kind("prepare hidden", 0, [&](const Layer& w) { p.make(p.down(w)); });
}

// Gate and up of one layer in another storage: made bf16 tiles and multiplied, or decoded by the product.
void unpack(Storage storage, const std::vector<const Prompt*>& prompts, cudaStream_t stream) {
  const int groups = 2 * kHidden / kTileRows;
  with_tile(storage, [&](auto tile) {
    using T = decltype(tile);
    const TileOrder order{groups, kWidth / T::kColumns, 14};
    const std::size_t bytes = static_cast<std::size_t>(order.tiles()) * T::kBytes;
    const auto to_bytes =
        static_cast<std::size_t>(unpacked_order(groups, kWidth).tiles()) * Tile<Storage::bf16>::kBytes;
    auto* from = bench::random<std::uint8_t>(bytes, 0xbfffbfffu, stream);
    auto* to = allocate<std::uint8_t>(to_bytes);
    const double us =
        bench::time(stream, 8, [&] { CHECK(unpack_tiles(storage, from, order, kWidth, to, false, stream)); });
    const std::string_view name = info(storage).name;
    std::printf("{\"unpack\": \"%.*s\", \"us\": %.1f, \"tb_s\": %.2f", static_cast<int>(name.size()), name.data(), us,
                static_cast<double>(bytes + to_bytes) / us * 1e-6);
    for (const Prompt* p : prompts) {
      DeviceProject project = p->gate_up({from, from, from, from});
      project.storage = storage;
      project.order = order;
      const double decoding =
          bench::time(stream, 8, [&] { CHECK(multiply_decoding(project, p->in(kWidth), p->scale, true, stream)); });
      project.storage = Storage::bf16;
      project.order = unpacked_order(groups, kWidth);
      project.tiles = to;
      const double plain = bench::time(stream, 8, [&] { p->product(project); });
      std::printf(", \"decoding %d us\": %.1f, \"bf16 %d us\": %.1f", p->tokens, decoding, p->tokens, plain);
    }
    std::printf("}\n");
    cudaFree(from), cudaFree(to);
  });
}

}  // namespace

int main() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  std::vector<Layer> layers;
  for (int i = 0; i < kSets; ++i)
    layers.push_back({weights(kQkv, kWidth, stream), weights(kWidth, kWidth, stream),
                      weights(2 * kHidden, kWidth, stream), weights(kWidth, kHidden, stream)});
  for (int tokens : {16, 128, 512, 4096}) run(tokens, layers, stream);
  const Prompt few(64, layers, stream), some(512, layers, stream), many(4096, layers, stream);
  for (Storage storage : {Storage::q4_k, Storage::q6_k, Storage::q8_0, Storage::fp8, Storage::int4, Storage::mxfp4})
    unpack(storage, {&few, &some, &many}, stream);
  return 0;
}
