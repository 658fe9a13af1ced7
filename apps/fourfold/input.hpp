// Where text and ids come from: the command line, a file, or stdin.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options.hpp"

namespace fourfold::cli {

// -f FILE and the positional TEXT (or "-").
struct TextSource {
  std::optional<std::string> text, file;
  bool given() const { return text.has_value() || file.has_value(); }
  // Every byte. Nothing or two things given is misuse; the message starts with the verb.
  std::string read(const std::string& verb) const;
};

// --ids 1,2,3 and --ids-file FILE.
struct IdSource {
  std::optional<std::string> list, file;
  bool given() const { return list.has_value() || file.has_value(); }
  std::vector<int> read(const std::string& verb) const;
};
void declare_ids(Options& options, IdSource& ids);

// The model path, or misuse.
const std::string& required_model(const std::string& path, const std::string& verb);

}  // namespace fourfold::cli
