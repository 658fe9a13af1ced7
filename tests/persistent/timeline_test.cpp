// The picture of a plan: every task once, in its CTA's order, never before what it waits for.
#include "cuda/persistent/timeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/family.hpp"

namespace fourfold::cuda::persistent {
namespace {

Plan plan_of(std::string_view shape) {
  auto spec = make_shape_model(shape, Storage::bf16);
  return std::move(make_plan(spec->program, {128, 512})).value();
}

TEST(Timeline, OrdersTasksAndHops) {
  const Plan plan = plan_of("llama-3-8b");
  const Pace pace;
  const Timeline timeline = expect(plan, 16384, 128, pace);
  double last = 0;
  for (std::size_t cta = 0; cta < timeline.size(); ++cta) {
    ASSERT_EQ(timeline[cta].size(), plan.tasks[cta].size()) << "CTA " << cta;
    double free = 0;
    for (const TaskTime& t : timeline[cta]) {
      EXPECT_GE(t.taken, free);
      EXPECT_GE(t.begun, t.taken);
      EXPECT_GE(t.done, t.begun);
      free = t.done;
    }
    last = std::max(last, free);
  }
  // The stream alone takes 3.25 ms; two hops a layer cannot hide behind it.
  EXPECT_GT(last, 3250 + 2 * 32 * pace.hop_us);
  EXPECT_LT(last, 3250 + 32 * (7 * pace.hop_us + 5));
}

TEST(Timeline, GrowsWithTheContext) {
  const Plan plan = plan_of("qwen3-0.6b");
  const auto end = [&](int context) {
    double last = 0;
    for (const auto& tasks : expect(plan, 16384, context, {})) last = std::max(last, tasks.back().done);
    return last;
  };
  EXPECT_GT(end(32768), end(128) + 100);
}

TEST(Timeline, ReadsStamps) {
  Plan plan;
  plan.tasks = {{Task{}, Task{}, Task{}}, {Task{}}};
  constexpr int kStride = 3;
  std::vector<unsigned long long> stamps(2 * kStride * kStamps, 0);
  const auto stamp = [&](int cta, int task, int which) -> unsigned long long& {
    return stamps[static_cast<std::size_t>((cta * kStride + task) * kStamps + which)];
  };
  stamp(0, 0, 0) = 5000, stamp(0, 0, 1) = 6000, stamp(0, 0, 2) = 6500, stamp(0, 0, 3) = 7000;
  stamp(0, 2, 0) = 8000, stamp(0, 2, 3) = 9500;
  stamp(1, 0, 0) = 4000, stamp(1, 0, 1) = 4000, stamp(1, 0, 3) = 4250;
  const Timeline timeline = measured(plan, stamps, kStride);
  ASSERT_EQ(timeline.size(), 2u);
  const auto expect_times = [&](std::size_t cta, std::size_t task, double taken, double begun, double done) {
    const TaskTime& t = timeline[cta][task];
    EXPECT_EQ(t.taken, taken) << cta << " " << task;
    EXPECT_EQ(t.begun, begun) << cta << " " << task;
    EXPECT_EQ(t.done, done) << cta << " " << task;
  };
  expect_times(1, 0, 0, 0, 0.25);
  expect_times(0, 0, 1, 2, 3);
  expect_times(0, 1, 3, 3, 3);
  expect_times(0, 2, 4, 4, 5.5);
}

TEST(Timeline, WritesPagesWithEveryTask) {
  const Plan plan = plan_of("qwen3-0.6b");
  const Timeline timeline = expect(plan, 16384, 128, {});
  std::size_t tasks = 0;
  for (const auto& list : plan.tasks) tasks += list.size();
  const std::string json = timeline_json(plan, timeline), page = timeline_html(plan, timeline, "qwen3-0.6b");
  EXPECT_NE(page.find("\"blk.27.down\""), std::string::npos);
  EXPECT_EQ(page.find("TASKS"), std::string::npos);
  EXPECT_GE(std::count(json.begin(), json.end(), '\n'), static_cast<std::ptrdiff_t>(tasks * 9 / 10));
}

}  // namespace
}  // namespace fourfold::cuda::persistent
