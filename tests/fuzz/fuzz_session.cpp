// Session files from any bytes: no crash, nothing written outside what the file's own count allows, a reason for each
// refusal; what is accepted is written back as the same bytes.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "engine/session_file.hpp"

using namespace fourfold;

namespace {

void require(bool condition) {
  if (!condition) __builtin_trap();
}

constexpr int kContext = 300, kVocab = 50;

// One cache with a window, one without, and a running state; make_session_corpus.py knows this shape, too.
const Program& program() {
  static const Program made = [] {
    Program p;
    p.family = "fuzz";
    p.vocab = kVocab;
    p.context = kContext;
    p.caches = {{.kv_heads = 1, .head_dim = 2, .window = 5}, {.kv_heads = 2, .head_dim = 1}};
    p.states = {{.heads = 1, .rows = 2, .columns = 3}};
    return p;
  }();
  return made;
}

struct NoWeights : WeightBytes {
  status read(const TensorSpec&, std::uint64_t, std::span<std::byte>) const override { return {Code::io, "none"}; }
};

// Keeps the rows and states it is given, and checks where they belong.
class Keeper : public Executor {
 public:
  status forward(std::span<const int>, int, int, float*) override { return {Code::unsupported, "forward"}; }
  int rewind(int) override { return 0; }
  result<std::unique_ptr<Executor>> fork() const override { return status{Code::unsupported, "fork"}; }
  std::size_t cache_bytes() const override { return 0; }
  void read_states(std::span<float> out) const override { std::copy(states_.begin(), states_.end(), out.begin()); }
  void write_states(std::span<const float> states) override { states_.assign(states.begin(), states.end()); }
  std::string_view row_format() const override { return "f16"; }
  std::size_t row_bytes(int cache) const override {
    return 2 * static_cast<std::size_t>(program().caches[static_cast<std::size_t>(cache)].width());
  }
  void read_rows(int cache, int first, int count, std::byte* out) const override {
    std::memcpy(out, at(cache, first, count), static_cast<std::size_t>(count) * row_bytes(cache));
  }
  status jump(int position) override {
    require(position >= 0 && position <= kContext);
    position_ = position;
    for (int c = 0; c < 2; ++c) rows_[c].resize(static_cast<std::size_t>(position) * row_bytes(c));
    return {};
  }
  void write_rows(int cache, int first, int count, const std::byte* in) override {
    std::memcpy(const_cast<std::byte*>(at(cache, first, count)), in,
                static_cast<std::size_t>(count) * row_bytes(cache));
  }
  status randomize_cache(int, std::uint64_t) override { return {Code::unsupported, "randomize"}; }
  const float* value(Value) const override { return nullptr; }
  void cached(int, int, int, float*, float*) const override {}

 private:
  const std::byte* at(int cache, int first, int count) const {
    require(cache >= 0 && cache < 2 && first >= 0 && count > 0 && first + count <= position_);
    return rows_[cache].data() + static_cast<std::size_t>(first) * row_bytes(cache);
  }
  int position_ = 0;
  std::vector<std::byte> rows_[2];
  std::vector<float> states_ = std::vector<float>(6);
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int memory = memfd_create("session", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(memory);
  require(ftruncate(memory, static_cast<off_t>(size)) == 0);
  require(pwrite(memory, data, size, 0) == static_cast<ssize_t>(size));
  const NoWeights weights;
  const Keeper empty;
  const auto saved = read_session(path, {program(), weights, empty, kContext},
                                  [] { return result<std::unique_ptr<Executor>>(std::make_unique<Keeper>()); });
  if (!saved.ok()) {
    for (const char c : saved.error().message()) require(static_cast<unsigned char>(c) >= ' ');
    require(!saved.error().message().empty());
    return 0;
  }
  for (const int id : saved->ids) require(id >= 0 && id < kVocab);
  const std::string again = "/tmp/fuzz_session." + std::to_string(getpid());
  require(write_session(again, {program(), weights, *saved->executor, kContext}, saved->ids).ok());
  std::ifstream in(again, std::ios::binary);
  const std::string written{std::istreambuf_iterator<char>(in), {}};
  unlink(again.c_str());
  require(written.size() == size && std::memcmp(written.data(), data, size) == 0);
  return 0;
}
