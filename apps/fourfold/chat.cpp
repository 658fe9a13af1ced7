// chat: a conversation in the model's own template. What the caches already hold of it is never evaluated again.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "conversation.hpp"
#include "exit.hpp"
#include "figures.hpp"
#include "input.hpp"
#include "json_out.hpp"
#include "output.hpp"
#include "shared.hpp"
#include "signals.hpp"
#include "text/tokenizer.hpp"
#include "timings.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

constexpr const char* kHelp =
    "/system TEXT  set the system message (no TEXT: none)     /clear      forget the conversation\n"
    "/save FILE    keep the session                           /regen      answer again\n"
    "/load FILE    go on with a kept session                  /stats      figures of the last answer\n"
    "/exit         leave (also Ctrl-D)                        Ctrl-C      ends an answer\n"
    "A line that ends with \\ goes on in the next one; so does everything between two lines of \"\"\".";

struct ChatOptions {
  std::string model;
  Everywhere everywhere;
  Computing computing;
  GenerateOptions generate;
  std::string system;
  std::optional<std::string> prompt, source;
};

// Lines of stdin, joined into messages of kMostText bytes at most.
class Reader {
 public:
  bool prompting() const { return stdin_is_terminal() && stdout_is_terminal(); }
  // False at the end of the input.
  bool line(const char* prompt, std::string& text) {
    if (prompting()) {
      out().write(prompt);
      out().flush();
    }
    text.clear();
    for (char c; std::cin.get(c);) {
      if (c == '\n') return true;
      append(text, {&c, 1});
    }
    return !text.empty();
  }
  bool message(std::string& text) {
    std::string part;
    if (!line("> ", text)) return false;
    if (text == "\"\"\"") {
      for (text.clear(); line(". ", part) && part != "\"\"\"";) append(text, (text.empty() ? "" : "\n") + part);
      return true;
    }
    while (text.ends_with('\\')) {
      text.back() = '\n';
      if (!line(". ", part)) break;
      append(text, part);
    }
    return true;
  }

 private:
  static void append(std::string& text, std::string_view part) {
    if (text.size() + part.size() > kMostText) refuse_long_text("standard input");
    text += part;
  }
};

class Chat {
 public:
  Chat(ChatOptions options, const Model& model, Session session, Conversation conversation)
      : options_(std::move(options)),
        model_(model),
        session_(std::move(session)),
        conversation_(std::move(conversation)) {}

  int run();

 private:
  enum class Then { go_on, stop };
  Then command(const std::string& line);
  void save(const std::string& path);
  void restore(const std::string& path);
  Then say(const std::string& text);
  Then answer();
  std::vector<int> ids_of(const std::string& text) const;
  enum class Room { enough, none, leave };
  Room fit(const std::string& begun, std::vector<int>& ids);
  bool make_room(std::size_t tokens);
  Finish generate(const std::vector<int>& ids, std::string& text);

  ChatOptions options_;
  const Model& model_;
  Session session_;
  Conversation conversation_;
  Reader reader_;
  bool unanswered_ = false;  // some turn did not fit the context
  std::string stats_ = "nothing was answered yet";
};

std::vector<int> Chat::ids_of(const std::string& text) const {
  const bool bos = model_.tokenizer()->adds_bos() && !conversation_.starts_with_bos(text);
  return must(model_.tokenize(text, {bos, true}));
}

// Asks, or decides where nobody can be asked. False: the conversation ends.
bool Chat::make_room(std::size_t tokens) {
  const std::string full = "the conversation has " + grouped_by_three(static_cast<std::int64_t>(tokens)) +
                           " tokens, the context holds " + grouped_by_three(session_.context());
  char choice = 'd';
  if (!reader_.prompting()) {
    remark(full + ": the oldest turns are dropped");
  } else {
    remark(full);
    std::string line;
    if (!reader_.line("drop the oldest turns, clear the conversation, or stop? [D/c/s] ", line)) return false;
    if (!line.empty()) choice = static_cast<char>(std::tolower(static_cast<unsigned char>(line.front())));
  }
  if (choice == 's') return false;
  if (choice == 'c')
    while (conversation_.drop_oldest()) continue;
  return true;
}

