// Which experts a Session's routed layers chose, for every id evaluated.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fourfold/session.hpp"

namespace fourfold {

struct ChosenExperts {
  std::string layer;                       // its number
  Value ids{};                             // of the layer's RouteStep
  std::vector<std::vector<int>> chosen{};  // per position, ascending
};

// A row for each routed layer of the Program, without positions yet; empty where there is none.
std::vector<ChosenExperts> routed_layers(const Program& program);
// Appends the last forward's choices of `tokens` ids. The session has SessionOptions::debug.
void append_chosen(Session& session, int tokens, std::vector<ChosenExperts>& layers);

}  // namespace fourfold
