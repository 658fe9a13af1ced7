// Shapes of published models, from their configuration files: for tests, benchmarks and `--shape NAME` without weights.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace fourfold {

struct NamedShape {
  std::string_view name;
  std::string_view family;  // architecture name, as GGUF spells it
  int layers;
  int d_model;
  int heads, kv_heads;  // of queries; of keys and values
  int head_dim;
  int ff;  // width of the feed-forward part
  int vocab;
  bool tied;                    // the output matrix is the embedding
  int window;                   // of the local layers, 0 when all are global; in gemma3 every sixth layer is global
  int context;                  // the length it was trained for (llama-3-8b: as 3.1)
  float rope_base;              // of the global layers
  int experts = 0, chosen = 0;  // 0: the feed-forward part is dense; how many a token is sent to
  int expert_ff = 0;            // width of each
  int shared_ff = 0;            // of the part that every token uses beside them
};

// clang-format off
inline constexpr std::array kNamedShapes = {
    //          name            family  layers  width heads kv  dim     ff   vocab   tied window context     base
    NamedShape{"smollm2-135m",  "llama",    30,   576,    9,  3,  64,  1536,  49152, true,    0,   8192,  100000.f},
    NamedShape{"smollm2-360m",  "llama",    32,   960,   15,  5,  64,  2560,  49152, true,    0,   8192,  100000.f},
    NamedShape{"smollm2-1.7b",  "llama",    24,  2048,   32, 32,  64,  8192,  49152, true,    0,   8192,  130000.f},
    NamedShape{"llama-3.2-1b",  "llama",    16,  2048,   32,  8,  64,  8192, 128256, true,    0, 131072,  500000.f},
    NamedShape{"llama-3.2-3b",  "llama",    28,  3072,   24,  8, 128,  8192, 128256, true,    0, 131072,  500000.f},
    NamedShape{"llama-3-8b",    "llama",    32,  4096,   32,  8, 128, 14336, 128256, false,   0, 131072,  500000.f},
    NamedShape{"llama-3-70b",   "llama",    80,  8192,   64,  8, 128, 28672, 128256, false,   0,   8192,  500000.f},
    NamedShape{"qwen2.5-0.5b",  "qwen2",    24,   896,   14,  2,  64,  4864, 151936, true,    0,  32768, 1000000.f},
    NamedShape{"qwen2.5-1.5b",  "qwen2",    28,  1536,   12,  2, 128,  8960, 151936, true,    0,  32768, 1000000.f},
    NamedShape{"qwen2.5-7b",    "qwen2",    28,  3584,   28,  4, 128, 18944, 152064, false,   0,  32768, 1000000.f},
    NamedShape{"qwen3-0.6b",    "qwen3",    28,  1024,   16,  8, 128,  3072, 151936, true,    0,  40960, 1000000.f},
    NamedShape{"qwen3-1.7b",    "qwen3",    28,  2048,   16,  8, 128,  6144, 151936, true,    0,  40960, 1000000.f},
    NamedShape{"qwen3-4b",      "qwen3",    36,  2560,   32,  8, 128,  9728, 151936, true,    0,  40960, 1000000.f},
    NamedShape{"qwen3-8b",      "qwen3",    36,  4096,   32,  8, 128, 12288, 151936, false,   0,  40960, 1000000.f},
    NamedShape{"gemma-3-270m",  "gemma3",   18,   640,    4,  1, 256,  2048, 262144, true,  512,  32768, 1000000.f},
    NamedShape{"gemma-3-1b",    "gemma3",   26,  1152,    4,  1, 256,  6912, 262144, true,  512,  32768, 1000000.f},
    NamedShape{"gemma-3-4b",    "gemma3",   34,  2560,    8,  4, 256, 10240, 262208, true, 1024, 131072, 1000000.f},
    //               routed: and experts, chosen, width of each, of the shared one
    NamedShape{"qwen3-30b-a3b", "qwen3moe", 48,  2048,   32,  4, 128,  6144, 151936, false,   0,  40960, 1000000.f,
               128, 8, 768},
    NamedShape{"qwen3-next-80b-a3b", "qwen3next", 48, 2048, 16, 2, 256, 5120, 151936, false,  0, 262144, 10000000.f,
               512, 10, 512, 512},
};
// clang-format on

// Null when no shape has that name.
constexpr const NamedShape* find_shape(std::string_view name) {
  for (const NamedShape& shape : kNamedShapes) {
    if (shape.name == name) return &shape;
  }
  return nullptr;
}

// "smollm2-135m, smollm2-360m, ...": what an error message offers.
inline std::string shape_names() {
  std::string names;
  for (const NamedShape& shape : kNamedShapes) names.append(names.empty() ? "" : ", ").append(shape.name);
  return names;
}

// Numbers that a model of this shape holds, norms and biases apart, if every layer attends and holds `experts`.
constexpr long long weight_count(const NamedShape& s, int experts) {
  const long long q = 1LL * s.heads * s.head_dim, kv = 1LL * s.kv_heads * s.head_dim, d = s.d_model;
  const long long ff =
      s.experts == 0 ? 3 * d * s.ff : d * s.experts + 3 * d * (1LL * experts * s.expert_ff + s.shared_ff);
  return s.layers * (d * (q + 2 * kv) + q * d + ff) + (s.tied ? 1 : 2) * d * s.vocab;
}
constexpr long long weight_count(const NamedShape& s) { return weight_count(s, s.experts); }

}  // namespace fourfold
