#include "formats/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "formats/message.hpp"

namespace fourfold {

std::string base_name(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path;
  const std::size_t slash = path.find_last_of('/', end);
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(begin, end + 1 - begin);
}

result<File> File::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe that nobody writes to must not wait.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int error = errno;
    const Code code = error == ENOENT || error == ENOTDIR ? Code::not_found : Code::io;
    return status(code, "cannot open " + quote(path) + ": " + std::strerror(error));
  }
  File file(descriptor, 0, path);
  struct stat about {};
  if (::fstat(descriptor, &about) != 0)
    return status(Code::io, "cannot examine " + quote(path) + ": " + std::strerror(errno));
  if (!S_ISREG(about.st_mode)) {
    const char* kind = S_ISDIR(about.st_mode) ? "a folder" : S_ISFIFO(about.st_mode) ? "a pipe" : "a device";
    return status(Code::io, "cannot read " + quote(path) + ": it is " + kind + ", not a regular file");
  }
  if (about.st_size == 0) return status(Code::malformed, file.name() + ": the file is empty");
  file.size_ = static_cast<std::uint64_t>(about.st_size);
  return file;
}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string File::name() const { return base_name(path_); }

status File::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return {Code::invalid_argument, name() + ": " + grouped(out.size()) + " bytes from byte " + grouped(offset) +
                                        " reach beyond the end at byte " + grouped(size_)};
  }
  constexpr std::size_t kLargestRead = std::size_t{1} << 30;  // the kernel stops a little below 2^31
  while (!out.empty()) {
    const std::size_t wanted = std::min(out.size(), kLargestRead);
    const ssize_t got = ::pread(descriptor_, out.data(), wanted, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {Code::io, name() + ": cannot read: " + std::strerror(errno)};
    if (got == 0) {
      return {Code::malformed, name() + ": truncated while being read: the file had " + grouped(size_) +
                                   " bytes and now ends at byte " + grouped(offset)};
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

result<std::string> read_text(const std::string& path, std::uint64_t limit) {
  auto file = File::open(path);
  if (!file) return file.error();
  if (file->size() > limit) {
    return status(Code::resource, file->name() + ": " + grouped(file->size()) + " bytes, more than the " +
                                      grouped(limit) + " accepted");
  }
  std::string text(file->size(), '\0');
  FOURFOLD_TRY(file->read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace fourfold
