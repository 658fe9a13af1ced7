// Values of the template language, with Python's types and rules.
//
// Everything is immutable once built, except objects (a namespace's attributes, a cycler's position). Text is UTF-8 and
// counted in code points. Every text, list and dict made while rendering is charged to a Budget as long as it lives, so
// a hostile template runs out of budget, not of memory or time.
#pragma once

#include <cstdint>
#include <fourfold/status.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/concat.hpp"

namespace fourfold::jinja {

// Thrown inside the engine, caught at its public functions. Line 0: a node on the way out fills in its own.
struct Failure {
  std::string message;
  Code code = Code::invalid_argument;
  int line = 0;
};

inline constexpr std::size_t kMaxBytes = std::size_t{24} << 20;  // alive at a time, output included
inline constexpr std::size_t kMaxSteps = 2'000'000;              // nodes evaluated, items visited, 64-byte pieces made
inline constexpr int kMaxNesting = 200;                          // of syntax, and of lists and dicts within each other

// Appends to a text that is being made; one that outgrows kMaxBytes is a Failure.
void append(std::string& out, std::string_view piece);
void require_room(std::size_t size, std::size_t more);

class Budget {
 public:
  void step(std::size_t n = 1);
  void take(std::size_t bytes);
  void give_back(std::size_t bytes) { bytes_ -= bytes; }

 private:
  std::size_t steps_ = 0;
  std::size_t bytes_ = 0;
};

// Bytes taken from a budget for a lifetime. No budget: a template's literals and the caller's context.
class Charge {
 public:
  Charge(Budget* budget, std::size_t bytes) : budget_(budget), bytes_(bytes) {
    if (budget_) budget_->take(bytes_);
  }
  ~Charge() {
    if (budget_) budget_->give_back(bytes_);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

 private:
  Budget* budget_;
  std::size_t bytes_;
};

class Value;
struct Text;
struct List;
struct Dict;
class Object;
using Values = std::vector<Value>;

struct Undefined {
  std::shared_ptr<const std::string> why;  // the message when it is used; none: an argument left out
};
struct None {};

class Value {
 public:
  Value() = default;  // undefined
  Value(bool value) : data_(value) {}
  Value(std::int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(None value) : data_(value) {}
  Value(std::shared_ptr<const Text> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<const List> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<const Dict> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<Object> value) : data_(std::move(value)) {}
  static Value undefined(std::string why);

  template <class T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return get<Undefined>(); }
  bool is_none() const { return get<None>(); }
  bool is_number() const { return get<bool>() || get<std::int64_t>() || get<double>(); }
  const Text* text() const { return pointer<const Text>(); }
  const List* list() const { return pointer<const List>(); }
  const Dict* dict() const { return pointer<const Dict>(); }
  Object* object() const { return pointer<Object>(); }
  std::shared_ptr<Object> shared_object() const { return object() ? *get<std::shared_ptr<Object>>() : nullptr; }

  std::optional<std::int64_t> integer() const;  // an int or a bool
  double number() const;                        // of an int, a bool or a float
  bool truth() const;
  int depth() const;         // 0 for a scalar, 1 + the deepest item for a container
  std::size_t size() const;  // steps to visit it: items of items counted each time they occur

 private:
  template <class T>
  T* pointer() const {
    const auto* held = get<std::shared_ptr<T>>();
    return held ? held->get() : nullptr;
  }

  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      data_;
};

struct Text {
  Text(std::string bytes, bool safe, Budget* budget);

  std::size_t length() const { return length_; }  // code points
  bool ascii() const { return length_ == bytes.size(); }

  const std::string bytes;
  const bool safe;  // marked as escaped already

 private:
  Charge charge_;
  std::size_t length_;
};

struct List {
  enum class Style { list, tuple, group, range, keys, values, items, iterator };
  List(Values items, Style style, Budget* budget);
  bool is_tuple() const { return style == Style::tuple || style == Style::group; }
  bool is_sequence() const { return style == Style::list || style == Style::range || is_tuple(); }

  const Values items;
  const Style style;
  const int depth;
  const std::size_t size;
  mutable bool exhausted = false;  // an iterator gives its items once

 private:
  Charge charge_;
};

struct HashValue {
  std::size_t operator()(const Value& value) const;
};
struct EqualValue {
  bool operator()(const Value& a, const Value& b) const;
};

// Keeps the order of insertion. A repeated key keeps its place and takes the last value.
struct Dict {
  using Entries = std::vector<std::pair<Value, Value>>;
  Dict(Entries pairs, Budget* budget);

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;

  Entries entries;
  int depth = 1;
  std::size_t size = 1;

 private:
  std::unordered_map<Value, std::size_t, HashValue, EqualValue> index_;
  Charge charge_;
};

struct Args {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;

  // Puts named arguments into their positions. `names` lists the parameters, separated by spaces: "old new count?" has
  // two that are required and one that is not; absent ones become undefined without a reason.
  void bind(std::string_view function, std::string_view names);
  const Value& operator[](std::size_t i) const { return positional[i]; }
  bool has(std::size_t i) const {
    const auto* absent = positional[i].get<Undefined>();
    return !absent || absent->why;
  }
};

// What is neither data nor text: functions, macros, loops, namespaces, cyclers, joiners.
class Object : public std::enable_shared_from_this<Object> {
 public:
  explicit Object(Budget* budget, std::size_t bytes = 256) : charge_(budget, bytes) {}
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  virtual std::string repr() const { return concat("<", type_name(), ">"); }
  virtual std::optional<Value> attribute(std::string_view) { return std::nullopt; }
  virtual bool callable() const { return false; }
  virtual Value call(Args args);
  virtual void release() {}  // drops references to values, so that cycles through this object end

 private:
  Charge charge_;
};

Value make_text(Budget* budget, std::string bytes, bool safe = false);
Value make_list(Budget* budget, Values items, List::Style style = List::Style::list);
Value make_dict(Budget* budget, Dict::Entries entries);

// Python's name of the type, as its error messages say it.
std::string type_name(const Value& value);

// Python's ==, <, in. Text and lists are compared item by item; an order between different types is a Failure.
bool equal(const Value& a, const Value& b);
int order(const Value& a, const Value& b);  // negative, 0 or positive; a NaN is neither less nor greater
bool hashable(const Value& value);

}  // namespace fourfold::jinja