// Ids of the conversation and of an answer begun, with room for more; drops what has to go.
Chat::Room Chat::fit(const std::string& begun, std::vector<int>& ids) {
  const auto context = static_cast<std::size_t>(session_.context());
  ids = ids_of(conversation_.rendered() + begun);
  if (ids.size() < context) return Room::enough;
  if (!begun.empty() && reader_.prompting()) out().write("\n");
  out().flush();
  if (!make_room(ids.size())) return Room::leave;
  ids = ids_of(conversation_.rendered() + begun);
  while (ids.size() > context * 3 / 4 && conversation_.drop_oldest()) ids = ids_of(conversation_.rendered() + begun);
  if (ids.size() < context) return Room::enough;
  report_error(
      "this turn alone has " + grouped_by_three(static_cast<std::int64_t>(ids.size())) + " tokens, the context holds " +
      grouped_by_three(session_.context()) +
      (begun.empty() ? ": it is left out (-c sets the context)" : ": the answer ends here (-c sets the context)"));
  unanswered_ = true;
  return Room::none;
}

Finish Chat::generate(const std::vector<int>& ids, std::string& text) {
  const auto held = session_.ids();
  const auto common = std::mismatch(held.begin(), held.end(), ids.begin(), ids.end()).first - held.begin();
  const int kept = std::min(static_cast<int>(common), static_cast<int>(ids.size()) - 1);
  must(session_.rewind(kept));

  const Interruptible guard;
  options_.generate.cancel = &interrupted();
  Timings timings;
  const Stopwatch watch;
  const auto fresh = std::span(ids).subspan(static_cast<std::size_t>(kept));
  Generation generation = session_.generate(fresh, options_.generate);
  timings.prefill_tokens = static_cast<int>(fresh.size());
  timings.prefill_s = watch.seconds();
  while (const auto piece = generation.next()) {
    if (timings.first_token_s == 0) timings.first_token_s = watch.seconds();
    text += *piece;
    if (!options_.everywhere.json) out().write(*piece);
    out().flush();
  }
  if (generation.finish() == Finish::error) must(generation.error());
  timings.decode_s = watch.seconds() - timings.prefill_s;
  timings.decode_tokens = std::max(0, session_.position() - static_cast<int>(ids.size()));
  compare_with_limits(timings, session_, options_.everywhere, options_.computing.f32);
  stats_ = closing_line(timings, stated(generation.finish(), session_)) + " · " +
           grouped_by_three(session_.position()) + " of " + grouped_by_three(session_.context()) + " positions, " +
           grouped_by_three(kept) + " reused";
  return generation.finish();
}

Chat::Then Chat::answer() {
  std::string text;
  std::vector<int> ids;
  Finish finish = Finish::context;
  Room room = Room::enough;
  while (finish == Finish::context && (room = fit(text, ids)) == Room::enough) finish = generate(ids, text);
  if (text.empty() && room != Room::enough) {
    conversation_.take_back("user");
    return room == Room::leave ? Then::stop : Then::go_on;
  }
  conversation_.add("assistant", text);
  out().write(options_.everywhere.json ? dumped({{"role", "assistant"}, {"content", text}, {"finish", name(finish)}})
                                       : "\n");
  out().flush();
  return room == Room::leave ? Then::stop : Then::go_on;
}

Chat::Then Chat::say(const std::string& text) {
  conversation_.add("user", text);
  return answer();
}

// The caches go to FILE, the messages to FILE.json.
void Chat::save(const std::string& path) {
  if (const status s = session_.save(path); !s.ok()) return report_error(s.message());
  try {
    OutputFile messages(path + ".json");
    messages.write(conversation_.json());
    messages.commit();
    remark("kept in " + path + " and " + path + ".json");
  } catch (const Exit& exit) {
    report_error(exit.message);
  }
}

