#include "output.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "exit.hpp"
#include "figures.hpp"
#include "signals.hpp"

namespace fourfold::cli {
namespace {

constexpr std::size_t kBuffer = 1 << 16;

// 0, or errno.
int write_all(int descriptor, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(descriptor, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return 0;
}

bool colours(int descriptor) { return isatty(descriptor) != 0 && std::getenv("NO_COLOR") == nullptr; }

// A remark that cannot be written is lost: there is nowhere left to say so.
void to_stderr(const std::string& text) { [[maybe_unused]] const int lost = write_all(2, text.data(), text.size()); }

}  // namespace

void Out::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBuffer) flush();
}

void Out::flush() {
  const std::string pending = std::exchange(buffer_, {});
  const int error = write_all(1, pending.data(), pending.size());
  if (error == EPIPE) throw Exit{kGood, ""};
  if (error != 0) fail(std::string("standard output: ") + std::strerror(error));
}

Out& out() {
  static Out instance;
  return instance;
}

bool stdin_is_terminal() { return isatty(0) != 0; }
bool stdout_is_terminal() { return isatty(1) != 0; }
bool stderr_is_terminal() { return isatty(2) != 0; }

int terminal_columns() {
  winsize size{};
  return ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void remark(const std::string& line) { to_stderr(line + "\n"); }

void report_error(const std::string& message) {
  std::string line;  // a list of requirements has one a line, and a file's texts may hold anything
  for (std::size_t at = 0; at < message.size();) {
    const std::size_t end = std::min(message.find('\n', at), message.size());
    const std::size_t text = std::min(message.find_first_not_of(' ', at), end);
    if (text < end) line += (line.empty() ? "" : "; ") + one_line(message.substr(text, end - text));
    at = end + 1;
  }
  to_stderr((colours(2) ? "\033[1;31merror:\033[0m " : "error: ") + line + "\n");
}

std::string dim(const std::string& text) { return colours(2) ? "\033[2m" + text + "\033[0m" : text; }

void Progress::update(double fraction) {
  const auto now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  if (!stderr_is_terminal() || elapsed < 0.5 || std::chrono::duration<double>(now - drawn_).count() < 0.1) return;
  const int width = std::clamp(terminal_columns() - static_cast<int>(what_.size()) - 40, 0, 30);
  const int full = static_cast<int>(fraction * width);
  std::string line = what_;
  if (width > 0)
    line += " [" + std::string(static_cast<std::size_t>(full), '#') +
            std::string(static_cast<std::size_t>(width - full), '.') + "]";
  const double speed = fraction * total_ / elapsed;
  line += " " + percent(fraction) + " · " + (unit_ == "B" ? in_bytes(speed) : rate(speed) + " " + unit_) + "/s";
  if (fraction > 0) line += " · " + fixed(elapsed / fraction - elapsed, 0) + " s left";
  to_stderr("\r\033[K" + line);
  drawn_ = now;
  shown_ = true;
}

void Progress::clear() {
  if (shown_) to_stderr("\r\033[K");
  shown_ = false;
}

OutputFile::OutputFile(const std::string& path) : path_(path) {
  struct stat kind {};
  if (stat(path.c_str(), &kind) == 0 && !S_ISREG(kind.st_mode)) {
    descriptor_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    temporary_ = path + ".XXXXXX";
    descriptor_ = mkostemp(temporary_.data(), O_CLOEXEC);
    if (descriptor_ >= 0) {
      const mode_t mask = umask(0);
      umask(mask);
      [[maybe_unused]] const int unchanged = fchmod(descriptor_, 0666 & ~mask);
      remove_if_killed(temporary_.c_str());
    }
  }
  if (descriptor_ < 0) {
    temporary_.clear();
    fail_with(errno);
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  remove_if_killed(nullptr);
}

void OutputFile::fail_with(int error) const { fail(path_ + ": " + std::strerror(error)); }

void OutputFile::write(std::span<const std::byte> bytes) {
  const int error = write_all(descriptor_, reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (error == EPIPE) throw Exit{kGood, ""};
  if (error != 0) fail_with(error);
}

void OutputFile::commit() {
  const int closed = close(std::exchange(descriptor_, -1));
  if (closed != 0) fail_with(errno);
  if (temporary_.empty()) return;
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail_with(errno);
  temporary_.clear();
  remove_if_killed(nullptr);
}

void refuse_long_text(const std::string& from) {
  fail(from + ": holds more than 32 MiB; accepted: texts up to 32 MiB");
}

std::string read_input(const std::string& path) {
  const bool standard = path == "-";
  const int descriptor = standard ? 0 : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const std::string name = standard ? "standard input" : path;
  if (descriptor < 0) fail(name + ": " + std::strerror(errno));
  std::string text;
  std::array<char, kBuffer> part{};
  for (;;) {
    const ssize_t n = read(descriptor, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      if (!standard) close(descriptor);
      fail(name + ": " + std::strerror(error));
    }
    if (n == 0) break;
    if (text.size() + static_cast<std::size_t>(n) > kMostText) {
      if (!standard) close(descriptor);
      refuse_long_text(name);
    }
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  if (!standard) close(descriptor);
  return text;
}

}  // namespace fourfold::cli
