// explain: where a token's time goes: each step's bytes, FLOPs, floor and binding limit. No weight is read.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cpu/team/memory.hpp"
#include "exit.hpp"
#include "figures.hpp"
#include "json_out.hpp"
#include "limits.hpp"
#include "output.hpp"
#include "plan_picture.hpp"
#include "program/placement.hpp"
#include "program/visit.hpp"
#include "source.hpp"
#include "table.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

// Steps that cost the same in every layer.
struct Row {
  std::string name, move, detail;
  int times = 0;
  Floor each;
};

// Experts that the tokens of one step are sent to, each token at random.
struct Touched {
  double distinct = 0, experts = 0;  // a layer
  double bytes = 0;                  // of their weights, over all layers
};

struct Report {
  const Program& program;
  Work work;
  Limits ceilings;
  Floor total;
  std::vector<Row> rows;
  team::MemoryUse memory;
  Placement placement;
  Touched touched;

  double share(const Row& row) const { return row.times * row.each.seconds / total.seconds; }
};

// Where experts would go beside a GPU of so much memory.
struct ExpertPlaces {
  std::string where = "auto";
  bool all_on_cpu = false;
  int cpu_layers = -1;  // -1: not said
  float gpu_gigabytes = 0;

  Placement of(const Program& program) const {
    const bool cpu = all_on_cpu || cpu_layers >= 0;
    if (cpu && where == "gpu")
      misuse("--experts-on gpu and --" + std::string(all_on_cpu ? "cpu-moe" : "n-cpu-moe") + ": accepted: one of them");
    const std::optional<int> layers = cpu_layers >= 0 && !all_on_cpu ? std::optional(cpu_layers) : std::nullopt;
    return place(program, cpu ? ExpertsOn::cpu : *experts_on(where), layers, static_cast<double>(gpu_gigabytes) * 1e9);
  }
};

struct Explain {
  Source source;
  Everywhere everywhere;
  Computing computing;
  int tokens = 1;
  bool ungrouped = false, trace = false;
  std::string plan;
  ExpertPlaces experts;
  std::optional<double> bandwidth, compute, price;

  int run() const;

 private:
  Limits limits() const;
  Work work(const Program& program) const;
  void print(const Report& report) const;
  void print_json(const Report& report) const;
};

// What tells steps of one name apart: storage of the weights, or how far attention looks back.
std::string detail(const Program& program, const Step& step, int tokens) {
  if (const auto* attend = std::get_if<Attend>(&step.op)) {
    const int window = program.caches[static_cast<std::size_t>(attend->cache)].window;
    return window > 0 ? "window " + std::to_string(window) : "all keys";
  }
  std::vector<std::string> storages;
  const auto add = [&](Weight weight) {
    const std::string name(info(program.tensor(weight).storage).name);
    if (std::find(storages.begin(), storages.end(), name) == storages.end()) storages.push_back(name);
  };
  if (const auto* project = std::get_if<Project>(&step.op))
    for (const Dot& dot : project->dots) add(dot.weight);
  if (const auto* embed = std::get_if<Embed>(&step.op)) add(embed->table);
  if (const auto* experts = std::get_if<Experts>(&step.op)) {
    for (const Dot& dot : experts->dots) add(dot.weight);
    storages.push_back(fixed(distinct_experts(program, *experts, tokens), 1) + " of " +
                       std::to_string(program.tensor(experts->dots[0].weight).stack) + " experts");
  }
  return joined(storages, " ");
}

const char* move_of(const Step& step) {
  return std::visit(Overloaded{[](const Embed&) { return "map"; }, [](const MapStep&) { return "map"; },
                               [](const Combine&) { return "map"; }, [](const RouteStep&) { return "route"; },
                               [](const ScanStep&) { return "scan"; }, [](const ShortConv&) { return "scan"; },
                               [](const auto&) { return "fold"; }},
                    step.op);
}

