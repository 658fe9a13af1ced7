// Plans of the persistent kernel: every named shape that it takes is proved free of races and stalls, and each planted
// fault is refused by its name.
#include "cuda/persistent/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cuda/persistent/validate.hpp"
#include "models/family.hpp"
#include "models/shapes.hpp"

namespace fourfold::cuda::persistent {
namespace {

Program program_of(std::string_view shape) {
  auto spec = make_shape_model(shape, Storage::bf16);
  EXPECT_TRUE(spec.ok()) << spec.error().message();
  return std::move(spec).value().program;
}

Plan plan_of(std::string_view shape, int grid, int slice = 512) {
  auto plan = make_plan(program_of(shape), {grid, slice});
  EXPECT_TRUE(plan.ok()) << plan.error().message();
  return std::move(plan).value();
}

Task& task_of(Plan& plan, std::string_view phase, std::size_t cta) {
  for (Task& task : plan.tasks[cta])
    if (plan.phase(task).name == phase) return task;
  ADD_FAILURE() << phase;
  return plan.tasks[cta].front();
}

void expect_refused(const Plan& plan, const std::string& fault, const std::string& where) {
  const status bad = validate(plan);
  ASSERT_FALSE(bad.ok()) << fault;
  EXPECT_NE(bad.message().find("persistent plan: " + fault + ":"), std::string::npos) << bad.message();
  EXPECT_NE(bad.message().find(where), std::string::npos) << bad.message();
}

TEST(PersistentPlan, ValidForTheShapesItTakes) {
  struct Case {
    const char* shape;
    int grid, slice;
  };
  for (const Case& c : {Case{"llama-3-8b", 128, 512}, Case{"llama-3-8b", 132, 1024}, Case{"llama-3.2-1b", 128, 512},
                        Case{"qwen3-0.6b", 132, 512}, Case{"qwen3-0.6b", 20, 1024}}) {
    const status ok = validate(plan_of(c.shape, c.grid, c.slice));
    EXPECT_TRUE(ok.ok()) << c.shape << " on " << c.grid << " CTAs: " << ok.message();
  }
}

TEST(PersistentPlan, HandsOutEveryRowGroupOnceAndEvenly) {
  const Plan plan = plan_of("qwen3-0.6b", 132);
  std::vector<int> groups(plan.phases.size(), 0), most(132, 0);
  for (std::size_t cta = 0; cta < plan.tasks.size(); ++cta)
    for (const Task& task : plan.tasks[cta]) {
      groups[static_cast<std::size_t>(task.phase)] += task.groups;
      most[cta] += task.groups * plan.phase(task).columns;
      EXPECT_LE(task.groups, kMaxGroups);
    }
  for (std::size_t p = 0; p < plan.phases.size(); ++p)
    if (plan.phases[p].kind == Kind::project) {
      EXPECT_EQ(groups[p], plan.phases[p].groups()) << plan.phases[p].name;
    }
  EXPECT_LT(*std::max_element(most.begin(), most.end()), 1.1 * *std::min_element(most.begin(), most.end()));
}

TEST(PersistentPlan, BeginsARowGroupWithTheSameSliceOnEveryGrid) {
  std::map<std::pair<std::string, int>, int> first;
  for (int grid : {20, 64, 128, 132}) {
    const Plan plan = plan_of("llama-3.2-1b", grid);
    for (const auto& list : plan.tasks)
      for (const Task& task : list)
        for (int g = task.first_group; g < task.first_group + task.groups; ++g) {
          const auto [at, fresh] = first.try_emplace({plan.phase(task).name, g}, task.first_slice);
          EXPECT_EQ(at->second, task.first_slice) << plan.phase(task).name << " group " << g << " grid " << grid;
        }
  }
}

TEST(PersistentPlan, NamesWhatItCannotRun) {
  const auto refused = make_plan(program_of("gemma-3-270m"), {128, 512});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::unsupported);
  for (const char* part : {"blk.0.attend: a window is not in {none} (runs on `graph`)",
                           "a norm behind the step before it is not in {none} (runs on `graph`)"})
    EXPECT_NE(refused.error().message().find(part), std::string::npos) << refused.error().message();
  EXPECT_EQ(make_plan(program_of("llama-3.2-1b"), {0, 512}).error().code(), Code::invalid_argument);
}

TEST(PersistentPlan, RefusesOverlappingBuffers) {
  Plan plan = plan_of("qwen3-0.6b", 16);
  plan.buffers[1].offset = plan.buffers[0].offset + 32;
  expect_refused(plan, "overlap", plan.buffers[0].name);
  plan = plan_of("qwen3-0.6b", 16);
  plan.arena -= 32;
  expect_refused(plan, "overlap", plan.buffers.back().name);
}

TEST(PersistentPlan, RefusesACycle) {
  Plan plan = plan_of("qwen3-0.6b", 16);
  std::swap(task_of(plan, "blk.0.gate_up", 3), task_of(plan, "blk.0.attn_out", 3));  // waits for itself
  expect_refused(plan, "cycle", "waits for");
}

TEST(PersistentPlan, RefusesACounterThatNeverGetsThere) {
  Plan plan = plan_of("qwen3-0.6b", 16);
  ++plan.counters[static_cast<std::size_t>(plan.buffers[0].first_counter)].arrivals;
  expect_refused(plan, "missing arrival", plan.counters[static_cast<std::size_t>(plan.buffers[0].first_counter)].name);
  plan = plan_of("qwen3-0.6b", 16);
  auto& tasks = plan.tasks[5];
  tasks.erase(
      std::find_if(tasks.begin(), tasks.end(), [&](const Task& t) { return plan.phase(t).name == "blk.27.gate_up"; }));
  expect_refused(plan, "missing arrival", "act[");
}

TEST(PersistentPlan, RefusesACounterThatALaterVersionCouldFill) {
  Plan plan = plan_of("qwen3-0.6b", 16);
  --plan.counters[static_cast<std::size_t>(plan.buffers[0].first_counter)].arrivals;
  expect_refused(plan, "mixed arrivals", "qkv[0]");
}

TEST(PersistentPlan, RefusesAStaleVersion) {
  Plan plan = plan_of("qwen3-0.6b", 16);
  for (Phase& phase : plan.phases)
    if (phase.name == "blk.1.gate_up") --phase.in.version;
  expect_refused(plan, "read too early", "blk.1.gate_up");
}

TEST(PersistentPlan, RefusesABufferWrittenOverWhileOthersRead) {
  Plan plan = plan_of("qwen3-0.6b", 16);
  int act = -1;
  for (const Phase& phase : plan.phases)
    if (phase.finish == Finish::gated) act = phase.out.buffer;
  // The output projection of layer 1 leaves its rows where the activation of layer 0 may still be read.
  for (Phase& phase : plan.phases)
    if (phase.name == "blk.0.attn_out") phase.out = {act, 0};
  ASSERT_FALSE(validate(plan).ok());
}

TEST(PersistentPlan, RefusesOutputsWrittenTwiceOrNever) {
  Plan plan = plan_of("qwen3-0.6b", 16);
  Task& task = task_of(plan, "logits", 2);
  task.first_group -= task.groups;
  expect_refused(plan, "written twice", "logits of CTA 2");
  plan = plan_of("qwen3-0.6b", 16);
  auto& tasks = plan.tasks[2];
  tasks.erase(std::find_if(tasks.begin(), tasks.end(), [&](const Task& t) { return plan.phase(t).name == "logits"; }));
  expect_refused(plan, "never written", "logits[");
}

}  // namespace
}  // namespace fourfold::cuda::persistent
