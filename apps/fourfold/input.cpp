#include "input.hpp"

#include "exit.hpp"
#include "output.hpp"

namespace fourfold::cli {

std::string TextSource::read(const std::string& verb) const {
  if (text && file) misuse(verb + ": two texts are given; accepted: TEXT, -f FILE or - (stdin)");
  if (file) return read_input(*file);
  if (text) return *text == "-" ? read_input("-") : *text;
  misuse(verb + ": which text? accepted: TEXT, -f FILE or - (stdin)");
}

void declare_ids(Options& options, IdSource& ids) {
  options.text("--ids IDS", ids.list, "token ids: 1,2,3 (needs no vocabulary)");
  options.text("--ids-file FILE", ids.file, "token ids from a file, - for stdin");
}

std::vector<int> IdSource::read(const std::string& verb) const {
  if (list && file) misuse(verb + ": --ids and --ids-file exclude each other");
  if (list) return parse_ids(*list, "--ids");
  if (file) return parse_ids(read_input(*file), *file);
  misuse(verb + ": which ids? accepted: --ids 1,2,3 or --ids-file FILE");
}

const std::string& required_model(const std::string& path, const std::string& verb) {
  if (path.empty()) misuse(verb + ": which model? accepted: -m FILE.gguf or -m FOLDER");
  return path;
}

}  // namespace fourfold::cli
