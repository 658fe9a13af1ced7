// Options that several verbs share, and opening what they name.
#pragma once

#include <string>

#include "options.hpp"

namespace fourfold::cli {

// Accepted by every verb, used by those that compute.
struct Everywhere {
  std::string executor = "team";
  int threads = 0;  // 0: the physical cores this process may use
  bool json = false;
};
void declare_everywhere(Options& options, Everywhere& everywhere);

void declare_model(Options& options, std::string& path);

}  // namespace fourfold::cli
