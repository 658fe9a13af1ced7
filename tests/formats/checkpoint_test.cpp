// Opening models as users do: by path, whatever the format, in one piece or in many.
#include "formats/checkpoint.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "support/gguf_writer.hpp"
#include "support/reject.hpp"
#include "support/safetensors_writer.hpp"
#include "support/temp_folder.hpp"

namespace fourfold {
namespace {

using test::GgufWriter;
using test::SafetensorsWriter;
using test::TempFolder;

GgufWriter small_gguf() {
  GgufWriter writer;
  writer.string("general.architecture", "llama").u32("llama.block_count", 2);
  return writer.tensor("a", {2, 2}, test::kF32, "0123456789abcdef").tensor("b", {4}, test::kF16, "ABCDEFGH");
}

std::string text_of(const Checkpoint& checkpoint, std::string_view name) {
  const TensorInfo* tensor = checkpoint.find(name);
  if (tensor == nullptr) return "no such tensor";
  std::string out(tensor->bytes, '?');
  const status done = checkpoint.read(*tensor, 0, std::as_writable_bytes(std::span(out)));
  return done.ok() ? out : "error: " + done.message();
}

TEST(Checkpoint, OpensAGgufFile) {
  const TempFolder folder;
  const std::string bytes = small_gguf().bytes();
  const std::string path = folder.write("tiny.gguf", bytes);
  auto opened = open_checkpoint(path);
  ASSERT_TRUE(opened) << opened.error().message();
  const Checkpoint checkpoint = std::move(*opened);
  EXPECT_EQ(checkpoint.format(), Checkpoint::Format::gguf);
  EXPECT_EQ(checkpoint.path(), path);
  EXPECT_EQ(checkpoint.name(), "tiny.gguf");
  EXPECT_EQ(checkpoint.architecture(), "llama");
  EXPECT_EQ(*checkpoint.metadata().get_int("llama.block_count"), 2);
  EXPECT_EQ(checkpoint.file_bytes(), bytes.size());
  EXPECT_EQ(checkpoint.tensors().size(), 2u);
  EXPECT_EQ(text_of(checkpoint, "a"), "0123456789abcdef");
  EXPECT_EQ(text_of(checkpoint, "b"), "ABCDEFGH");
  EXPECT_EQ(checkpoint.find("c"), nullptr);
}

TEST(Checkpoint, ReadsPartsOfATensorAndNoFurther) {
  const TempFolder folder;
  const auto checkpoint = open_checkpoint(folder.write("tiny.gguf", small_gguf().bytes()));
  ASSERT_TRUE(checkpoint);
  const TensorInfo& tensor = *checkpoint->find("a");
  std::string out(4, '?');
  const auto into = std::as_writable_bytes(std::span(out));
  EXPECT_TRUE(checkpoint->read(tensor, 12, into).ok());
  EXPECT_EQ(out, "cdef");
  EXPECT_TRUE(checkpoint->read(tensor, 16, {}).ok());
  EXPECT_REJECT(checkpoint->read(tensor, 13, into), Code::invalid_argument,
                "tiny.gguf: tensor 'a': 4 bytes from byte 13 reach beyond its 16");
  EXPECT_REJECT(checkpoint->read(tensor, ~0ull, into), Code::invalid_argument, "reach beyond");
}

TEST(Checkpoint, ReadsFromSeveralThreads) {
  const TempFolder folder;
  const auto checkpoint = open_checkpoint(folder.write("tiny.gguf", small_gguf().bytes()));
  ASSERT_TRUE(checkpoint);
  std::vector<std::string> met(4);
  std::vector<std::thread> threads;
  for (std::string& out : met) threads.emplace_back([&] { out = text_of(*checkpoint, "a"); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& out : met) EXPECT_EQ(out, "0123456789abcdef");
}

TEST(Checkpoint, ListsButDoesNotReadUnknownTypes) {
  const TempFolder folder;
  GgufWriter writer = small_gguf();
  writer.tensor("q", {256}, test::kIq2Xxs, std::string(66, 'q')).tensor("z", {3}, 999, "");
  const auto checkpoint = open_checkpoint(folder.write("tiny.gguf", writer.bytes()));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  EXPECT_EQ(text_of(*checkpoint, "q"),
            "error: tiny.gguf: tensor 'q' is stored as IQ2_XXS, which this version cannot read");
  EXPECT_EQ(text_of(*checkpoint, "z"),
            "error: tiny.gguf: tensor 'z' is stored as type 999, which this version cannot read");
}

TEST(Checkpoint, TruncationIsToldWhenOpening) {
  const TempFolder folder;
  const std::string bytes = small_gguf().bytes();
  const std::string path = folder.write("broken.gguf", bytes.substr(0, bytes.size() - 3));
  EXPECT_REJECT(open_checkpoint(path), Code::malformed,
                "broken.gguf: tensor 'b': data ends at byte " + std::to_string(bytes.size()) + ", the file at " +
                    std::to_string(bytes.size() - 3) + " (truncated?)");
}

TEST(Checkpoint, TruncationIsToldWhenReading) {
  const TempFolder folder;
  const auto checkpoint = open_checkpoint(folder.write("tiny.gguf", small_gguf().bytes()));
  ASSERT_TRUE(checkpoint);
  const std::uint64_t middle = checkpoint->find("a")->offset + 5;
  std::filesystem::resize_file(checkpoint->path(), middle);
  const std::string met = text_of(*checkpoint, "a");
  EXPECT_EQ(met.rfind("error: tiny.gguf: truncated while being read: the file had ", 0), 0u) << met;
  EXPECT_NE(met.find("now ends at byte " + std::to_string(middle) + " (reading tensor 'a')"), std::string::npos) << met;
}

TEST(Checkpoint, AGgufModelHasNoSideFiles) {
  const TempFolder folder;
  folder.write("tokenizer.json", "{}");
  const auto checkpoint = open_checkpoint(folder.write("tiny.gguf", small_gguf().bytes()));
  ASSERT_TRUE(checkpoint);
  EXPECT_REJECT(checkpoint->side_file("tokenizer.json"), Code::not_found, "a GGUF model has no file 'tokenizer.json'");
}

TEST(Checkpoint, AFileWithoutArchitectureOpens) {
  const TempFolder folder;
  const auto checkpoint = open_checkpoint(folder.write("vocab.gguf", GgufWriter().u32("a", 1).bytes()));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->architecture(), "");
  const std::string wrong = folder.write("w.gguf", GgufWriter().u32("general.architecture", 1).bytes());
  EXPECT_REJECT(open_checkpoint(wrong), Code::malformed, "w.gguf: key 'general.architecture' is the integer 1");
}

TEST(Checkpoint, RefusesOtherPaths) {
  const TempFolder folder;
  EXPECT_REJECT(open_checkpoint(folder.path("none.gguf")), Code::not_found, "none.gguf': No such file");
  EXPECT_REJECT(open_checkpoint(folder.path("none.safetensors")), Code::not_found, "No such file");
  EXPECT_REJECT(open_checkpoint(""), Code::not_found, "cannot open ''");
  EXPECT_REJECT(open_checkpoint(folder.path()), Code::not_found, "the folder holds no model");
  EXPECT_REJECT(open_checkpoint(folder.write("a.txt", "hello")), Code::malformed, "a.txt: not a GGUF file");
  EXPECT_REJECT(open_checkpoint(folder.write("empty.gguf", "")), Code::malformed, "the file is empty");
  EXPECT_REJECT(open_checkpoint(folder.write("short.gguf", "GGUF")), Code::malformed, "short.gguf: version: data ends");
}

// Shards of a GGUF model.
GgufWriter shard(int number, int count, int tensors) {
  GgufWriter writer;
  if (number == 0) writer.string("general.architecture", "llama");
  writer.u16("split.no", static_cast<std::uint16_t>(number)).u16("split.count", static_cast<std::uint16_t>(count));
  writer.i32("split.tensors.count", tensors);
  return writer.tensor("w" + std::to_string(number), {1}, test::kF32, "dat" + std::to_string(number));
}

std::string write_shards(const TempFolder& folder, int missing = -1) {
  for (int i = 0; i < 3; ++i)
    if (i != missing) folder.write("m-0000" + std::to_string(i + 1) + "-of-00003.gguf", shard(i, 3, 3).bytes());
  return folder.path("m-00001-of-00003.gguf");
}

TEST(Shards, TheFirstOpensAll) {
  const TempFolder folder;
  const auto checkpoint = open_checkpoint(write_shards(folder));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->architecture(), "llama");
  EXPECT_EQ(checkpoint->tensors().size(), 3u);
  EXPECT_EQ(text_of(*checkpoint, "w0"), "dat0");
  EXPECT_EQ(text_of(*checkpoint, "w2"), "dat2");
  EXPECT_EQ(checkpoint->find("w2")->file, 2);
  EXPECT_EQ(checkpoint->file_bytes(),
            shard(0, 3, 3).bytes().size() + shard(1, 3, 3).bytes().size() + shard(2, 3, 3).bytes().size());
}

TEST(Shards, OneOfOneNeedsNoName) {
  const TempFolder folder;
  EXPECT_TRUE(open_checkpoint(folder.write("m.gguf", shard(0, 1, 1).bytes())));
}

TEST(Shards, MissingOnesAreNamed) {
  const TempFolder folder;
  EXPECT_REJECT(open_checkpoint(write_shards(folder, 1)), Code::not_found, "shard 2 of 3 is missing: '");
  EXPECT_REJECT(open_checkpoint(folder.path("m-00003-of-00003.gguf")), Code::invalid_argument,
                "it is shard 3 of 3; open the first, named *-00001-of-00003.gguf");
  EXPECT_REJECT(open_checkpoint(folder.write("m.gguf", shard(0, 3, 3).bytes())), Code::invalid_argument,
                "m.gguf: it is one of 3 shards, so its name should end in '-00001-of-00003.gguf'");
}

TEST(Shards, DisagreeingOnesAreRefused) {
  const TempFolder folder;
  const std::string first = write_shards(folder);
  const auto second = [&](const GgufWriter& writer) {
    folder.write("m-00002-of-00003.gguf", writer.bytes());
    return open_checkpoint(first);
  };
  EXPECT_REJECT(second(shard(0, 3, 3)), Code::malformed, "it says it is shard 1 of 3; expected shard 2 of 3");
  EXPECT_REJECT(second(shard(1, 4, 3)), Code::malformed, "it says it is shard 2 of 4; expected shard 2 of 3");
  EXPECT_REJECT(second(small_gguf()), Code::not_found, "m-00002-of-00003.gguf: key 'split.no' is missing");
  EXPECT_REJECT(second(shard(1, 3, 3).tensor("w0", {1}, test::kF32, "data")), Code::malformed,
                "m-00002-of-00003.gguf: tensor 'w0' is in an earlier shard too");
  EXPECT_REJECT(second(shard(1, 3, 3).tensor("x", {1}, test::kF32, "data")), Code::malformed,
                "key 'split.tensors.count' is 3; all shards hold 4 tensors");
  EXPECT_TRUE(second(shard(1, 3, 3)));
}

TEST(Shards, CountsHaveToMakeSense) {
  const TempFolder folder;
  EXPECT_REJECT(open_checkpoint(folder.write("z.gguf", shard(0, 0, 1).bytes())), Code::malformed,
                "key 'split.count' is 0; expected 1 or more");
  EXPECT_REJECT(open_checkpoint(folder.write("s.gguf", GgufWriter().string("split.count", "3").bytes())),
                Code::malformed, "key 'split.count' is the string '3'; expected an integer");
  const std::string many = folder.write("m-00001-of-65535.gguf", shard(0, 65535, 1).bytes());
  EXPECT_REJECT(open_checkpoint(many), Code::not_found, "shard 2 of 65535 is missing");
}

// Safetensors folders.
constexpr std::string_view kConfig = R"({"model_type": "llama", "hidden_size": 8, "rope_scaling": {"factor": 2.0}})";

TEST(SafetensorsFolder, OpensASingleFile) {
  const TempFolder folder;
  folder.write("config.json", kConfig);
  folder.write("tokenizer.json", "{\"version\": 1}");
  const std::string file =
      folder.write("model.safetensors", SafetensorsWriter().tensor("w", "BF16", {2}, "data").bytes());
  for (const std::string& path : {folder.path(), folder.path() + "/", file}) {
    const auto checkpoint = open_checkpoint(path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message();
    EXPECT_EQ(checkpoint->format(), Checkpoint::Format::safetensors);
    EXPECT_EQ(checkpoint->architecture(), "llama");
    EXPECT_EQ(*checkpoint->metadata().get_float("rope_scaling.factor"), 2.0);
    EXPECT_EQ(text_of(*checkpoint, "w"), "data");
    EXPECT_EQ(checkpoint->find("w")->storage, Storage::bf16);
    const auto text = checkpoint->side_file("tokenizer.json");
    ASSERT_TRUE(text) << text.error().message();
    EXPECT_EQ(*text, "{\"version\": 1}");
    EXPECT_REJECT(checkpoint->side_file("chat_template.jinja"), Code::not_found, "No such file");
    EXPECT_REJECT(checkpoint->side_file("../tokenizer.json"), Code::invalid_argument, "expected a name without '/'");
  }
}

TEST(SafetensorsFolder, OpensIndexedFiles) {
  const TempFolder folder;
  folder.write("config.json", kConfig);
  folder.write("one.safetensors", SafetensorsWriter().tensor("a", "F32", {1}, "aaaa").bytes());
  folder.write("two.safetensors", SafetensorsWriter().tensor("b.x", "F16", {1}, "bb").bytes());
  const auto with_index = [&](std::string_view index) {
    folder.write("model.safetensors.index.json", index);
    return open_checkpoint(folder.path());
  };
  const auto checkpoint = with_index(
      R"({"metadata": {"total_size": 6}, "weight_map": {"b.x": "two.safetensors", "a": "one.safetensors"}})");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  EXPECT_EQ(text_of(*checkpoint, "a"), "aaaa");
  EXPECT_EQ(text_of(*checkpoint, "b.x"), "bb");
  EXPECT_REJECT(with_index(R"({"weight_map": {"a": "two.safetensors"}})"), Code::malformed,
                "model.safetensors.index.json: tensor 'a' is not in its file 'two.safetensors'");
  EXPECT_REJECT(with_index(R"({"weight_map": {"c": "one.safetensors"}})"), Code::malformed, "tensor 'c' is not in");
  EXPECT_REJECT(with_index(R"({"weight_map": {"a": "three.safetensors"}})"), Code::not_found, "three.safetensors");
  EXPECT_REJECT(with_index(R"({"weight_map": {"a": "../one.safetensors"}})"), Code::malformed,
                "key 'weight_map.a' is '../one.safetensors'; expected a .safetensors file of the folder");
  EXPECT_REJECT(with_index(R"({"weight_map": {"a": "/etc/passwd"}})"), Code::malformed, "expected a .safetensors file");
  EXPECT_REJECT(with_index(R"({"weight_map": {"a": 1}})"), Code::malformed, "key 'weight_map.a' is integer");
  EXPECT_REJECT(with_index(R"({"weight_map": {}})"), Code::malformed, "its 'weight_map' is missing or empty");
  EXPECT_REJECT(with_index("[]"), Code::malformed, "model.safetensors.index.json: it is not a JSON object");
  folder.write("two.safetensors", SafetensorsWriter().tensor("a", "F32", {1}, "aaaa").bytes());
  EXPECT_REJECT(with_index(R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})"), Code::malformed,
                "two.safetensors: tensor 'a' is in an earlier file too");
}

TEST(SafetensorsFolder, WithoutWeightsItStillHasMetadata) {
  const TempFolder folder;
  folder.write("config.json", kConfig);
  const auto checkpoint = open_checkpoint(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  EXPECT_TRUE(checkpoint->tensors().empty());
  EXPECT_EQ(checkpoint->architecture(), "llama");
}

TEST(SafetensorsFolder, ErrorsNameTheFile) {
  const TempFolder folder;
  folder.write("config.json", "{\"model_type\": 3}");
  EXPECT_REJECT(open_checkpoint(folder.path()), Code::malformed, "config.json: key 'model_type' is the integer 3");
  folder.write("config.json", "{");
  EXPECT_REJECT(open_checkpoint(folder.path()), Code::malformed, "config.json: not valid JSON");
  folder.write("config.json", kConfig);
  folder.write("part-1.safetensors", SafetensorsWriter().tensor("a", "F32", {1}, "aaaa").bytes());
  EXPECT_REJECT(open_checkpoint(folder.path()), Code::not_found, "the folder holds 'part-1.safetensors'; expected");
  folder.write("model.safetensors", "123");
  EXPECT_REJECT(open_checkpoint(folder.path()), Code::malformed, "model.safetensors: it has 3 bytes");
  const std::string whole = SafetensorsWriter().tensor("a", "F32", {1}, "aaaa").bytes();
  folder.write("model.safetensors", whole.substr(0, whole.size() - 1));
  EXPECT_REJECT(open_checkpoint(folder.path()), Code::malformed, "model.safetensors: tensor 'a': data ends at byte ");
}

}  // namespace
}  // namespace fourfold
