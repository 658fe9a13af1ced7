// bench: prefill and decode rates, llama-bench's table, beside the ceilings that the same run measures.
#include "bench.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

#include "cpu/simd/kernels.hpp"
#include "cpu/topology.hpp"
#include "exit.hpp"
#include "figures.hpp"
#include "lab/device.hpp"
#include "lab/probe.hpp"
#include "output.hpp"
#include "source.hpp"
#include "timings.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

constexpr std::uint32_t kFirstSeed = 1;

// One executor's session of a model.
struct Arm {
  BenchContext context;
  Session session;
};

struct Bench {
  Source source;
  Everywhere everywhere;
  Computing computing;
  std::vector<int> prompts{512}, generated{128}, depths{0};
  int repetitions = 5;
  std::string format = "md";
  std::optional<double> price;
  std::optional<double> most_seconds;
  bool no_warmup = false;
  std::vector<std::string> arms{};  // executors, measured in turns

  int run() const;

 private:
  int longest() const;
  std::vector<Measured> tests() const;
  BenchContext context(const Model& model, const Session& session, const std::string& executor) const;
  std::vector<Arm> open_arms(const Model& model) const;
  void measure(const Source& one, const std::function<void(BenchRow)>& done) const;
};

// Token ids as llama-bench draws them: any of the vocabulary.
class RandomIds {
 public:
  explicit RandomIds(int vocab) : vocab_(static_cast<std::uint32_t>(vocab)) {}
  int next() {
    state_ = state_ * 1664525u + 1013904223u;  // Numerical Recipes, 2nd ed., section 7.1
    return static_cast<int>((state_ >> 8) % vocab_);
  }
  std::vector<int> next(int n) {
    std::vector<int> ids(static_cast<std::size_t>(n));
    for (int& id : ids) id = next();
    return ids;
  }

 private:
  std::uint32_t vocab_, state_ = kFirstSeed;
};

// One pass of a test from its depth on, in a fork of the session that is filled so far; the seconds of each token where
// they come one by one. An executor that chooses ids by itself generates as it would in use, in the session itself.
class Pass {
 public:
  Pass(Session& filled, RandomIds& ids) : filled_(filled), ids_(ids) {}

  double operator()(Measured& test, bool keep) {
    if (filled_.decodes()) return here(test, keep);
    Session session = must(filled_.fork());
    const auto prompt = ids_.next(test.prompt);
    const Stopwatch whole;
    if (test.prompt > 0) {
      must(session.eval(prompt));
      if (keep) test.token_seconds.push_back(whole.seconds() / test.prompt);
    }
    for (int i = 0; i < test.generated; ++i) {
      const int id = ids_.next();
      const Stopwatch one;
      must(session.eval({&id, 1}));
      if (keep) test.token_seconds.push_back(one.seconds());
    }
    return whole.seconds();
  }

 private:
  double here(Measured& test, bool keep) {
    must(filled_.rewind(test.depth));
    const auto prompt = ids_.next(test.prompt);
    std::vector<int> chosen(static_cast<std::size_t>(test.generated));
    const Stopwatch whole;
    if (test.prompt > 0) must(filled_.eval(prompt));
    if (test.generated > 0) must(filled_.decode(ids_.next(), chosen));
    const double seconds = whole.seconds();
    if (keep)
      test.token_seconds.insert(test.token_seconds.end(), chosen.size() + (test.prompt > 0 ? 1 : 0),
                                seconds / test.tokens());
    return seconds;
  }

  Session& filled_;
  RandomIds& ids_;
};

// The machine's ceilings: of arithmetic once, of reading before and after every repetition, since what memory gives
// changes while it is measured.
struct Machine {
  Ceilings ceilings;
  std::function<double()> read;  // bytes per second
};

// A device's memory is probed; its arithmetic is not, and never said to bind.
std::optional<Machine> device_of(const Everywhere& everywhere) {
  const std::shared_ptr<DeviceCeiling> reading = must(DeviceCeiling::create(everywhere.device));
  Machine machine;
  machine.ceilings.f32_flops = std::numeric_limits<double>::infinity();
  machine.read = [reading] { return reading->sample(); };
  return machine;
}

