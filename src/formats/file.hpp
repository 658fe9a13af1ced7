// A regular file, read by position. Nothing is mapped: a mapped file that another program truncates kills its reader
// with SIGBUS, whereas a short read is an error that can be told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fourfold/status.hpp>
#include <span>
#include <string>
#include <utility>

namespace fourfold {

class File {
 public:
  // not_found: no such file; io: a directory, a pipe, a device, no permission; malformed: an empty file.
  static result<File> open(const std::string& path);

  File(File&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_), path_(std::move(other.path_)) {}
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  std::uint64_t size() const { return size_; }  // bytes, when it was opened
  const std::string& path() const { return path_; }
  std::string name() const;  // the path's last part, as error messages begin with it

  // Fills `out` from byte `offset`; safe from several threads. A file that has become shorter is malformed.
  status read_at(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  File(int descriptor, std::uint64_t size, std::string path)
      : descriptor_(descriptor), size_(size), path_(std::move(path)) {}

  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::string path_;
};

// The last part of a path, trailing slashes aside.
std::string base_name(const std::string& path);

// A whole small file as text; more than `limit` bytes is an error of code resource.
result<std::string> read_text(const std::string& path, std::uint64_t limit);

}  // namespace fourfold
