// Session files: a magic number, a line that says what it belongs to, the ids, then the caches as the executor lays
// them out.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/session_state.hpp"

namespace fourfold {
namespace {

constexpr std::uint64_t kMagic = 0x3130535346343466;  // "f44FSS01", little-endian

// What must be equal for a cache to mean the same: family, shapes of the caches, storage, executor.
std::string fingerprint(const Session& session, const SessionOptions& options) {
  const Program& program = session.model().program();
  std::string text =
      program.family + " vocab " + std::to_string(program.vocab) + " layers " + std::to_string(program.caches.size());
  for (const CacheSpec& cache : program.caches)
    text += " " + std::to_string(cache.kv_heads) + "x" + std::to_string(cache.head_dim);
  text += ", weights of " + std::to_string(session.model().file_bytes()) + " bytes";
  return text + ", cache " + std::string(info(*options.cache).name) + ", executor " + options.executor;
}

template <class T>
void put(std::ostream& out, const T& value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
bool get(std::istream& in, T& value) {
  return static_cast<bool>(in.read(reinterpret_cast<char*>(&value), sizeof value));
}

}  // namespace

status Session::save(const std::string& path) const {
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
  const std::string print = fingerprint(*this, state_->options);
  put(out, kMagic);
  put(out, static_cast<std::uint64_t>(print.size()));
  out << print;
  put(out, static_cast<std::uint64_t>(state_->ids.size()));
  for (int id : state_->ids) put(out, static_cast<std::int32_t>(id));
  state_->executor->save_cache(out, position());
  out.close();
  if (out.fail() || std::rename(temporary.c_str(), path.c_str()) != 0) return failed();
  return {};
}

status Session::restore(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return {Code::not_found, path + ": cannot be opened: " + std::strerror(errno)};
  const auto malformed = [&](const std::string& why) {
    return status{Code::malformed, path + ": not a usable session file: " + why};
  };
  std::uint64_t magic = 0, size = 0, count = 0;
  if (!get(in, magic) || magic != kMagic) return malformed("it does not begin as one");
  const std::string expected = fingerprint(*this, state_->options);
  constexpr std::uint64_t kMaxFingerprint = 1 << 20;
  if (!get(in, size) || size > kMaxFingerprint) return malformed("its header is damaged");
  std::string print(size, '\0');
  if (!in.read(print.data(), static_cast<std::streamsize>(size))) return malformed("it ends early");
  if (print != expected)
    return {Code::unsupported, path + ": saved from \"" + print + "\"; this session is \"" + expected + "\""};
  if (!get(in, count)) return malformed("it ends early");
  if (count > static_cast<std::uint64_t>(context()))
    return {Code::resource,
            path + ": holds " + std::to_string(count) + " tokens; the context holds " + std::to_string(context())};
  std::vector<int> ids;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::int32_t id = 0;
    if (!get(in, id)) return malformed("it ends early");
    if (id < 0 || id >= model().vocab())
      return malformed("token id " + std::to_string(id) + " is outside the vocabulary");
    ids.push_back(id);
  }
  state_->ids.clear();  // a cache half read holds nothing
  state_->logits.clear();
  if (status s = state_->executor->load_cache(in, static_cast<int>(count)); !s.ok()) return malformed(s.message());
  state_->ids = std::move(ids);
  return {};
}

}  // namespace fourfold
