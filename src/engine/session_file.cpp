// Session files, little-endian:
//   "f44FSS" and two digits: the version of this format; u64 size and bytes of a description, lines of text that say
//   what the caches belong to; u64 count; i32 ids [count]; of each cache the rows its window needs (program/backend.hpp
//   says how a row looks), in chunks of kChunk rows; f32 running states; u64 checksum of all before it, piece by piece.
// Nothing in it depends on the pages, the threads or the instruction set of the session that saved it.
#include "engine/session_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "formats/file.hpp"
#include "formats/message.hpp"

namespace fourfold {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "f44FSS", kVersion = "02";
constexpr int kChunk = 64;  // rows read or written at once
constexpr std::uint64_t kMaxDescription = 1 << 20;

// FNV-1a (Fowler, Noll and Vo) over words of 8 bytes instead of single ones; each piece is padded with zeros. Every
// step is a bijection, so that one changed bit, and any change within one word, changes the sum.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
      sum_ = (sum_ ^ word) * 0x100000001b3u;
      sum_ = std::rotl(sum_, 23);
    }
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 0xcbf29ce484222325u;
};

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Of the model's tensors and rotations, and of the first bytes of each weight: a fine-tuned sibling differs.
std::uint64_t fingerprint(const Program& program, const WeightBytes& weights) {
  Checksum sum;
  std::vector<std::byte> first;
  for (const TensorSpec& tensor : program.tensors) {
    sum.add(bytes_of(tensor.name + " " + std::string(info(tensor.storage).name) + " " + std::to_string(tensor.rows) +
                     "x" + std::to_string(tensor.cols)));
    const auto& storage = info(tensor.storage);
    const std::int64_t blocks = std::min<std::int64_t>(tensor.cols / storage.block_elements, 16);
    first.resize(static_cast<std::size_t>(blocks * storage.block_bytes));
    if (weights.read(tensor, 0, first).ok()) sum.add(first);
  }
  for (const RopeSpec& rope : program.ropes) sum.add(std::as_bytes(std::span(rope.inverse_frequency)));
  return sum.sum();
}

int first_row(const CacheSpec& cache, int positions) {
  return cache.window > 0 ? std::max(0, positions - cache.window + 1) : 0;
}

// What must be equal for the bytes to mean the same: the model, shape and storage of each cache, shape of each state.
// Neighbours that are alike share a line.
std::string description(const Program& program, const WeightBytes& weights, const Executor& executor) {
  char print[17];
  std::snprintf(print, sizeof print, "%016llx", static_cast<unsigned long long>(fingerprint(program, weights)));
  std::string text = program.family + ", vocabulary " + std::to_string(program.vocab) + ", weights " + print + "\n";
  std::string before;
  int times = 0;
  const auto add = [&](std::string line) {
    if (line != before && times > 0) {
      text += std::to_string(times) + " x " + before + "\n";
      times = 0;
    }
    before = std::move(line);
    ++times;
  };
  for (std::size_t c = 0; c < program.caches.size(); ++c) {
    const CacheSpec& cache = program.caches[c];
    add("cache " + std::to_string(cache.kv_heads) + " x " + std::to_string(cache.head_dim) + " " +
        std::string(executor.row_format()) + ", " + std::to_string(executor.row_bytes(static_cast<int>(c))) +
        " bytes a position" + (cache.window > 0 ? ", window " + std::to_string(cache.window) : ""));
  }
  for (const StateSpec& state : program.states)
    add("state " + std::to_string(state.heads) + " x " + std::to_string(state.rows) + " x " +
        std::to_string(state.columns) + " f32");
  add({});
  return text;
}

// The first line of `found` that `expected` has not, and its counterpart.
std::string difference(std::string_view found, std::string_view expected) {
  const auto line = [](std::string_view& text) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string first(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return first;
  };
  while (!found.empty() || !expected.empty()) {
    const std::string a = line(found), b = line(expected);
    if (a != b) return "saved from " + quote(a) + "; this session is " + quote(b);
  }
  return {};
}

// Calls f(cache, first row, rows) for every chunk of rows, in the file's order, while f says ok.
template <class F>
status each_chunk(const Program& program, int positions, F&& f) {
  for (std::size_t c = 0; c < program.caches.size(); ++c)
    for (int row = first_row(program.caches[c], positions); row < positions; row += kChunk)
      FOURFOLD_TRY(f(static_cast<int>(c), row, std::min(kChunk, positions - row)));
  return {};
}

// Reads a file piece by piece and sums what it read.
class Reader {
 public:
  explicit Reader(const File& file) : file_(file) {}

  status read(std::span<std::byte> out) {
    FOURFOLD_TRY(file_.read_at(at_, out));
    at_ += out.size();
    sum_.add(out);
    return {};
  }
  status read_number(std::uint64_t& value) { return read(std::as_writable_bytes(std::span(&value, 1))); }
  std::uint64_t left() const { return file_.size() - at_; }
  std::uint64_t sum() const { return sum_.sum(); }

 private:
  const File& file_;
  std::uint64_t at_ = 0;
  Checksum sum_;
};

status malformed(const std::string& path, const std::string& why) {
  return {Code::malformed, path + ": not a usable session file: " + why};
}