std::optional<Machine> machine_of(const Everywhere& everywhere) {
  if (everywhere.on_device()) return device_of(everywhere);
  if (everywhere.executor != "team") return std::nullopt;
  ProbeOptions options;
  options.threads = everywhere.threads;
  options.isa = simd::kernels().name;
  options.quick = true;
  const std::shared_ptr<ReadCeiling> reading = must(ReadCeiling::create(options));
  return Machine{must(probe(options)), [reading] { return reading->sample(); }};
}

int Bench::longest() const {
  const int work = std::max(*std::max_element(prompts.begin(), prompts.end()),
                            *std::max_element(generated.begin(), generated.end()));
  return *std::max_element(depths.begin(), depths.end()) + std::max(work, 1);
}

BenchContext Bench::context(const Model& model, const Session& session, const std::string& executor) const {
  const Program& program = model.program();
  double size = static_cast<double>(model.file_bytes());
  if (size == 0)
    for (const TensorSpec& tensor : program.tensors) size += static_cast<double>(tensor.bytes());
  return {model.path(),
          described(program),
          executor,
          std::string(info(session.cache()).name),
          everywhere.on_device() ? session.executor() : read_topology().cpu_model,
          size,
          parameters(program),
          everywhere.threads > 0 ? everywhere.threads : default_threads(),
          computing.batch,
          price,
          computing.f32};
}

// What the test must read and compute: a prompt in batches, then token by token.
Floor floor_of_test(const Session& session, const Measured& test, int batch, const Limits& limits) {
  const Program& program = session.model().program();
  Floor total;
  for (int done = 0; done < test.prompt;) {
    const int n = std::min(batch, test.prompt - done);
    done += n;
    total.add(floor_of(program, {n, test.depth + done, session.cache(), done == test.prompt ? 1 : 0}, limits));
  }
  for (int i = 1; i <= test.generated; ++i)
    total.add(floor_of(program, {1, test.depth + i, session.cache(), 1}, limits));
  return total;
}

std::vector<Measured> Bench::tests() const {
  std::vector<Measured> tests;
  for (const int depth : depths) {
    for (const int n : prompts)
      if (n > 0) tests.push_back({.prompt = n, .depth = depth});
    for (const int n : generated)
      if (n > 0) tests.push_back({.generated = n, .depth = depth});
  }
  return tests;
}

// Of several arms, those that cannot run the model are left out, and why is said.
std::vector<Arm> Bench::open_arms(const Model& model) const {
  SessionOptions options = session_options(everywhere, computing);
  options.context = std::max(longest(), computing.context);
  std::vector<Arm> all;
  for (const std::string& arm : arms.empty() ? std::vector{everywhere.executor} : arms) {
    options.executor = arm;
    auto session = try_session(model, options);
    if (!session.ok() && session.error().code() == Code::unsupported && arms.size() > 1) {
      remark("bench: left out: " + session.error().message());
      continue;
    }
    Session opened = must(std::move(session));
    BenchContext common = context(model, opened, arm);
    all.push_back({std::move(common), std::move(opened)});
  }
  return all;
}

