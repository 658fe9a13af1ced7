#include "program/arena.hpp"

#include <algorithm>

namespace fourfold {
namespace {

constexpr std::int64_t kAlign = 16;  // floats: a cache line

struct Life {
  int first = -1, last = -1;
  bool overlaps(const Life& o) const { return first <= o.last && o.first <= last; }
};

struct Placed {
  std::int64_t begin, end;
  Life life;
};

std::vector<Life> lifetimes(const Program& program) {
  std::vector<Life> lives(program.values.size());
  for (int s = 0; s < static_cast<int>(program.steps.size()); ++s) {
    const StepUses u = uses(program.steps[static_cast<std::size_t>(s)]);
    for (const auto* list : {&u.reads, &u.writes})
      for (Value v : *list) {
        Life& life = lives[static_cast<std::size_t>(v.id)];
        if (life.first < 0) life.first = s;
        life.last = s;
      }
  }
  return lives;
}

// The lowest begin where `size` floats fit between the busy ranges.
std::int64_t first_fit(std::vector<Placed> busy, std::int64_t size) {
  std::sort(busy.begin(), busy.end(), [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
  std::int64_t at = 0;
  for (const Placed& p : busy) {
    if (p.begin >= at + size) break;
    at = std::max(at, p.end);
  }
  return at;
}

}  // namespace

ArenaPlan plan_arena(const Program& program, bool reuse) {
  const auto lives = lifetimes(program);
  ArenaPlan plan;
  plan.offset.assign(program.values.size(), -1);
  std::vector<Placed> placed;
  for (std::size_t v = 0; v < program.values.size(); ++v) {
    if (lives[v].first < 0 || static_cast<int>(v) == program.logits.id) continue;
    const std::int64_t size = (program.values[v].width + kAlign - 1) / kAlign * kAlign;
    std::vector<Placed> busy;
    std::copy_if(placed.begin(), placed.end(), std::back_inserter(busy),
                 [&](const Placed& p) { return !reuse || p.life.overlaps(lives[v]); });
    const std::int64_t at = first_fit(std::move(busy), size);
    placed.push_back({at, at + size, lives[v]});
    plan.offset[v] = at;
    plan.width = std::max(plan.width, at + size);
  }
  return plan;
}

}  // namespace fourfold