// What stands in front of the ids, but for their number: checks it and gives the description.
result<std::string> read_description(Reader& in, const std::string& path) {
  std::string magic(kMagic.size() + kVersion.size(), '\0');
  if (in.left() < magic.size()) return malformed(path, "it ends early");
  FOURFOLD_TRY(in.read(std::as_writable_bytes(std::span(magic))));
  const std::string version = magic.substr(kMagic.size());
  if (!magic.starts_with(kMagic) || version.find_first_not_of("0123456789") != std::string::npos)
    return malformed(path, "it does not begin as one");
  if (version != kVersion)
    return status{Code::unsupported, path + ": is of version " + version + " of the session format; this build reads " +
                                         std::string(kVersion)};
  std::uint64_t size = 0;
  if (in.left() < sizeof size) return malformed(path, "it ends early");
  FOURFOLD_TRY(in.read_number(size));
  if (size > kMaxDescription || size + sizeof(std::uint64_t) > in.left())
    return malformed(path, "it ends early, or is damaged");
  std::string text(size, '\0');
  FOURFOLD_TRY(in.read(std::as_writable_bytes(std::span(text))));
  return text;
}

// Bytes of the caches' rows, the states and the checksum.
std::uint64_t body_bytes(const Program& program, const Executor& executor, int positions) {
  std::uint64_t sum = static_cast<std::uint64_t>(program.state_numbers()) * sizeof(float) + sizeof(std::uint64_t);
  (void)each_chunk(program, positions, [&](int cache, int, int rows) -> status {
    sum += executor.row_bytes(cache) * static_cast<std::size_t>(rows);
    return {};
  });
  return sum;
}

status read_body(Reader& in, const std::string& path, const Program& program, int positions, Executor& executor) {
  FOURFOLD_TRY(executor.jump(positions));
  std::vector<std::byte> rows;
  FOURFOLD_TRY(each_chunk(program, positions, [&](int cache, int first, int n) -> status {
    rows.resize(executor.row_bytes(cache) * static_cast<std::size_t>(n));
    FOURFOLD_TRY(in.read(rows));
    executor.write_rows(cache, first, n, rows.data());
    return {};
  }));
  std::vector<float> states(static_cast<std::size_t>(program.state_numbers()));
  FOURFOLD_TRY(in.read(std::as_writable_bytes(std::span(states))));
  executor.write_states(states);
  const std::uint64_t sum = in.sum();
  std::uint64_t saved = 0;
  FOURFOLD_TRY(in.read_number(saved));
  if (saved != sum) return malformed(path, "its checksum differs: bytes have changed since it was saved");
  return {};
}

}  // namespace

status write_session(const std::string& path, const SessionOwner& owner, std::span<const int> ids) {
  std::error_code unknown;
  const auto kind = std::filesystem::status(path, unknown).type();
  if (kind == std::filesystem::file_type::block || kind == std::filesystem::file_type::character ||
      kind == std::filesystem::file_type::fifo || kind == std::filesystem::file_type::socket)
    return {Code::invalid_argument, path + ": cannot write the session: it is a device or a pipe; accepted: a file"};
  const std::string temporary = path + ".partial";
  const auto failed = [&] {
    const std::string why = std::strerror(errno);
    ::unlink(temporary.c_str());
    return status{Code::io, path + ": cannot write the session: " + why};
  };
  errno = 0;
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  Checksum sum;
  const auto put = [&](std::span<const std::byte> bytes) {
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    sum.add(bytes);
  };
  const auto put_number = [&](std::uint64_t value) { put(std::as_bytes(std::span(&value, 1))); };
  const std::string text = description(owner.program, owner.weights, owner.executor);
  put(bytes_of(std::string(kMagic) + std::string(kVersion)));
  put_number(text.size());
  put(bytes_of(text));
  put_number(ids.size());
  put(std::as_bytes(ids));
  std::vector<std::byte> rows;
  const int positions = static_cast<int>(ids.size());
  FOURFOLD_TRY(each_chunk(owner.program, positions, [&](int cache, int first, int count) -> status {
    rows.resize(owner.executor.row_bytes(cache) * static_cast<std::size_t>(count));
    owner.executor.read_rows(cache, first, count, rows.data());
    put(rows);
    return {};
  }));
  std::vector<float> states(static_cast<std::size_t>(owner.program.state_numbers()));
  owner.executor.read_states(states);
  put(std::as_bytes(std::span(states)));
  put_number(sum.sum());
  out.close();
  if (out.fail() || std::rename(temporary.c_str(), path.c_str()) != 0) return failed();
  return {};
}

result<SavedSession> read_session(const std::string& path, const SessionOwner& owner, const FreshExecutor& plan) {
  auto file = File::open(path);
  if (!file.ok()) return file.error();
  Reader in(*file);
  const auto found = read_description(in, path);
  if (!found.ok()) return found.error();
  const Program& program = owner.program;
  const std::string differs = difference(*found, description(program, owner.weights, owner.executor));
  if (!differs.empty()) return status{Code::unsupported, path + ": " + differs};
  std::uint64_t count = 0;
  FOURFOLD_TRY(in.read_number(count));
  if (count > static_cast<std::uint64_t>(owner.context))
    return status{Code::resource, path + ": holds " + std::to_string(count) + " tokens; the context holds " +
                                      std::to_string(owner.context)};
  const int positions = static_cast<int>(count);
  const std::uint64_t expected = count * sizeof(std::int32_t) + body_bytes(program, owner.executor, positions);
  if (in.left() != expected)
    return malformed(path, "after its header " + std::to_string(expected) + " bytes should follow, not " +
                               std::to_string(in.left()));
  std::vector<int> ids(count);
  FOURFOLD_TRY(in.read(std::as_writable_bytes(std::span(ids))));
  for (int id : ids)
    if (id < 0 || id >= program.vocab)
      return malformed(path, "token id " + std::to_string(id) + " is outside the vocabulary");
  auto fresh = plan();
  if (!fresh.ok()) return fresh.error();
  FOURFOLD_TRY(read_body(in, path, program, positions, **fresh));
  return SavedSession{std::move(fresh).value(), std::move(ids)};
}

}  // namespace fourfold