// Each test on every arm, the arms in turns within a repetition, the memory read before and after each pass.
void Bench::measure(const Source& one, const std::function<void(BenchRow)>& done_with) const {
  const Model model = open_model(one, "bench");
  if (longest() > model.context())
    fail("bench: -p, -n and -d together reach " + std::to_string(longest()) + " positions, the model's context is " +
         std::to_string(model.context()));
  std::vector<Arm> all = open_arms(model);
  const auto machine = machine_of(everywhere);
  RandomIds ids(model.vocab());
  const std::vector<Measured> wanted = tests();
  double done = 0;
  const double passes = static_cast<double>(wanted.size() * all.size()) * repetitions;
  Progress progress("measuring", passes, "passes");
  for (const Measured& test : wanted) {
    std::vector<Measured> measured(all.size(), test);
    for (Arm& arm : all) {
      must(arm.session.fill(test.depth));
      Measured warm = test;
      if (warm.generated > 0) warm.generated = 1;
      if (!no_warmup) Pass(arm.session, ids)(warm, false);
    }
    double before = machine ? machine->read() : 0;
    const Stopwatch whole;
    for (int r = 0; r < repetitions && (r == 0 || !most_seconds || whole.seconds() < *most_seconds); ++r)
      for (std::size_t a = 0; a < all.size(); ++a) {
        measured[a].seconds.push_back(Pass(all[a].session, ids)(measured[a], true));
        if (machine) {
          const double after = machine->read();
          measured[a].ceilings.push_back((before + after) / 2);
          before = after;
        }
        progress.update(++done / passes);
      }
    for (std::size_t a = 0; a < all.size(); ++a) {
      measured[a].has_limits = machine.has_value();
      if (machine) {
        const Ceilings& c = machine->ceilings;
        const Limits limits{
            quantile(measured[a].ceilings, 0.5), c.int8_ops, c.bf16_ops, c.f32_flops, c.threads, computing.f32, ""};
        measured[a].floor = floor_of_test(all[a].session, measured[a], computing.batch, limits);
      }
      progress.clear();
      done_with({all[a].context, std::move(measured[a])});
    }
  }
}

int Bench::run() const {
  const auto nothing = [](const std::vector<int>& counts) {
    return *std::max_element(counts.begin(), counts.end()) == 0;
  };
  if (nothing(prompts) && nothing(generated)) misuse("bench: -p and -n are 0; accepted: at least one above 0");
  std::vector<BenchRow> rows;
  const bool line_by_line = !everywhere.json && format == "jsonl";  // a long run that is cut short has said something
  const auto done_with = [&](BenchRow row) {
    rows.push_back(std::move(row));
    if (!line_by_line) return;
    out().write(printed({rows.back()}, format));
    out().flush();
  };
  for (const Source& one : each_source(source, "bench")) measure(one, done_with);
  if (!line_by_line) out().write(printed(rows, everywhere.json ? "json" : format));
  return kGood;
}

}  // namespace

Action declare_bench(Options& options) {
  auto verb = std::make_shared<Bench>();
  declare_sources(options, verb->source);
  options.integers("-p,--n-prompt LIST", verb->prompts, 0, 1 << 20, "tokens of a prompt, 0: none; default 512");
  options.integers("-n,--n-gen LIST", verb->generated, 0, 1 << 20, "tokens to generate, 0: none; default 128");
  options.integers("-d,--n-depth LIST", verb->depths, 0, 1 << 20, "positions cached before; default 0");
  options.integer("-r,--repetitions N", verb->repetitions, 1, 10000, "of each test; default 5");
  options.choice("-o,--output FORMAT", verb->format, {"md", "json", "jsonl", "csv"}, "md (default), json, jsonl, csv");
  options.real("--price X", verb->price, 0, 1e6, "dollars per hour of this machine");
  options.real("--most-seconds X", verb->most_seconds, 1e-3, 1e6,
               "after which a test is not repeated again; default: no limit");
  options.flag("--no-warmup", verb->no_warmup, "do not run each test once before it counts");
  declare_computing(options, verb->computing);
  declare_everywhere(options, verb->everywhere, &verb->arms);
  options.examples(
      "  fourfold bench -m model.gguf\n"
      "  fourfold bench -m model.gguf -p 0 -n 128 -d 0,4096 -o json\n"
      "  fourfold bench --shape llama-3.2-1b --dtype q4_k --price 0.05\n"
      "  fourfold bench --executor graph,stream --shape llama-3-8b,llama-3.2-1b --dtype bf16,fp8 -p 0 -d 0,4096");
  return [verb] { return verb->run(); };
}

}  // namespace fourfold::cli
