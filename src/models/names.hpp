// Names of tensors: what a safetensors file calls them, from the GGUF names that families use.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace fourfold {

class Checkpoint;

// Tensors of known names that text generation has no use for (patterns of Weights::ignore): computed elsewhere, heads
// that predict several tokens, the vision half of a multimodal model.
inline constexpr std::array kDecoys = {"*rotary_emb.inv_freq",
                                       "mtp.*",
                                       "model.mtp.*",
                                       "vision_tower.*",
                                       "model.vision_tower.*",
                                       "multi_modal_projector.*",
                                       "model.multi_modal_projector.*"};

class SafetensorsNames {
 public:
  using Pairs = std::span<const std::pair<std::string_view, std::string_view>>;  // {GGUF stem, file stem}

  // `own`: where the family's names differ from the common ones.
  SafetensorsNames(Pairs own, const Checkpoint& checkpoint);
  // "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"
  std::string file_name(const std::string& name) const;

 private:
  Pairs own_;
  std::string_view root_, head_;  // in front of everything, and of the output matrix
};

}  // namespace fourfold
