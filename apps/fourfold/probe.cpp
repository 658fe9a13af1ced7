// probe: the ceilings of this machine, measured.
#include "lab/probe.hpp"

#include <nlohmann/json.hpp>

#include "cpu/simd/kernels.hpp"
#include "exit.hpp"
#include "json_out.hpp"
#include "output.hpp"
#include "shared.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

struct Probe {
  Everywhere everywhere;
  bool quick = false;

  int run() const {
    ProbeOptions options;
    options.threads = everywhere.threads;
    options.isa = must(simd::selected_kernels())->name;
    options.quick = quick;
    Progress progress("measuring", kProbeParts, "parts");
    options.progress = [&](int parts) { progress.update(static_cast<double>(parts) / kProbeParts); };
    const Ceilings ceilings = must(probe(options));
    progress.clear();
    out().write(everywhere.json ? dumped(nlohmann::ordered_json(to_json(ceilings))) : format_probe(ceilings));
    return kGood;
  }
};

}  // namespace

Action declare_probe(Options& options) {
  auto verb = std::make_shared<Probe>();
  options.flag("--quick", verb->quick, "0.1 s instead of 2 s: the likely read patterns only");
  declare_everywhere(options, verb->everywhere);
  options.examples(
      "  fourfold probe\n"
      "  fourfold probe -t 1 --json");
  return [verb] { return verb->run(); };
}

}  // namespace fourfold::cli
