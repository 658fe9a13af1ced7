#include "options.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <type_traits>
#include <utility>

#include "exit.hpp"
#include "figures.hpp"
#include "output.hpp"

namespace fourfold::cli {
namespace {

constexpr std::size_t kHelpWidth = 80, kHelpColumn = 30;

// Breaks text into lines that fit beside the column of names; words stay whole.
std::string wrapped(const std::string& text, std::size_t column) {
  std::string out;
  std::size_t width = column;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::size_t word = end - at;
    if (width > column && width + 1 + word > kHelpWidth) {
      out += "\n" + std::string(column, ' ');
      width = column;
    } else if (width > column) {
      out += ' ';
      ++width;
    }
    out.append(text, at, word);
    width += word;
    at = end + 1;
  }
  return out;
}

class Help : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string left = "  " + make_option_name(option, is_positional);
    if (!is_positional && !option->get_type_name().empty()) left += " " + option->get_type_name();
    left += left.size() + 2 > kHelpColumn ? "\n" + std::string(kHelpColumn, ' ')
                                          : std::string(kHelpColumn - left.size(), ' ');
    return left + wrapped(option->get_description(), kHelpColumn) + "\n";
  }
  std::string make_usage(const CLI::App* app, std::string) const override {
    if (app->get_parent() == nullptr) return "usage: fourfold VERB [options]\n";
    std::string line = "usage: fourfold " + app->get_name() + " [options]";
    for (const CLI::Option* option : app->get_options([](const CLI::Option* o) { return o->get_positional(); }))
      line += " [" + make_option_name(option, true) + "]";
    return line + "\n";
  }
};

template <class T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A fixed-point number: digits with an optional sign and fraction, nothing else.
std::optional<double> parse_real(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string shown(const std::string& text) { return "'" + one_line(text) + "'"; }

std::string plain(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// Both give back what is wrong with the text, or set the value.
template <class T>
std::string whole(const std::string& text, T lowest, T highest, T& value) {
  const auto parsed = parse<T>(text);
  if (!parsed || *parsed < lowest || *parsed > highest)
    return shown(text) + " is not a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest);
  value = *parsed;
  return {};
}

template <class T>
std::string real_in(const std::string& text, double lowest, double highest, T& value) {
  const auto parsed = parse_real(text);
  if (!parsed || *parsed < lowest || *parsed > highest)
    return shown(text) + " is not a number from " + plain(lowest) + " to " + plain(highest);
  value = static_cast<std::conditional_t<std::is_same_v<T, float>, float, double>>(*parsed);
  return {};
}

std::string with_slashes(std::string names) {
  std::replace(names.begin(), names.end(), ',', '/');
  return names;
}

// CLI11 puts two empty lines between groups of options.
std::string without_double_gaps(std::string text) {
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

// llama.cpp spells some flags with one dash and several letters.
std::string long_form(const std::string& argument) {
  static const std::map<std::string, std::string> spelled = {
      {"-ctk", "--cache"}, {"-ctv", "--cache-type-v"}, {"-cmoe", "--cpu-moe"}, {"-ncmoe", "--n-cpu-moe"}};
  const auto found = spelled.find(argument);
  return found == spelled.end() ? argument : found->second;
}

// CLI11's wording, as one line that names the flag.
std::string explained(const CLI::App& app, const CLI::Error& error) {
  std::string message = error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const auto rest = app.get_subcommands().empty() ? app.remaining() : app.get_subcommands().front()->remaining();
    return rest.empty() ? message : shown(rest.front()) + " is not understood";
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return "which verb?";
  return message;
}

}  // namespace

void Options::taken(const std::string& names, Take take, const std::string& help) {
  const auto space = names.find(' ');
  std::string flag = names.substr(0, space);
  CLI::Option* option = app_.add_option_function<std::string>(
      flag,
      [flag = with_slashes(flag), take = std::move(take)](const std::string& text) {
        if (const std::string wrong = take(text); !wrong.empty()) throw CLI::ValidationError(flag + ": " + wrong);
      },
      help);
  option->type_name(space == std::string::npos ? "" : names.substr(space + 1))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->group(group_);
}

void Options::text(const std::string& names, std::string& value, const std::string& help) {
  taken(
      names, [&value](const std::string& text) { return value = text, ""; }, help);
}

void Options::text(const std::string& names, std::optional<std::string>& value, const std::string& help) {
  taken(
      names, [&value](const std::string& text) { return value = text, ""; }, help);
}

void Options::texts(const std::string& names, std::vector<std::string>& value, const std::string& help) {
  const auto space = names.find(' ');
  app_.add_option(names.substr(0, space), value, help)
      ->type_name(names.substr(space + 1))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->group(group_);
}

void Options::flag(const std::string& names, bool& value, const std::string& help) {
  app_.add_flag_callback(
          names, [&value] { value = true; }, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->group(group_);
}

void Options::on_off(const std::string& on, const std::string& off, std::optional<bool>& value,
                     const std::string& help) {
  bool wanted = true;
  for (const std::string& name : {on, off}) {
    app_.add_flag_callback(
            name, [&value, wanted] { value = wanted; }, wanted ? help : "the opposite")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->group(group_);
    wanted = false;
  }
}

void Options::integer(const std::string& names, int& value, int lowest, int highest, const std::string& help) {
  taken(
      names, [&value, lowest, highest](const std::string& text) { return whole(text, lowest, highest, value); }, help);
}

void Options::integer(const std::string& names, std::int64_t& value, std::int64_t lowest, std::int64_t highest,
                      const std::string& help) {
  taken(
      names, [&value, lowest, highest](const std::string& text) { return whole(text, lowest, highest, value); }, help);
}

void Options::real(const std::string& names, float& value, double lowest, double highest, const std::string& help) {
  const auto take = [&value, lowest, highest](const std::string& text) {
    return real_in(text, lowest, highest, value);
  };
  taken(names, take, help);
}

void Options::real(const std::string& names, std::optional<double>& value, double lowest, double highest,
                   const std::string& help) {
  const auto take = [&value, lowest, highest](const std::string& text) {
    return real_in(text, lowest, highest, value);
  };
  taken(names, take, help);
}

void Options::choice(const std::string& names, std::string& value, std::initializer_list<const char*> accepted,
                     const std::string& help) {
  const std::vector<std::string> words(accepted.begin(), accepted.end());
  const auto take = [&value, words](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) == words.end())
      return shown(text) + " is not one of " + joined(words, ", ");
    value = text;
    return std::string{};
  };
  taken(names, take, help);
}

void Options::integers(const std::string& names, std::vector<int>& value, int lowest, int highest,
                       const std::string& help) {
  const auto take = [&value, lowest, highest](const std::string& text) {
    value.clear();
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      if (std::string wrong = whole(text.substr(at, end - at), lowest, highest, value.emplace_back()); !wrong.empty())
        return wrong;
      at = end + 1;
    }
    return std::string{};
  };
  taken(names, take, help);
}

