// Which layers of a family see only a window of keys.
#pragma once

#include "models/hyper.hpp"
#include "models/keys.hpp"

namespace fourfold {

// From `layer_types`, a list with "full_attention" or "sliding_attention" for each layer. False when there is none.
bool read_layer_types(Keys& keys, int window, Hyper& hyper);

// Qwen's keys: `use_sliding_window`, `sliding_window`, `max_window_layers` (layers from there on have the window), or
// `layer_types`.
void read_qwen_windows(Keys& keys, Hyper& hyper);

}  // namespace fourfold