Touched touched_by(const Program& program, const Work& work) {
  Touched out;
  double layers = 0;
  for (const Step& step : program.steps) {
    const auto* experts = std::get_if<Experts>(&step.op);
    if (!experts) continue;
    out.bytes += cost(program, step, work.tokens, work.context, work.cache, 1).weight_bytes;
    if (!experts->per_choice) continue;  // the last of a layer's two
    ++layers;
    out.distinct += distinct_experts(program, *experts, work.tokens);
    out.experts += static_cast<double>(program.tensor(experts->dots[0].weight).stack);
  }
  if (layers > 0) out.distinct /= layers, out.experts /= layers;
  return out;
}

// What a sequence keeps, and what one more token reads and writes of it, by the length of its past.
struct Past {
  std::int64_t context;
  double cache_bytes, state_bytes;
  StepCost token;
};
std::vector<Past> pasts_of(const Program& program, Storage cache) {
  std::vector<Past> rows;
  for (std::int64_t context = 1 << 10; context <= 1 << 20; context *= 4) {
    double numbers = 0;
    for (const CacheSpec& kv : program.caches)
      numbers +=
          static_cast<double>(kv.width() * (kv.window > 0 ? std::min<std::int64_t>(context, kv.window) : context));
    rows.push_back({context, numbers * info(cache).bits_per_element() / 8,
                    static_cast<double>(program.state_numbers()) * sizeof(float), cost(program, 1, context, cache, 1)});
  }
  return rows;
}

std::vector<Row> rows_of(const Program& program, const Work& work, const Limits& limits, bool ungrouped) {
  std::vector<Row> rows;
  for (const Step& step : program.steps) {
    Row row{ungrouped ? step.name : without_layer(step.name), move_of(step), detail(program, step, work.tokens), 1,
            floor_of(program, step, work, limits)};
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& r) {
      return r.name == row.name && r.move == row.move && r.detail == row.detail &&
             r.each.cost.bytes() == row.each.cost.bytes() && r.each.cost.flops == row.each.cost.flops;
    });
    if (same == rows.end())
      rows.push_back(std::move(row));
    else
      ++same->times;
  }
  return rows;
}

Limits Explain::limits() const {
  Limits limits;
  if (!bandwidth || !compute) limits = measured_limits(everywhere, computing.f32);
  if (bandwidth) limits.bytes_per_s = *bandwidth * 1e9;
  if (compute) limits.int8_ops = limits.bf16_ops = limits.f32_ops = *compute * 1e12;
  if (bandwidth && compute) limits.source = "as given";
  limits.f32 = computing.f32;
  return limits;
}

Work Explain::work(const Program& program) const {
  const int context = computing.context > 0 ? computing.context : std::min(program.context, 4096);
  if (tokens > context)
    fail("--tokens " + std::to_string(tokens) + " is more than the context of " + std::to_string(context));
  const Storage cache = !computing.cache.empty() ? *storage_from_name(computing.cache)
                        : computing.f32          ? Storage::f32
                                                 : Storage::f16;
  return {tokens, context, cache, 1};
}

std::string total_line(const Floor& total, int tokens, std::optional<double> price) {
  std::string line = milliseconds(total.seconds) + " = " + rate(tokens / total.seconds) + " t/s · MFU " +
                     percent(total.compute_s / total.seconds);
  if (price)
    line += " · $" + fixed(*price / 3600 * total.seconds / tokens * 1e6, 2) + " per million tokens at $" +
            fixed(*price, 2) + "/h";
  return line;
}

