// What `fourfold new` writes: for each kind a header, its tests and its benchmark. @Name@ is the type's name, @file@
// the files' stem.
#pragma once

#include <string_view>

namespace fourfold::cli {

struct NewKind {
  const char* name;
  const char* what;
  std::string_view header, test, bench;
};
extern const NewKind kNewKinds[4];
extern const std::string_view kNewProject;  // CMakeLists.txt

}  // namespace fourfold::cli