void Options::examples(const std::string& lines) { app_.footer("examples:\n" + lines); }

std::vector<int> parse_ids(std::string_view text, const std::string& what) {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  const auto trim = [&](std::string_view part) {
    while (!part.empty() && is_space(part.front())) part.remove_prefix(1);
    while (!part.empty() && is_space(part.back())) part.remove_suffix(1);
    return part;
  };
  text = trim(text);
  if (text.starts_with('[') && text.ends_with(']') && text.size() >= 2) text = trim(text.substr(1, text.size() - 2));
  std::vector<int> ids;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(", \n\r\t"), text.size());
    const auto id = parse<int>(text.substr(0, end));
    if (!id || *id < 0)
      misuse(what + ": " + shown(std::string(text.substr(0, end))) + " is not a token id; accepted: 1,2,3");
    ids.push_back(*id);
    text = trim(text.substr(end));
    if (!text.starts_with(',')) continue;
    text = trim(text.substr(1));
    if (text.empty()) misuse(what + ": ends with a comma; accepted: 1,2,3");
  }
  return ids;
}

int run_verb(int argc, char** argv, const std::vector<Verb>& verbs) {
  CLI::App app{"Runs language models, and says which limit binds.", "fourfold"};
  app.formatter(std::make_shared<Help>());
  app.set_version_flag("--version", std::string("fourfold ") + FOURFOLD_VERSION);
  app.require_subcommand(1);
  app.footer("`fourfold VERB --help` shows a verb's options and examples.");
  std::string verb;
  std::map<std::string, Action> actions;
  for (const Verb& v : verbs) {
    CLI::App* sub = app.add_subcommand(v.name, v.help);
    sub->group("Verbs");
    Options options{*sub};
    actions[v.name] = v.declare(options);
    sub->final_callback([&verb, name = v.name] { verb = name; });
  }
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) arguments.push_back(long_form(argv[i]));
  const std::string hint =
      " (fourfold " + (argc > 1 && actions.count(argv[1]) ? argv[1] + std::string(" ") : "") + "--help)";
  if (argc == 1) arguments.push_back("--help");
  if (argc > 1 && argv[1][0] != '-' && actions.count(argv[1]) == 0) misuse(shown(argv[1]) + " is no verb" + hint);
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    out().write(without_double_gaps(chosen.empty() ? app.help() : chosen.front()->help()));
    return kGood;
  } catch (const CLI::CallForVersion& version) {
    out().write(version.what() + std::string("\n"));
    return kGood;
  } catch (const CLI::ParseError& error) {
    misuse(explained(app, error) + hint);
  }
  try {
    return actions[verb]();
  } catch (Exit& exit) {
    if (exit.code == kUsage) exit.message += hint;
    throw;
  }
}

}  // namespace fourfold::cli
