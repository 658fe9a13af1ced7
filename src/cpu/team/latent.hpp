// Latent attention (MLA) as the team runs it: scratch of the two forms. Sizes are those of the largest layer.
#pragma once

#include <cstdint>
#include <fourfold/walk.hpp>
#include <vector>

#include "cpu/team/plan.hpp"

namespace fourfold::team {

inline constexpr int kLatentHeads = 32;  // query heads that share a walk over the latents: they share its conversions

// Of one worker.
struct LatentLocal {
  std::vector<std::uint8_t> prepared;     // one rounded input of key_down or value_up
  std::vector<float> queries;             // [kLatentHeads, latent row]: queries over latents
  std::vector<float> states;              // [2 x kLatentHeads] states over latents; [kQueryTile] over expanded values
  std::vector<float> gathered;            // [rank]: what a head gathered
  std::vector<float> keys, values;        // expanded: [block, nope] and [block, columns]
  std::vector<std::uint8_t> leaves;       // expanded: the block's leaves in float32; absorbed: the chosen keys' latents
  std::vector<const std::uint8_t*> leaf;  // where each of them begins
  std::vector<float> scores;              // [context] of the keys to choose from
  std::vector<int> order;                 // [context]: keys, the best in front

  void resize(const TeamLatent& step, int context, Storage cache);
};

// Of all workers.
struct LatentShared {
  std::vector<float> queries;          // one token: [heads, latent row]
  std::vector<std::uint8_t> prepared;  // expanded: the block's latents, rounded for key_up and for value_up
  std::vector<float> rotary;           // expanded: [block, rotary]
  std::vector<float> states;           // expanded: [heads, batch] states
  std::vector<float> scores;           // one token: [context]
  std::vector<int> chosen;             // [batch, count]: ascending
  std::vector<int> chosen_count;       // [batch]; -1: every visible key

  void resize(const TeamLatent& step, int batch, int context);
};

}  // namespace fourfold::team
