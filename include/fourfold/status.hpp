// status and result<T>: how every fallible public function reports.
//
// A status is a code and a message. The message names the field, the value met and what would be accepted; it is one
// line unless it lists several unmet requirements, one per line. Nothing in the library throws across this boundary.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace fourfold {

enum class Code {
  ok,
  invalid_argument,  // the caller's value is not acceptable
  not_found,         // a file, a tensor or a key is missing
  io,                // the operating system refused a read or a write
  malformed,         // bytes that break their format's rules
  unsupported,       // well-formed, but this build, executor or version cannot do it
  resource,          // memory, context or another budget is exhausted
  cancelled,         // the caller asked to stop
};

class [[nodiscard]] status {
 public:
  status() noexcept = default;  // ok
  status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const noexcept { return code_ == Code::ok; }
  explicit operator bool() const noexcept { return ok(); }
  Code code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

// Either a value or a status that is not ok.
template <class T>
class [[nodiscard]] result {
 public:
  result(T value) : value_(std::move(value)) {}       // NOLINT(google-explicit-constructor)
  result(status error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const status& error() const noexcept { return error_; }
  T& value() & { return value_.value(); }
  const T& value() const& { return value_.value(); }
  T&& value() && { return std::move(value_).value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  status error_;
};

}  // namespace fourfold

// Returns the error of a status expression, or goes on.
#define FOURFOLD_TRY(expression)                                                            \
  do {                                                                                      \
    if (auto fourfold_status = (expression); !fourfold_status.ok()) return fourfold_status; \
  } while (false)
