// Reading JSON as a stream of events: no tree is built, nesting is kept on the heap and limited.
#pragma once

#include <cstdint>
#include <fourfold/status.hpp>
#include <string>
#include <string_view>

namespace fourfold {

// What a reader of one kind of JSON file overrides. Each event returns whether to go on; `return fail(...)` stops.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;

  virtual bool null() = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool integer(std::int64_t value) = 0;             // below 0
  virtual bool unsigned_integer(std::uint64_t value) = 0;   // 0 and above
  virtual bool number(double value, std::string_view) = 0;  // with its text; integers beyond 64 bits too
  virtual bool string(std::string& value) = 0;              // may be moved from
  virtual bool begin_object() = 0;
  virtual bool key(std::string& name) = 0;  // may be moved from
  virtual bool end_object() = 0;
  virtual bool begin_array() = 0;
  virtual bool end_array() = 0;

 protected:
  // Objects and arrays that are open: in begin_*, without the new one; in end_*, without the one that ends.
  int depth() const { return depth_; }
  bool fail(std::string message) {
    message_ = std::move(message);
    return false;
  }

 private:
  friend class JsonAdapter;
  int depth_ = 0;
  std::string message_;
};

// Parses one JSON value (RFC 8259, UTF-8) of at most 64 nested levels. Errors are malformed, with line and column.
status parse_json(std::string_view text, JsonEvents& events);

// A string as JSON writes it, quotes included; `text` has to be UTF-8.
std::string json_string(std::string_view text);

}  // namespace fourfold
