// Where results and remarks go: stdout for results, stderr for the rest, files replaced whole or not at all.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace fourfold::cli {

// Standard output. A closed pipe throws Exit{0}: the reader has had enough. Any other failure throws Exit{1}.
class Out {
 public:
  void write(std::string_view text);
  void flush();

 private:
  std::string buffer_;
};
Out& out();

bool stdout_is_terminal();
bool stderr_is_terminal();
bool stdin_is_terminal();
int terminal_columns();  // of stderr, 80 when unknown

// One line on stderr, and "error: ..." likewise.
void remark(const std::string& line);
void report_error(const std::string& message);
std::string dim(const std::string& text);  // as stderr shows it; plain under NO_COLOR or when it is no terminal

// A bar on stderr with rate and time left: only on a terminal, and only once half a second has passed.
class Progress {
 public:
  // `total` of `unit` is what a fraction of 1 stands for: "B" for bytes, else a word such as "tokens".
  Progress(std::string what, double total, std::string unit)
      : what_(std::move(what)), unit_(std::move(unit)), total_(total) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(double fraction);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_, unit_;
  double total_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_{};
  bool shown_ = false;
};

// A file written beside its place and moved there by commit(); without commit nothing is left. What is no regular file
// (a device, a pipe) is written directly. Failures throw Exit{1} and name the file.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void commit();

 private:
  [[noreturn]] void fail_with(int error) const;

  std::string path_;
  std::string temporary_;  // empty: written directly
  int descriptor_ = -1;
};

// Texts are read up to this size, so that a stream without end is an error.
inline constexpr std::size_t kMostText = std::size_t{32} << 20;
[[noreturn]] void refuse_long_text(const std::string& from);
// Every byte of a file, "-" being stdin.
std::string read_input(const std::string& path);

}  // namespace fourfold::cli
