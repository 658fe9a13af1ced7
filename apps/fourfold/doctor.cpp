// doctor: what this machine and this build can do, and what was chosen from it.
#include <sys/sysinfo.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cpu/simd/kernels.hpp"
#include "cpu/topology.hpp"
#include "exit.hpp"
#include "figures.hpp"
#include "json_out.hpp"
#include "lab/device.hpp"
#include "output.hpp"
#include "shared.hpp"
#include "table.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Doctor {
  Everywhere everywhere;
  int run() const;
};

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "always [madvise] never" -> "madvise".
std::string huge_pages() {
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const auto open = line.find('['), close = line.find(']');
  return open == std::string::npos || close == std::string::npos ? "not known"
                                                                 : line.substr(open + 1, close - open - 1);
}

std::string listed(const std::vector<int>& processors) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < processors.size();) {
    std::size_t j = i;
    while (j + 1 < processors.size() && processors[j + 1] == processors[j] + 1) ++j;
    ranges.push_back(std::to_string(processors[i]) + (j > i ? "-" + std::to_string(processors[j]) : ""));
    i = j + 1;
  }
  return joined(ranges, ",");
}

std::string counted(int n, const std::string& what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

std::string why_threads(const Topology& t, int asked) {
  if (asked > 0) return std::to_string(asked) + ", as -t says";
  const bool by_quota = std::isfinite(t.quota) && std::ceil(t.quota) < t.physical_allowed;
  return std::to_string(default_threads(t)) +
         (by_quota ? ", the time that the cgroup grants" : ", one per physical core allowed");
}

std::string size_or_dash(std::size_t bytes) {
  return bytes == 0          ? "-"
         : bytes >= 1u << 20 ? std::to_string(bytes >> 20) + " MiB"
                             : std::to_string(bytes >> 10) + " KiB";
}

std::string compiler() {
#if defined(__clang__)
  return "clang " + std::string(__clang_version__);
#else
  return "g++ " + std::string(__VERSION__);
#endif
}

std::string memory() {
  struct sysinfo memory {};
  if (sysinfo(&memory) != 0) return "not known";
  const double unit = memory.mem_unit;
  return in_bytes(static_cast<double>(memory.totalram) * unit) + ", " +
         in_bytes(static_cast<double>(memory.freeram + memory.bufferram) * unit) + " unused";
}

#ifdef FOURFOLD_CUDA
constexpr const char* kCudaExecutors = ", graph, stream, persistent";
#else
constexpr const char* kCudaExecutors = "";
#endif

Json findings(const Everywhere& everywhere, bool& good) {
  const Topology t = read_topology();
  const simd::Levels levels = simd::available_levels(simd::detect_features());
  std::vector<std::string> names;
  for (int i = 0; i < levels.count; ++i) names.emplace_back(levels.table[i]->name);
  const auto& chosen = simd::selected_kernels();
  const char* forced = std::getenv("FOURFOLD_ISA");
  good = chosen.ok();
  return {{"version", FOURFOLD_VERSION},
          {"compiler", compiler()},
          {"processor", t.cpu_model.empty() ? "not known" : t.cpu_model},
          {"extensions", t.isa},
          {"levels", joined(names, " ")},
          {"level_chosen", chosen.ok() ? std::string((*chosen)->name) : "none: " + chosen.error().message()},
          {"FOURFOLD_ISA", forced == nullptr || *forced == '\0' ? "not set" : one_line(forced)},
          {"processors", counted(t.logical, "online processor") + ", allowed: " + listed(t.allowed) + " on " +
                             counted(t.physical_allowed, "physical core")},
          {"cgroup_quota", std::isfinite(t.quota) ? significant(t.quota, 3) + " processors" : "none"},
          {"threads", why_threads(t, everywhere.threads)},
          {"caches", "L1d " + size_or_dash(t.l1d) + " · L2 " + size_or_dash(t.l2) + " · L3 " + size_or_dash(t.l3)},
          {"memory", memory()},
          {"huge_pages", huge_pages()},
          {"cuda", one_line(describe_device())},
          {"executors", "team, reference, reference-f32" + std::string(kCudaExecutors)}};
}

int Doctor::run() const {
  bool good = true;
  const Json json = findings(everywhere, good);
  if (everywhere.json) {
    out().write(dumped(json));
  } else {
    Table table{"ll"};
    for (const auto& [name, value] : json.items()) {
      std::string spaced = name;
      if (spaced != "FOURFOLD_ISA") std::replace(spaced.begin(), spaced.end(), '_', ' ');
      table.row({spaced, value.get<std::string>()});
    }
    out().write(table.text());
  }
  return good ? kGood : kFailed;
}

}  // namespace

Action declare_doctor(Options& options) {
  auto verb = std::make_shared<Doctor>();
  declare_everywhere(options, verb->everywhere);
  options.examples(
      "  fourfold doctor\n"
      "  FOURFOLD_ISA=avx2 fourfold doctor --json");
  return [verb] { return verb->run(); };
}

}  // namespace fourfold::cli