void Explain::print_json(const Report& r) const {
  nlohmann::ordered_json json{{"model", described(r.program)}, {"tokens", r.work.tokens}, {"context", r.work.context}};
  json["cache"] = info(r.work.cache).name;
  for (const Row& row : r.rows)
    json["steps"].push_back({{"step", row.name},
                             {"move", row.move},
                             {"detail", row.detail},
                             {"times", row.times},
                             {"bytes", row.each.cost.bytes()},
                             {"flops", row.each.cost.flops},
                             {"floor_s", row.each.seconds},
                             {"binds", row.each.binds()},
                             {"share", r.share(row)}});
  json["total"] = {{"bytes", r.total.cost.bytes()},
                   {"flops", r.total.cost.flops},
                   {"floor_s", r.total.seconds},
                   {"tokens_per_s", r.work.tokens / r.total.seconds},
                   {"mfu", r.total.compute_s / r.total.seconds},
                   {"binds", r.total.binds()}};
  json["memory"] = {{"weights", r.memory.weights},
                    {"caches", r.memory.caches},
                    {"states", r.memory.states},
                    {"arena", r.memory.arena},
                    {"total", r.memory.total()}};
  if (price) json["total"]["dollars_per_million_tokens"] = *price / 3600 * r.total.seconds / r.work.tokens * 1e6;
  if (r.touched.experts > 0)
    json["experts"] = {{"per_layer", r.touched.experts},
                       {"distinct_per_layer", r.touched.distinct},
                       {"touched_bytes", r.touched.bytes},
                       {"cpu_bytes", r.placement.cpu_weight_bytes},
                       {"gpu_bytes", r.placement.gpu_weight_bytes}};
  for (const Past& past : pasts_of(r.program, r.work.cache))
    json["by_context"].push_back({{"context", past.context},
                                  {"cache_bytes", past.cache_bytes},
                                  {"state_bytes", past.state_bytes},
                                  {"cache_bytes_per_token", past.token.cache_bytes},
                                  {"state_bytes_per_token", past.token.state_bytes}});
  json["ceilings"] = {{"read_bytes_per_s", r.ceilings.bytes_per_s},
                      {"int8_ops_per_s", r.ceilings.int8_ops},
                      {"bf16_ops_per_s", r.ceilings.bf16_ops},
                      {"f32_ops_per_s", r.ceilings.f32_ops},
                      {"source", r.ceilings.source}};
  out().write(dumped(json));
}

void Explain::print(const Report& r) const {
  Table table{"llrrrrlr"};
  table.row({"step", "move", "times", "bytes", "FLOP", "floor us", "binds", "share"});
  for (const Row& row : r.rows)
    table.row({row.name, row.move + "  " + row.detail, std::to_string(row.times), in_bytes(row.each.cost.bytes()),
               in_thousands(row.each.cost.flops), fixed(row.each.seconds * 1e6, 1), row.each.binds(),
               percent(r.share(row))});
  table.row({"total", "", "", in_bytes(r.total.cost.bytes()), in_thousands(r.total.cost.flops),
             fixed(r.total.seconds * 1e6, 1), r.total.binds(), "100%"});
  out().write(table.text());
  out().write("\n" + described(r.program) + ", " + (tokens == 1 ? "1 token" : grouped_by_three(tokens) + " tokens") +
              " at context " + grouped_by_three(r.work.context) + " (cache " + std::string(info(r.work.cache).name) +
              "): " + total_line(r.total, tokens, price) + "\n");
  out().write("memory at this context: " + in_bytes(r.memory.total()) + " = weights " + in_bytes(r.memory.weights) +
              " + caches " + in_bytes(r.memory.caches) + " + states " + in_bytes(r.memory.states) + " + arena " +
              in_bytes(r.memory.arena) + "\n");
  if (r.touched.experts > 0)
    out().write(
        "experts: " + fixed(r.touched.distinct, 1) + " of " + fixed(r.touched.experts, 0) + " in a layer are read, " +
        in_bytes(r.touched.bytes) + " of weights; " + in_bytes(r.placement.cpu_weight_bytes) + " lie on the CPU, " +
        in_bytes(r.placement.gpu_weight_bytes) + " on a GPU" +
        (experts.gpu_gigabytes > 0 ? "" : " (none: this plans only; --gpu-memory says what one would have)") + "\n");
  if (!r.program.states.empty() || r.touched.experts > 0) {
    Table pasts{"rrrrr"};
    pasts.row({"context", "caches", "states", "caches per token", "states per token"});
    for (const Past& past : pasts_of(r.program, r.work.cache))
      pasts.row({grouped_by_three(past.context), in_bytes(past.cache_bytes), in_bytes(past.state_bytes),
                 in_bytes(past.token.cache_bytes), in_bytes(past.token.state_bytes)});
    out().write("\n" + pasts.text() + "\n");
  }
  out().write("ceilings: " + fixed(r.ceilings.bytes_per_s / 1e9, 1) + " GB/s read · " +
              in_thousands(r.ceilings.int8_ops) + "op/s int8 · " + in_thousands(r.ceilings.bf16_ops) + "op/s bf16 · " +
              in_thousands(r.ceilings.f32_ops) + "op/s f32 (" + r.ceilings.source + ")\n");
}

