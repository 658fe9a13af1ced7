// Topology from /proc and /sys: Linux cgroup v1 (cpu.cfs_quota_us) and v2 (cpu.max), as the kernel's documentation
// "Control Group v2" and "CFS Bandwidth Control" define them.
#include "cpu/topology.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

namespace fourfold {
namespace {

constexpr int kMaxCpu = 1 << 16;

std::optional<std::string> read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<double> read_number(const std::string& path) {
  std::ifstream file(path);
  double value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

bool listed(std::string_view commas, std::string_view word) {
  while (!commas.empty()) {
    const auto end = std::min(commas.find(','), commas.size());
    if (commas.substr(0, end) == word) return true;
    commas.remove_prefix(std::min(end + 1, commas.size()));
  }
  return false;
}

// "32K", "1024K", "8M" or plain bytes.
std::size_t parse_size(const std::string& text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return 0;
  const char unit = end == text.data() + text.size() ? ' ' : *end;
  return unit == 'K' ? value << 10 : unit == 'M' ? value << 20 : unit == 'G' ? value << 30 : value;
}

struct Hierarchy {
  std::string mount_root;   // the group that is mounted
  std::string mount_point;  // where
  std::string path;         // the process's group
};

// The quota of one group's folder, in processors.
double group_quota(const std::string& folder, bool unified) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  double quota = 0, period = 0;
  if (unified) {
    const auto line = read_line(folder + "/cpu.max");  // "max 100000" or "150000 100000"
    if (!line || !(std::istringstream(*line) >> quota >> period)) return kNone;
  } else {
    const auto q = read_number(folder + "/cpu.cfs_quota_us"), p = read_number(folder + "/cpu.cfs_period_us");
    if (!q || !p) return kNone;
    quota = *q, period = *p;  // a quota of -1 is none
  }
  return quota > 0 && period > 0 ? quota / period : kNone;
}

// The least quota of the process's group and its parents, as far as they are mounted.
double hierarchy_quota(const std::string& root, const Hierarchy& h, bool unified) {
  std::string path = h.path;
  if (h.mount_root != "/") {  // a container sees only its own part of the tree
    const bool below = path.compare(0, h.mount_root.size(), h.mount_root) == 0;
    path = below ? path.substr(h.mount_root.size()) : "";
  }
  if (path.find("..") != path.npos) path.clear();  // a group outside this namespace: only the mount itself is visible
  double least = std::numeric_limits<double>::infinity();
  while (true) {
    least = std::min(least, group_quota(root + h.mount_point + path, unified));
    if (path.empty() || path == "/") return least;
    path.resize(path.rfind('/') == path.npos ? 0 : path.rfind('/'));
  }
}

double cgroup_quota(const std::string& root) {
  std::optional<Hierarchy> unified, cpu;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    // id parent device ROOT POINT options... - TYPE source SUPER
    const auto dash = line.find(" - ");
    if (dash == line.npos) continue;
    std::istringstream head(line), tail(line.substr(dash + 3));
    std::string skip, mount_root, point, type, source, super;
    head >> skip >> skip >> skip >> mount_root >> point;
    tail >> type >> source >> super;
    if (type == "cgroup2" && !unified) unified = Hierarchy{mount_root, point, ""};
    if (type == "cgroup" && !cpu && listed(super, "cpu")) cpu = Hierarchy{mount_root, point, ""};
  }
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty() && unified) unified->path = path;
    if (cpu && listed(controllers, "cpu")) cpu->path = path;
  }
  double least = std::numeric_limits<double>::infinity();
  if (unified) least = std::min(least, hierarchy_quota(root, *unified, true));
  if (cpu) least = std::min(least, hierarchy_quota(root, *cpu, false));
  return least;
}