void Chat::restore(const std::string& path) {
  try {
    const std::string messages = read_input(path + ".json");
    if (const status s = session_.restore(path); !s.ok()) return report_error(s.message());
    if (const std::string wrong = conversation_.read_json(messages); !wrong.empty())
      return report_error(path + ".json: " + wrong);
    remark(std::to_string(conversation_.messages().size()) + " messages, " + std::to_string(session_.position()) +
           " positions");
  } catch (const Exit& exit) {
    report_error(exit.message);
  }
}

Chat::Then Chat::command(const std::string& line) {
  const auto space = line.find(' ');
  const std::string verb = line.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
  if (verb == "/exit" || verb == "/quit") return Then::stop;
  if (verb == "/help") {
    remark(kHelp);
  } else if (verb == "/clear") {
    conversation_.clear();
  } else if (verb == "/system") {
    conversation_.set_system(rest);
  } else if (verb == "/stats") {
    remark(stats_);
  } else if (verb == "/regen") {
    conversation_.take_back("assistant");
    if (!conversation_.messages().empty() && conversation_.messages().back().role == "user") return answer();
    report_error("there is no answer to give again");
  } else if ((verb == "/save" || verb == "/load") && rest.empty()) {
    report_error(verb + " needs a file's name");
  } else if (verb == "/save") {
    save(rest);
  } else if (verb == "/load") {
    restore(rest);
  } else {
    report_error("'" + one_line(verb) + "' is no command (/help lists them)");
  }
  return Then::go_on;
}

int Chat::run() {
  Then then = options_.prompt ? say(*options_.prompt) : Then::go_on;
  std::string text;
  while (then == Then::go_on && reader_.message(text))
    if (!text.empty()) then = text.starts_with('/') ? command(text) : say(text);
  if (reader_.prompting() && then == Then::go_on) out().write("\n");
  return unanswered_ && !reader_.prompting() ? kFailed : kGood;
}

int run_chat(const ChatOptions& options) {
  const Model model = must(load(required_model(options.model, "chat")));
  if (!model.tokenizer().ok()) must(model.tokenizer().error());
  const Tokenizer& tokenizer = *model.tokenizer();
  const std::string source = options.source ? read_input(*options.source) : must(model.chat_template());
  const auto text_of = [&](std::optional<int> id) { return id ? tokenizer.piece(*id, true) : std::string{}; };
  Conversation conversation(source, text_of(tokenizer.bos()), text_of(tokenizer.eos()));
  conversation.set_system(options.system);
  Session session = open_session(model, session_options(options.everywhere, options.computing));
  if (stdin_is_terminal() && stderr_is_terminal())
    remark(dim(session.executor() + ", context " + grouped_by_three(session.context()) + " · /help lists commands"));
  return Chat(options, model, std::move(session), std::move(conversation)).run();
}

}  // namespace

Action declare_chat(Options& options) {
  auto verb = std::make_shared<ChatOptions>();
  declare_model(options, verb->model);
  options.text("-p,--prompt TEXT", verb->prompt, "the first message");
  options.text("--system,--system-prompt TEXT", verb->system, "the system message");
  options.text("--template FILE", verb->source, "a Jinja template, instead of the model's own");
  options.integer("-n,--predict,--n-predict N", verb->generate.max_tokens, -1, std::numeric_limits<int>::max(),
                  "most tokens of an answer; -1 (default): until the model ends it");
  declare_computing(options, verb->computing);
  declare_sampling(options, verb->generate.sampling);
  declare_everywhere(options, verb->everywhere);
  options.examples(
      "  fourfold chat -m model.gguf\n"
      "  fourfold chat -m model.gguf --system \"Answer in one word.\" --temp 0\n"
      "  printf 'Hi.\\nAnd again?\\n' | fourfold chat -m model.gguf");
  return [verb] { return run_chat(*verb); };
}

}  // namespace fourfold::cli
