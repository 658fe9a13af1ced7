#include "models/windows.hpp"

namespace fourfold {
namespace {

constexpr std::int64_t kMaxWindow = 1 << 30;
constexpr int kFullLayers = 28;  // without a window, where a file does not say

}  // namespace

bool read_layer_types(Keys& keys, int window, Hyper& h) {
  const auto types = keys.texts("layer_types");
  if (types.empty()) return false;
  if (static_cast<int>(types.size()) != h.layers)
    keys.refuse("layer_types", "a list of " + std::to_string(types.size()),
                "one entry for each of the " + std::to_string(h.layers) + " layers");
  h.windows.clear();
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention")
      keys.refuse("layer_types", '"' + type + '"', "full_attention, sliding_attention");
    if (type == "sliding_attention" && window == 0)
      keys.refuse("sliding_window", "absent", "a window for the layers that slide");
    h.windows.push_back(type == "sliding_attention" ? window : 0);
  }
  h.windows.resize(static_cast<std::size_t>(h.layers));
  return true;
}

void read_qwen_windows(Keys& keys, Hyper& h) {
  const bool used = keys.flag("use_sliding_window", false);
  const int window = keys.count("sliding_window", 0, kMaxWindow, 0);
  const int full_layers = keys.count("max_window_layers", 0, kMaxWindow, kFullLayers);
  if (read_layer_types(keys, used ? window : 0, h) || !used || full_layers >= h.layers) return;
  if (window == 0) keys.refuse("sliding_window", "absent", "a window, as use_sliding_window is true");
  for (int i = 0; i < h.layers; ++i) h.windows.push_back(i < full_layers ? 0 : window);
}

}  // namespace fourfold
