#include "plan_picture.hpp"

#include <algorithm>
#include <fstream>

#include "cuda/persistent/timeline.hpp"
#include "cuda/persistent/validate.hpp"
#include "cuda/tile.hpp"
#include "exit.hpp"
#include "lab/device.hpp"
#include "shared.hpp"

namespace fourfold::cli {
namespace {

using namespace cuda::persistent;

constexpr int kMultiprocessors = 132;
constexpr int kTraceRoom = 16;  // positions for tokens in front of the one that is measured

struct TileSize {
  int bytes, columns;
};
TileSize tile_of(const Program& program) {
  Storage storage = Storage::bf16;
  for (const Step& step : program.steps)
    if (const auto* project = std::get_if<Project>(&step.op)) storage = program.tensor(project->dots[0].weight).storage;
  return cuda::with_tile(storage, [](auto tile) { return TileSize{decltype(tile)::kBytes, decltype(tile)::kColumns}; });
}

void write_picture(const Program& program, const Plan& plan, const Timeline& timeline, int context, const char* how,
                   const std::string& path) {
  const std::string title = program.family + ", one token behind " + std::to_string(context) + " positions, " + how;
  std::ofstream file(path, std::ios::binary);
  file << (path.ends_with(".json") ? timeline_json(plan, timeline) : timeline_html(plan, timeline, title));
  file.close();
  if (!file) fail("--plan: '" + path + "' cannot be written");
}

}  // namespace

void draw_plan(const Program& program, int context, const std::string& path) {
  const TileSize tile = tile_of(program);
  const auto plan = make_plan(program, {best_grid(program, kMultiprocessors), tile.columns});
  if (!plan.ok()) fail("plan: cannot run this Program on `persistent`\n" + plan.error().message());
  if (const status valid = validate(plan.value()); !valid.ok()) fail(valid.message());
  write_picture(program, plan.value(), expect(plan.value(), tile.bytes, context, {}), context, "expected", path);
}

void draw_trace(const Model& model, int device, int context, const std::string& path) {
  SessionOptions options;
  options.executor = "persistent";
  options.device = device;
  options.cache = Storage::bf16;
  options.context = std::min(context + kTraceRoom, model.context());
  Session session = open_session(model, options);
  const int position = std::max(0, options.context - kTraceRoom);
  must(session.fill(position));
  const Traced traced = must(trace_token(session, position));
  write_picture(model.program(), traced.plan, traced.timeline, position, "measured", path);
}

}  // namespace fourfold::cli
