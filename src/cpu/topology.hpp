// What this process may use of the machine's processor: cores, caches, time.
//
// A process may see 64 processors and own one of them: an affinity mask (taskset, cpusets) limits which, a cgroup quota
// limits for how long. Both count, on version 1 and version 2 hierarchies, along the whole path of the process's group.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold {

struct Topology {
  int logical = 1;           // processors that are online
  std::vector<int> allowed;  // the processors in the affinity mask, ascending; at least one
  int physical_allowed = 1;  // cores behind `allowed`: hardware threads of one core count once
  double quota = std::numeric_limits<double>::infinity();  // processors' worth of time a cgroup grants
  std::size_t l1d = 0, l2 = 0, l3 = 0;                     // bytes of one instance, 0 when unknown
  std::string cpu_model;                                   // as the kernel names it, empty when unknown
  std::string isa;  // the vector extensions of interest that are present, by the kernel's names, space separated

  // Processors whose time is really available: more running threads than this must take turns.
  int budget() const;
};

// Reads /proc and /sys below `root` for a process that may run on `allowed`. Whatever is missing or unreadable there
// leaves its field at the default: a description of the machine never fails.
Topology read_topology(const std::string& root, std::vector<int> allowed);

// The machine itself, with the calling thread's affinity mask.
Topology read_topology();

// Physical cores in the mask, no more than the quota rounded up, at least 1.
int default_threads(const Topology& topology);
int default_threads();

// The processors of a kernel list such as "0-3,8,10-11"; what does not parse is left out.
std::vector<int> parse_cpu_list(std::string_view text);

}  // namespace fourfold