int count_cores(const std::string& cpus, const std::vector<int>& allowed) {
  std::set<std::string> cores;
  for (const int cpu : allowed) {
    const std::string folder = cpus + "/cpu" + std::to_string(cpu) + "/topology/";
    auto siblings = read_line(folder + "core_cpus_list");
    if (!siblings) siblings = read_line(folder + "thread_siblings_list");  // its name before Linux 5.3
    cores.insert(siblings.value_or(std::to_string(cpu)));
  }
  return std::max<int>(1, static_cast<int>(cores.size()));
}

void read_caches(const std::string& folder, Topology& t) {
  for (int index = 0; index < 16; ++index) {
    const std::string cache = folder + "/index" + std::to_string(index);
    const auto level = read_line(cache + "/level"), type = read_line(cache + "/type"),
               size = read_line(cache + "/size");
    if (!level || !type || !size) return;
    if (*type == "Instruction") continue;
    if (*level == "1") t.l1d = parse_size(*size);
    if (*level == "2") t.l2 = parse_size(*size);
    if (*level == "3") t.l3 = parse_size(*size);
  }
}

void read_cpuinfo(const std::string& path, Topology& t) {
  constexpr std::string_view kOfInterest[] = {"sse4_2",      "avx",         "f16c",     "fma",      "avx2",
                                              "avx_vnni",    "avx512f",     "avx512bw", "avx512vl", "avx512_vnni",
                                              "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16", "asimd",
                                              "asimddp",     "i8mm",        "bf16",     "sve",      "sve2"};
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string_view key = trim(std::string_view(line).substr(0, colon));
    const std::string_view value = trim(std::string_view(line).substr(colon + 1));
    if (key == "model name" && t.cpu_model.empty()) t.cpu_model = value;
    if ((key != "flags" && key != "Features") || !t.isa.empty()) continue;
    std::istringstream words{std::string(value)};
    const std::set<std::string> present(std::istream_iterator<std::string>(words),
                                        std::istream_iterator<std::string>{});
    for (const auto feature : kOfInterest) {
      if (present.count(std::string(feature)) != 0) t.isa.append(t.isa.empty() ? "" : " ").append(feature);
    }
  }
}

std::vector<int> affinity_mask() {
  for (int capacity = 1024; capacity <= kMaxCpu; capacity *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(capacity), [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(capacity);
    if (!set || sched_getaffinity(0, bytes, set.get()) != 0) continue;  // EINVAL: the kernel's mask is longer
    std::vector<int> cpus;
    for (int cpu = 0; cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
    }
    return cpus;
  }
  return {};
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  const auto number = [&](int& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || value < 0 || value >= kMaxCpu) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
  };
  for (text = trim(text); !text.empty(); text.remove_prefix(1)) {
    int first = 0;
    if (!number(first)) break;
    int last = first;
    if (!text.empty() && text[0] == '-') {
      text.remove_prefix(1);
      if (!number(last)) break;
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (text.empty() || text[0] != ',') break;
  }
  return cpus;
}

int Topology::budget() const {
  const double cpus = static_cast<double>(std::max<std::size_t>(1, allowed.size()));
  return std::max(1, static_cast<int>(std::ceil(std::min(cpus, quota))));
}

Topology read_topology(const std::string& root, std::vector<int> allowed) {
  Topology t;
  const std::string cpus = root + "/sys/devices/system/cpu";
  const auto online = parse_cpu_list(read_line(cpus + "/online").value_or(""));
  if (allowed.empty()) allowed = online.empty() ? std::vector<int>{0} : online;
  t.logical = static_cast<int>(std::max(online.size(), allowed.size()));
  t.allowed = std::move(allowed);
  t.physical_allowed = count_cores(cpus, t.allowed);
  t.quota = cgroup_quota(root);
  read_caches(cpus + "/cpu" + std::to_string(t.allowed.front()) + "/cache", t);
  read_cpuinfo(root + "/proc/cpuinfo", t);
  return t;
}

Topology read_topology() { return read_topology("", affinity_mask()); }

int default_threads(const Topology& topology) { return std::min(topology.physical_allowed, topology.budget()); }

int default_threads() { return default_threads(read_topology()); }

}  // namespace fourfold