int Explain::run() const {
  if (trace && plan.empty()) misuse("explain: --trace goes with --plan FILE");
  const Program program = read_program(source, "explain");
  if (!plan.empty()) {
    const auto context = static_cast<int>(work(program).context);
    trace ? draw_trace(open_model(source, "explain"), everywhere.device, context, plan)
          : draw_plan(program, context, plan);
    return kGood;
  }
  const Limits ceilings = limits();
  const Work what = work(program);
  const Report report{program,
                      what,
                      ceilings,
                      floor_of(program, what, ceilings),
                      rows_of(program, what, ceilings, ungrouped),
                      team::memory_use(program, {static_cast<int>(what.context), computing.batch, what.cache}),
                      experts.of(program),
                      touched_by(program, what)};
  everywhere.json ? print_json(report) : print(report);
  return kGood;
}

}  // namespace

Action declare_explain(Options& options) {
  auto verb = std::make_shared<Explain>();
  declare_source(options, verb->source);
  options.integer("-c,--context,--ctx-size N", verb->computing.context, 1, 1 << 24,
                  "positions cached afterwards; default: the model's context, at most 4096");
  options.integer("--tokens N", verb->tokens, 1, 1 << 20, "tokens evaluated at once; default 1: a decode step");
  declare_cache(options, verb->computing);
  options.choice(
      "--experts-on WHERE", verb->experts.where, {"cpu", "gpu", "auto"},
      "where experts' weights lie beside a GPU; auto (default): on the GPU from the last layer on, while they fit");
  options.flag("--cpu-moe", verb->experts.all_on_cpu, "all experts on the CPU");
  options.integer("--n-cpu-moe N", verb->experts.cpu_layers, 0, 1 << 16, "experts of the first N layers on the CPU");
  options.real("--gpu-memory X", verb->experts.gpu_gigabytes, 0, 1e6,
               "GB of the GPU to plan for; default 0: there is none");
  options.flag("--steps", verb->ungrouped, "every step, like ones not put together");
  options.text("--plan FILE", verb->plan,
               "draw what each CTA of the persistent kernel does in one token: HTML, or trace events in a .json");
  options.flag("--trace", verb->trace, "with --plan: measured on a GPU, instead of what is expected of one");
  options.real("--bandwidth X", verb->bandwidth, 1e-3, 1e6, "GB/s to reckon with, instead of the measured ceiling");
  options.real("--compute X", verb->compute, 1e-6, 1e6, "Tera-operations/s, instead of the measured ceilings");
  options.real("--price X", verb->price, 0, 1e6, "dollars per hour of this machine");
  declare_everywhere(options, verb->everywhere);
  options.examples(
      "  fourfold explain -m model.gguf\n"
      "  fourfold explain --shape llama-3-8b --dtype bf16 --context 4096 --price 2\n"
      "  fourfold explain --shape qwen3-4b --dtype q4_k --bandwidth 100 --compute 4");
  return [verb] { return verb->run(); };
}

}  // namespace fourfold::cli
