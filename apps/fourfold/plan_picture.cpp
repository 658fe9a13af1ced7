#include "plan_picture.hpp"

#include <fstream>

#include "cuda/persistent/timeline.hpp"
#include "cuda/persistent/validate.hpp"
#include "cuda/tile.hpp"
#include "exit.hpp"

namespace fourfold::cli {
namespace {

constexpr int kMultiprocessors = 132;

struct TileSize {
  int bytes, columns;
};
TileSize tile_of(const Program& program) {
  Storage storage = Storage::bf16;
  for (const Step& step : program.steps)
    if (const auto* project = std::get_if<Project>(&step.op)) storage = program.tensor(project->dots[0].weight).storage;
  return cuda::with_tile(storage, [](auto tile) { return TileSize{decltype(tile)::kBytes, decltype(tile)::kColumns}; });
}

}  // namespace

void draw_plan(const Program& program, int context, const std::string& path) {
  using namespace cuda::persistent;
  const TileSize tile = tile_of(program);
  const auto plan = make_plan(program, {best_grid(program, kMultiprocessors), tile.columns});
  if (!plan.ok()) fail("plan: cannot run this Program on `persistent`\n" + plan.error().message());
  if (const status valid = validate(plan.value()); !valid.ok()) fail(valid.message());
  const Timeline timeline = expect(plan.value(), tile.bytes, context, {});
  const std::string title = program.family + ", one token behind " + std::to_string(context) + " positions, expected";
  std::ofstream file(path, std::ios::binary);
  file << (path.ends_with(".json") ? timeline_json(plan.value(), timeline)
                                   : timeline_html(plan.value(), timeline, title));
  file.close();
  if (!file) fail("--plan: '" + path + "' cannot be written");
}

}  // namespace fourfold::cli
