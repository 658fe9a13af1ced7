#include "shared.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

#include "exit.hpp"
#include "figures.hpp"
#include "output.hpp"

namespace fourfold::cli {
namespace {

constexpr const char* kExecutors[] = {"team", "reference", "reference-f32", "graph", "stream", "persistent"};

std::string take_device(const std::string& device, Everywhere& everywhere) {
  if (device == "cpu") return everywhere.on_device() ? "cpu does not go with --executor " + everywhere.executor : "";
  const std::string number = device.starts_with("cuda:") ? device.substr(5) : device == "cuda" ? "0" : "";
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), everywhere.device);
  if (number.empty() || error != std::errc{} || end != number.data() + number.size() || everywhere.device < 0)
    return "'" + one_line(device) + "' is not one of cpu, cuda, cuda:N";
  if (!everywhere.on_device()) everywhere.executor = "graph";
  return {};
}

std::string take_arms(const std::string& text, Everywhere& everywhere, std::vector<std::string>& arms) {
  arms = split(text);
  for (const std::string& arm : arms)
    if (std::find(std::begin(kExecutors), std::end(kExecutors), arm) == std::end(kExecutors))
      return "'" + one_line(arm) + "' is not one of team, reference, reference-f32, graph, stream, persistent";
  if (arms.empty()) return "no executor is named";
  everywhere.executor = arms.front();
  return {};
}

std::string take_seed(const std::string& text, std::optional<std::uint64_t>& seed) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text == "-1") {
    seed.reset();
  } else if (error == std::errc{} && end == text.data() + text.size()) {
    seed = value;
  } else {
    return "'" + one_line(text) + "' is not a whole number from -1 to 18446744073709551615";
  }
  return {};
}

}  // namespace

void declare_everywhere(Options& options, Everywhere& everywhere, std::vector<std::string>* arms) {
  options.group("Everywhere");
  if (arms != nullptr)
    options.taken(
        "--executor LIST", [&everywhere, arms](const std::string& text) { return take_arms(text, everywhere, *arms); },
        "what computes, several side by side: team, graph, stream, ...");
  else
    options.choice("--executor NAME", everywhere.executor,
                   {"team", "reference", "reference-f32", "graph", "stream", "persistent"},
                   "what computes: team (fast), reference (double), reference-f32; on a GPU graph, stream, persistent");
  options.taken(
      "--device DEVICE", [&everywhere](const std::string& text) { return take_device(text, everywhere); },
      "where to compute: cpu, cuda or cuda:N (then --executor graph)");
  options.integer("-t,--threads N", everywhere.threads, 1, 4096, "threads; default: the physical cores at hand");
  options.flag("--json", everywhere.json, "print JSON");
  options.group("Options");
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

void declare_model(Options& options, std::string& path) {
  options.text("-m,--model MODEL", path, "a .gguf, or a folder with config.json and safetensors");
}

void declare_computing(Options& options, Computing& computing) {
  options.integer("-c,--ctx-size,--context N", computing.context, 0, 1 << 24,
                  "positions of the context; default: the model's own, at most 8192");
  options.integer("-b,--batch-size N", computing.batch, 1, 4096, "most tokens evaluated at once");
  declare_cache(options, computing);
}

void declare_cache(Options& options, Computing& computing) {
  options.choice("--cache,--cache-type-k TYPE", computing.cache, {"f32", "f16", "bf16", "fp8", "q8_0"},
                 "storage of keys and values; default f16");
  options.flag("--f32", computing.f32, "float32 activations, and caches unless --cache says otherwise");
}

SessionOptions session_options(const Everywhere& everywhere, const Computing& computing) {
  SessionOptions options;
  options.context = computing.context;
  options.executor = everywhere.executor;
  options.device = everywhere.device;
  options.threads = everywhere.threads;
  options.f32 = computing.f32;
  if (!computing.cache.empty()) options.cache = storage_from_name(computing.cache);
  options.batch = computing.batch;
  return options;
}

result<Session> try_session(const Model& model, SessionOptions options) {
  double bytes = 0;
  for (const TensorSpec& tensor : model.program().tensors) bytes += static_cast<double>(tensor.bytes());
  Progress progress("loading", bytes, "B");
  options.progress = [&](double fraction) { progress.update(fraction); };
  auto session = model.session(options);
  if (!session.ok() && session.error().code() == Code::resource)
    return status{Code::resource, session.error().message() + "; a smaller context (-c) or cache (--cache) needs less"};
  return session;
}

Session open_session(const Model& model, SessionOptions options) {
  return must(try_session(model, std::move(options)));
}

void declare_sampling(Options& options, SamplingOptions& s) {
  options.group("Sampling");
  options.real("--temp X", s.temperature, 0, 1000, "temperature, 0: the best token; default 0.8");
  options.integer("--top-k N", s.top_k, 0, std::numeric_limits<int>::max(), "keep the N best, 0: all; default 40");
  options.real("--top-p X", s.top_p, 0, 1, "keep the smallest set of this mass; default 0.95");
  options.real("--min-p X", s.min_p, 0, 1, "keep what has this share of the best; default 0.05");
  options.real("--typical X", s.typical_p, 0, 1, "keep the most typical set of this mass; default 1");
  options.real("--top-nsigma X", s.top_n_sigma, -1, 1000, "keep logits within X deviations of the best; -1: all");
  options.real("--xtc-probability X", s.xtc_probability, 0, 1, "chance that the top choices are dropped; default 0");
  options.real("--xtc-threshold X", s.xtc_threshold, 0, 1, "what makes a top choice; default 0.1");
  options.real("--dynatemp-range X", s.dynatemp_range, 0, 1000, "temperature varies by X with the entropy; default 0");
  options.real("--dynatemp-exp X", s.dynatemp_exponent, 0, 1000, "exponent of that; default 1");
  options.integer("--repeat-last-n N", s.repeat_last_n, -1, 1 << 24, "tokens that penalties look at; default 64");
  options.real("--repeat-penalty X", s.repeat_penalty, 1e-6, 1000, "for repeated tokens, 1: none; default 1");
  options.real("--presence-penalty X", s.presence_penalty, -1000, 1000, "once per token; default 0");
  options.real("--frequency-penalty X", s.frequency_penalty, -1000, 1000, "once per occurrence; default 0");
  options.real("--dry-multiplier X", s.dry_multiplier, 0, 1000, "DRY: against repetitions; default 0, off");
  options.real("--dry-base X", s.dry_base, 0, 1000, "grows by X with each token repeated; default 1.75");
  options.integer("--dry-allowed-length N", s.dry_allowed_length, 0, 1 << 24, "tokens free to repeat; default 2");
  options.integer("--dry-penalty-last-n N", s.dry_penalty_last_n, -1, 1 << 24, "tokens DRY looks at; default -1, all");
  options.texts("--dry-sequence-breaker TEXT", s.dry_sequence_breakers,
                "ends what can be repeated, in place of newline : \" *; none: nothing does");
  options.integer("--mirostat N", s.mirostat, 0, 2, "version that replaces penalties and filters; default 0, off");
  options.real("--mirostat-ent X", s.mirostat_tau, 0, 100, "bits of surprise to steer for; default 5");
  options.real("--mirostat-lr X", s.mirostat_eta, 0, 1, "how fast; default 0.1");
  options.taken(
      "-s,--seed N", [&s](const std::string& text) { return take_seed(text, s.seed); }, "-1: a random one (default)");
  options.group("Options");
}

}  // namespace fourfold::cli
