// Options: the flags of one verb, bound to variables. A number is parsed whole and checked against its range, so that
// "1e9", "5x" or "nan" never become a value; whatever is wrong ends the program with code 2 and names the flag.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace fourfold::cli {

using Action = std::function<int()>;  // does a verb's work; the exit code

class Options {
 public:
  explicit Options(CLI::App& app) : app_(app) {}

  // `names`: "-m,--model MODEL", the last word being what help calls the value; a name without a dash is positional.
  void text(const std::string& names, std::string& value, const std::string& help);
  void text(const std::string& names, std::optional<std::string>& value, const std::string& help);
  void texts(const std::string& names, std::vector<std::string>& value, const std::string& help);
  void flag(const std::string& names, bool& value, const std::string& help);
  void on_off(const std::string& on, const std::string& off, std::optional<bool>& value, const std::string& help);
  void integer(const std::string& names, int& value, int lowest, int highest, const std::string& help);
  void integer(const std::string& names, std::int64_t& value, std::int64_t lowest, std::int64_t highest,
               const std::string& help);
  void real(const std::string& names, float& value, double lowest, double highest, const std::string& help);
  void real(const std::string& names, std::optional<double>& value, double lowest, double highest,
            const std::string& help);
  void choice(const std::string& names, std::string& value, std::initializer_list<const char*> accepted,
              const std::string& help);
  void integers(const std::string& names, std::vector<int>& value, int lowest, int highest, const std::string& help);
  // `take` gets the value and gives back what is wrong with it, or nothing.
  using Take = std::function<std::string(const std::string&)>;
  void taken(const std::string& names, Take take, const std::string& help);

  void group(const std::string& title) { group_ = title; }  // of the options that follow
  void examples(const std::string& lines);                  // shown after the help

 private:
  CLI::App& app_;
  std::string group_ = "Options";
};

// Parses a list such as "1,2,3"; also with spaces, line breaks or one pair of brackets, as `tokenize` prints it.
// `what` names the source in the error; its code is 2.
std::vector<int> parse_ids(std::string_view text, const std::string& what);

// Reads the command line and runs the verb it names; the exit code. Declared here, listed in main.cpp.
struct Verb {
  const char* name;
  const char* help;
  Action (*declare)(Options&);
};
int run_verb(int argc, char** argv, const std::vector<Verb>& verbs);

}  // namespace fourfold::cli
