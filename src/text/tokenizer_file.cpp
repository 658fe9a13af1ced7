#include "text/tokenizer_file.hpp"

#include "formats/json_events.hpp"
#include "formats/message.hpp"

namespace fourfold {
namespace {

using Json = nlohmann::json;

class Reader : public JsonEvents {
 public:
  explicit Reader(TokenizerFile& file) : file_(file) {}

  bool null() override { return value(Json()); }
  bool boolean(bool v) override { return value(v); }
  bool integer(std::int64_t v) override { return value(v); }
  bool unsigned_integer(std::uint64_t v) override {
    if (list_ != List::vocabulary) return value(v);
    if (v > 0x7FFFFFFF)
      return fail("token " + quote(key_) + " has the id " + std::to_string(v) + "; expected less than 2^31");
    file_.vocabulary.emplace_back(std::move(key_), static_cast<std::int64_t>(v));
    return true;
  }
  bool number(double v, std::string_view) override { return value(v); }
  bool string(std::string& v) override { return list_ == List::merges ? merge_part(v) : value(std::move(v)); }
  bool begin_object() override {
    if (list_ != List::none) return wrong_value();
    if (in_model() && key_ == "vocab") return open_list(List::vocabulary);
    return open(Json::object());
  }
  bool key(std::string& name) override {
    key_ = std::move(name);
    if (list_ != List::none) return true;
    if (open_.back()->contains(key_)) return fail("key " + quote(key_) + " is there twice");
    return true;
  }
  bool begin_array() override {
    if (list_ == List::merges && !in_pair_) {
      in_pair_ = true;
      pair_.clear();
      return true;
    }
    if (list_ != List::none) return wrong_value();
    if (in_model() && key_ == "merges") return open_list(List::merges);
    return open(Json::array());
  }
  bool end_object() override { return close(); }
  bool end_array() override {
    if (!in_pair_) return close();
    in_pair_ = false;
    if (pair_.size() != 2)
      return fail("merge " + std::to_string(file_.merges.size()) + " has " + std::to_string(pair_.size()) +
                  " parts; expected 2");
    file_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
    return true;
  }

 private:
  enum class List { none, vocabulary, merges };

  bool in_model() const {
    return open_.size() == 2 && open_[0]->contains("model") && &(*open_[0])["model"] == open_[1];
  }

  bool wrong_value() {
    return fail(list_ == List::merges ? "a merge that is neither a string nor two strings"
                                      : "token " + quote(key_) + " has no id of 0 or more");
  }

  bool open_list(List list) {
    list_ = list;
    (*open_.back())[key_] = true;  // so that the key counts as seen
    return true;
  }

  // Puts a value where it belongs and says where that is.
  Json* place(Json v) {
    if (open_.empty()) return &(file_.tree = std::move(v));
    Json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(v));
    parent.push_back(std::move(v));
    return &parent.back();
  }

  bool value(Json v) {
    if (list_ != List::none) return wrong_value();
    place(std::move(v));
    return true;
  }

  bool open(Json v) {
    open_.push_back(place(std::move(v)));
    return true;
  }

  bool close() {
    if (list_ != List::none)
      list_ = List::none;
    else
      open_.pop_back();
    return true;
  }

  bool merge_part(std::string& text) {
    if (in_pair_) {
      pair_.push_back(std::move(text));
      return pair_.size() <= 2 || fail("merge " + std::to_string(file_.merges.size()) + " has more than 2 parts");
    }
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      return fail("merge " + quote(text) + " is not two tokens with a space between them");
    file_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    return true;
  }

  TokenizerFile& file_;
  std::vector<Json*> open_;  // objects and arrays of the tree that have begun; a parent does not move meanwhile
  std::string key_;
  List list_ = List::none;
  bool in_pair_ = false;
  std::vector<std::string> pair_;
};

}  // namespace

result<TokenizerFile> read_tokenizer_file(std::string_view text) {
  TokenizerFile file;
  Reader reader(file);
  FOURFOLD_TRY(parse_json(text, reader));
  if (!file.tree.is_object()) return status(Code::malformed, "no JSON object");
  return file;
}

}  // namespace fourfold
