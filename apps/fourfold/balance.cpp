// balance: how evenly experts are chosen from a skewed stream, step by step, under one of the balancing rules.
#include "lab/balance.hpp"

#include <nlohmann/json.hpp>

#include "exit.hpp"
#include "figures.hpp"
#include "json_out.hpp"
#include "output.hpp"
#include "shared.hpp"
#include "table.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

struct Balance {
  std::string rule = "quantile";
  int tokens = 1024, experts = 32, chosen = 4, steps = 20, shards = 1, seed = 1;
  float rate = 1e-3f, skew = 1;
  bool json = false;

  int run() const;
};

int Balance::run() const {
  BalanceOptions o{.rule = BalanceOptions::Rule::quantile,
                   .tokens = tokens,
                   .experts = experts,
                   .chosen = chosen,
                   .steps = steps,
                   .shards = shards,
                   .rate = rate,
                   .skew = skew,
                   .seed = static_cast<std::uint64_t>(seed)};
  if (rule == "none") o.rule = BalanceOptions::Rule::none;
  if (rule == "sign") o.rule = BalanceOptions::Rule::sign;
  const std::vector<double> violations = must(simulate_balance(o));
  if (json) {
    out().write(dumped({{"rule", rule}, {"max_violation", violations}}));
    return kGood;
  }
  Table table{"rr"};
  table.row({"step", "max violation"});
  for (std::size_t i = 0; i < violations.size(); ++i) table.row({std::to_string(i + 1), fixed(violations[i], 3)});
  out().write(table.text());
  return kGood;
}

}  // namespace

Action declare_balance(Options& options) {
  auto verb = std::make_shared<Balance>();
  options.choice("--rule NAME", verb->rule, {"none", "sign", "quantile"},
                 "none; sign: a bias that follows the loads; quantile (default): exact quantiles of the scores");
  options.integer("--tokens N", verb->tokens, 1, 1 << 20, "tokens of a step; default 1024");
  options.integer("--experts N", verb->experts, 2, 1 << 14, "default 32");
  options.integer("--chosen N", verb->chosen, 1, 1 << 10, "experts per token; default 4");
  options.integer("--steps N", verb->steps, 1, 1 << 20, "default 20");
  options.integer("--shards N", verb->shards, 1, 1 << 16, "parts that find their quantiles alone; default 1");
  options.real("--rate X", verb->rate, 0, 1e3, "of sign; default 0.001");
  options.real("--skew X", verb->skew, 0, 1e3, "standard deviation of the experts' offsets; default 1");
  options.integer("--seed N", verb->seed, 0, 1 << 30, "of the stream; default 1");
  options.flag("--json", verb->json, "print JSON");
  options.examples(
      "  fourfold balance\n"
      "  fourfold balance --rule sign --steps 300\n"
      "  fourfold balance --rule none --experts 64 --chosen 8 --json");
  return [verb] { return verb->run(); };
}

}  // namespace fourfold::cli
