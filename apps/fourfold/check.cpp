// check: an executor against the reference, step by step; the first step that disagrees, its coordinate and values.
#include "engine/check.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/checkpoint_bytes.hpp"
#include "exit.hpp"
#include "figures.hpp"
#include "input.hpp"
#include "json_out.hpp"
#include "models/random_weights.hpp"
#include "output.hpp"
#include "shared.hpp"
#include "source.hpp"
#include "table.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

struct Check {
  Source source;
  Everywhere everywhere;
  Computing computing;
  IdSource ids;
  int tokens = 9, steps = 0;

  int run() const;

 private:
  std::optional<RepeatCheck> repeated(const Model& model) const;
  std::vector<StepCheck> compared(const Model& model) const;
  std::vector<int> chosen_ids(int vocab) const;
};

std::vector<int> Check::chosen_ids(int vocab) const {
  if (ids.given()) return ids.read("check");
  std::vector<int> chosen;
  for (int i = 0; i < tokens; ++i) chosen.push_back(static_cast<int>((7919LL * (i + 1)) % vocab));
  return chosen;
}

std::vector<StepCheck> Check::compared(const Model& model) const {
  const auto list = chosen_ids(model.vocab());
  const SessionOptions options = session_options(everywhere, computing);
  std::optional<Progress> bar;  // from the first step on: loading is no part of its rate
  const auto progress = [&](double fraction) {
    if (!bar) bar.emplace("comparing", static_cast<double>(model.program().steps.size() * list.size()), "steps");
    bar->update(fraction);
  };
  if (source.model.empty()) return must(check_against_reference(model, options, RandomWeights(1), list, progress));
  const Checkpoint file = must(open_checkpoint(source.model));
  return must(check_against_reference(model, options, CheckpointBytes(file), list, progress));
}

std::optional<RepeatCheck> Check::repeated(const Model& model) const {
  if (steps == 0) return {};
  Progress bar("decoding twice", 2.0 * steps, "tokens");
  RepeatCheck check = must(check_repeats(model, session_options(everywhere, computing), steps,
                                         [&](double fraction) { bar.update(fraction); }));
  bar.clear();
  return check;
}

std::string verdict(const RepeatCheck& check) {
  const auto differ = [](const char* what, int step) {
    return std::string(what) + " of step " + std::to_string(step) + " differ between two runs";
  };
  if (check.logits_differ) return differ("logits", *check.logits_differ);
  if (check.ids_differ) return differ("ids sampled", *check.ids_differ);
  return std::to_string(check.steps) + " decode steps, twice: the same bits";
}

// Like steps of all layers as one row: the worst of them.
struct Row {
  std::string name;
  int times = 0, failed = 0;
  double distance = 0, tolerance = 0;
};

std::vector<Row> grouped(const std::vector<StepCheck>& checks) {
  std::vector<Row> rows;
  for (const StepCheck& check : checks) {
    const std::string name = without_layer(check.step) + ": " + without_layer(check.output);
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
    if (row == rows.end()) row = rows.insert(rows.end(), Row{name});
    ++row->times;
    row->failed += !check.ok();
    row->distance = std::max(row->distance, check.distance);
    row->tolerance = std::max(row->tolerance, check.tolerance);
  }
  return rows;
}

std::string scientific(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1e", value);
  return text.data();
}

nlohmann::ordered_json as_json(const StepCheck& check) {
  nlohmann::ordered_json json{{"step", check.step},
                              {"output", check.output},
                              {"distance", check.distance},
                              {"tolerance", check.tolerance},
                              {"ok", check.ok()}};
  if (check.worst)
    json["mismatch"] = {{"token", check.worst->token},
                        {"column", check.worst->column},
                        {"got", check.worst->got},
                        {"expected", check.worst->expected}};
  return json;
}

int Check::run() const {
  const Model model = open_model(source, "check");
  const auto checks = compared(model);
  const auto bad = std::find_if(checks.begin(), checks.end(), [](const StepCheck& c) { return !c.ok(); });
  const auto repeats = bad == checks.end() ? repeated(model) : std::nullopt;
  const int code = bad == checks.end() && (!repeats || repeats->ok()) ? kGood : kFailed;
  if (everywhere.json) {
    nlohmann::ordered_json json{{"executor", everywhere.executor}, {"ok", code == kGood}};
    for (const StepCheck& check : checks) json["steps"].push_back(as_json(check));
    if (repeats) json["repeats"] = {{"steps", repeats->steps}, {"ok", repeats->ok()}, {"verdict", verdict(*repeats)}};
    out().write(dumped(json));
    return code;
  }
  Table table{"lrrrl"};
  table.row({"step: output", "times", "distance", "at most", "verdict"});
  for (const Row& row : grouped(checks))
    table.row({row.name, std::to_string(row.times), scientific(row.distance), scientific(row.tolerance),
               row.failed == 0 ? "agrees" : std::to_string(row.failed) + " disagree"});
  out().write(table.text());
  if (repeats && repeats->ok()) out().write(verdict(*repeats) + "\n");
  out().flush();
  if (code == kGood) return kGood;
  if (repeats) fail(everywhere.executor + ": " + verdict(*repeats));
  fail(everywhere.executor + " disagrees with the reference first at step " + bad->step + ", " + bad->output +
       "[token " + std::to_string(bad->worst->token) + ", column " + std::to_string(bad->worst->column) +
       "]: " + significant(bad->worst->got, 7) + " instead of " + significant(bad->worst->expected, 7));
}

}  // namespace

Action declare_check(Options& options) {
  auto verb = std::make_shared<Check>();
  declare_source(options, verb->source);
  declare_ids(options, verb->ids);
  options.integer("--tokens N", verb->tokens, 2, 4096,
                  "how many, where no ids are given; the last one alone; default 9");
  options.integer("--steps N", verb->steps, 0, 1 << 20,
                  "then decode so many tokens one by one, twice, and compare the bits of each; default 0");
  declare_cache(options, verb->computing);
  declare_everywhere(options, verb->everywhere);
  options.examples(
      "  fourfold check -m model.gguf\n"
      "  fourfold check -m model.gguf --f32 --ids 1,2,3\n"
      "  fourfold check --shape llama-3.2-1b --dtype bf16 --executor persistent --cache bf16 --steps 10000\n"
      "  FOURFOLD_ISA=scalar fourfold check --shape smollm2-135m --dtype q4_k");
  return [verb] { return verb->run(); };
}

}  // namespace fourfold::cli
