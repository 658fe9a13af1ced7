#include "engine/chosen_experts.hpp"

#include <algorithm>

#include "engine/session_state.hpp"

namespace fourfold {

std::vector<ChosenExperts> routed_layers(const Program& program) {
  std::vector<ChosenExperts> layers;
  for (const Step& step : program.steps)
    if (const auto* route = std::get_if<RouteStep>(&step.op)) {
      const std::size_t first = step.name.find('.') + 1;  // blk.N.route
      layers.push_back({step.name.substr(first, step.name.find('.', first) - first), route->ids});
    }
  return layers;
}

void append_chosen(Session& session, int tokens, std::vector<ChosenExperts>& layers) {
  for (ChosenExperts& layer : layers) {
    const int count = session.model().program().width(layer.ids);
    const float* ids = executor_of(session).value(layer.ids);
    for (int t = 0; t < tokens; ++t, ids += count) {
      std::vector<int>& row = layer.chosen.emplace_back(ids, ids + count);
      std::sort(row.begin(), row.end());
    }
  }
}

}  // namespace fourfold
