// Files that are not files, and files that change while they are read.
#include "formats/file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "formats/message.hpp"
#include "support/reject.hpp"
#include "support/temp_folder.hpp"

namespace fourfold {
namespace {

std::string text_at(const File& file, std::uint64_t offset, std::size_t size) {
  std::string out(size, '?');
  const status done = file.read_at(offset, std::as_writable_bytes(std::span(out)));
  return done.ok() ? out : "error: " + done.message();
}

TEST(File, ReadsByPosition) {
  const test::TempFolder folder;
  const auto file = File::open(folder.write("a.bin", "0123456789"));
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->size(), 10u);
  EXPECT_EQ(file->name(), "a.bin");
  EXPECT_EQ(text_at(*file, 3, 4), "3456");
  EXPECT_EQ(text_at(*file, 10, 0), "");
  EXPECT_EQ(text_at(*file, 8, 3), "error: a.bin: 3 bytes from byte 8 reach beyond the end at byte 10");
  EXPECT_EQ(text_at(*file, ~0ull, 1).substr(0, 6), "error:");
}

TEST(File, MovesItsDescriptor) {
  const test::TempFolder folder;
  auto file = File::open(folder.write("a.bin", "0123456789"));
  ASSERT_TRUE(file);
  File moved = std::move(*file);
  auto other = File::open(folder.write("b.bin", "abc"));
  ASSERT_TRUE(other);
  moved = std::move(*other);
  EXPECT_EQ(text_at(moved, 0, 3), "abc");
}

TEST(File, TellsWhyItCannotOpen) {
  const test::TempFolder folder;
  EXPECT_REJECT(File::open(folder.path("none.gguf")), Code::not_found, "No such file or directory");
  EXPECT_REJECT(File::open(folder.path()), Code::io, "a folder, not a regular file");
  EXPECT_REJECT(File::open("/dev/zero"), Code::io, "a device, not a regular file");
  EXPECT_REJECT(File::open(folder.write("empty.gguf", "")), Code::malformed, "empty.gguf: the file is empty");
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_REJECT(File::open(folder.path("pipe")), Code::io, "a pipe, not a regular file");
  std::filesystem::create_symlink("loop", folder.path("loop"));
  EXPECT_REJECT(File::open(folder.path("loop")), Code::io, "symbolic links");
}

TEST(File, TruncatedWhileReadIsAnError) {
  const test::TempFolder folder;
  const auto file = File::open(folder.write("a.bin", std::string(10000, 'x')));
  ASSERT_TRUE(file);
  std::filesystem::resize_file(file->path(), 6000);
  EXPECT_EQ(text_at(*file, 5000, 4), "xxxx");
  EXPECT_EQ(text_at(*file, 5000, 4000),
            "error: a.bin: truncated while being read: the file had 10 000 bytes and now ends at byte 6 000");
}

TEST(File, AReplacedFileKeepsItsOldBytes) {
  const test::TempFolder folder;
  const auto file = File::open(folder.write("a.bin", "old"));
  ASSERT_TRUE(file);
  std::filesystem::rename(folder.write("b.bin", "new and longer"), file->path());
  EXPECT_EQ(text_at(*file, 0, 3), "old");
}

TEST(File, ReadTextHasALimit) {
  const test::TempFolder folder;
  const std::string path = folder.write("t.json", "{\"a\": 1}");
  const auto text = read_text(path, 8);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "{\"a\": 1}");
  EXPECT_REJECT(read_text(path, 7), Code::resource, "t.json: 8 bytes, more than the 7 accepted");
}

TEST(Message, BaseNames) {
  EXPECT_EQ(base_name("/models/a.gguf"), "a.gguf");
  EXPECT_EQ(base_name("a.gguf"), "a.gguf");
  EXPECT_EQ(base_name("models/qwen/"), "qwen");
  EXPECT_EQ(base_name("/"), "/");
}

TEST(Message, GroupsDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1048608), "1 048 608");
  EXPECT_EQ(grouped(~0ull), "18 446 744 073 709 551 615");
}

TEST(Message, QuotesOnOneLine) {
  EXPECT_EQ(quote("blk.0"), "'blk.0'");
  EXPECT_EQ(quote({"a\n\0\x7f", 4}), "'a\\x0a\\x00\\x7f'");
  EXPECT_EQ(quote("\xc3\xa9\xff"), "'\xc3\xa9\\xff'");
  EXPECT_EQ(quote(std::string(200, 'a')), "'" + std::string(80, 'a') + "...'");
}

TEST(Message, KnowsUtf8) {
  EXPECT_TRUE(is_utf8("a\xc3\xa9\xe2\x96\x81\xf0\x9f\xa6\x99"));
  for (const char* bad : {"\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
                          "\xc3", "\xe2\x96", "\xf0\x9f\xa6", "\xc3(", "\xf0\x80\x80\x80"})
    EXPECT_FALSE(is_utf8(bad)) << quote(bad);
}

}  // namespace
}  // namespace fourfold
