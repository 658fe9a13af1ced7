// new: a folder with a new variant, its law and oracle tests, its benchmark and a CMake project, ready to fill in.
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "exit.hpp"
#include "figures.hpp"
#include "json_out.hpp"
#include "new_files.hpp"
#include "output.hpp"
#include "shared.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

using Words = std::vector<std::pair<std::string, std::string>>;

struct New {
  Everywhere everywhere;
  std::string kind, name, folder;
  int run() const;
};

// Attention's tests serve walks and scores; what differs between them.
constexpr std::string_view kWalkLaw = R"(// tiles(queries) ascend, do not overlap, and hold every visible key.
TEST(@Name@, TilesHoldEveryVisibleKey) {
  const @Name@ walk;
  for (int first = -3; first < 200; first += 7)
    for (int count = 1; count < 9; ++count) {
      std::vector<bool> held(220);
      int end = 0;
      for (const Range r : walk.tiles(Range{first, first + count})) {
        ASSERT_GE(r.first, end);
        ASSERT_GT(r.end, r.first);
        end = r.end;
        for (int key = r.first; key < r.end && key < 220; ++key) held[key] = true;
      }
      for (int query = first; query < first + count; ++query)
        for (int key = 0; key < 220; ++key) ASSERT_TRUE(held[key] || !walk.visible(query, key)) << query << ' ' << key;
    }
}
)";
constexpr std::string_view kScoreLaw = R"(// Pure, finite where its input is, and the same in float and double.
TEST(@Name@, IsAFunctionOfItsInputs) {
  const @Name@ score;
  for (float s = -300; s <= 300; s += 0.37f) {
    ASSERT_TRUE(std::isfinite(score(s, 5, 3)));
    ASSERT_EQ(score(s, 5, 3), score(s, 5, 3));
    ASSERT_NEAR(score(s, 5, 3), score(double(s), 5, 3), 1e-4 * (1 + std::abs(double(s))));
  }
}
)";

std::string filled(std::string_view text, const Words& words) {
  std::string out(text);
  for (const auto& [mark, word] : words)
    for (std::size_t at = 0; (at = out.find(mark, at)) != std::string::npos; at += word.size())
      out.replace(at, mark.size(), word);
  return out;
}

// "SlidingWindow" -> "sliding_window"
std::string file_stem(const std::string& name) {
  std::string stem;
  for (const char c : name) {
    if (std::isupper(static_cast<unsigned char>(c)) && !stem.empty() && stem.back() != '_') stem += '_';
    stem += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return stem;
}

bool is_type_name(const std::string& name) {
  if (name.empty() || !std::isupper(static_cast<unsigned char>(name[0])) || name.size() > 64) return false;
  for (const char c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  return true;
}

void write_new(const std::filesystem::path& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "wxb");  // never over a file that is there
  if (file == nullptr) fail(path.string() + ": " + std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written) fail(path.string() + ": " + std::strerror(errno));
}

int New::run() const {
  if (kind.empty() || name.empty()) misuse("new: which variant? accepted: fourfold new walk|score|gate|rule NAME");
  if (!is_type_name(name))
    misuse("new: NAME '" + one_line(name) +
           "' must be a C++ type's name: a capital letter, then letters, digits and _");
  const NewKind* chosen = nullptr;
  for (const NewKind& each : kNewKinds)
    if (kind == each.name) chosen = &each;
  if (chosen == nullptr) misuse("new: '" + one_line(kind) + "' is no kind; accepted: walk, score, gate, rule");

  const std::string stem = file_stem(name);
  const bool walk = kind == "walk";
  const Words words = {
      {"@Law@", std::string(walk ? kWalkLaw : kScoreLaw)},
      {"@Parts@", walk ? "@Name@{}, Scale{0.1f}" : "Full{}, Scale{0.1f} | @Name@{}"},
      {"@Visible@", walk ? "@Name@{}.visible(query, key)" : "true"},
      {"@Score@", walk ? "double(0.1f) * dot" : "@Name@{}(double(0.1f) * dot, query, key)"},
      {"@Name@", name},
      {"@file@", stem},
  };
  const std::filesystem::path to = folder.empty() ? stem : folder;
  std::error_code error;
  std::filesystem::create_directories(to, error);
  if (error) fail(to.string() + ": " + error.message());
  auto json = nlohmann::ordered_json::array();
  for (const auto& [file, text] : {std::pair(stem + ".hpp", chosen->header),
                                   {stem + "_test.cpp", chosen->test},
                                   {stem + "_bench.cpp", chosen->bench},
                                   {std::string("CMakeLists.txt"), kNewProject}}) {
    write_new(to / file, filled(text, words));
    json.push_back((to / file).string());
    if (!everywhere.json) out().write((to / file).string() + "\n");
  }
  if (everywhere.json) out().write(dumped(json));
  return kGood;
}

}  // namespace

Action declare_new(Options& options) {
  auto verb = std::make_shared<New>();
  options.text("KIND", verb->kind, "walk, score, gate (a scan's rule) or rule (of routing)");
  options.text("NAME", verb->name, "the new type's name, such as SlidingWindow");
  options.text("-o,--output FOLDER", verb->folder, "where to write (default: sliding_window)");
  declare_everywhere(options, verb->everywhere);
  options.examples(
      "  fourfold new gate ForgetfulDelta\n"
      "  fourfold new walk Dilated -o variants/dilated");
  return [verb] { return verb->run(); };
}

}  // namespace fourfold::cli
