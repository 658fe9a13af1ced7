// The states of many sequences in slots, and what speculative decoding does with them: fork a state, run the draft on
// the fork, then keep the fork (all accepted) or drop it and run the accepted tokens alone.
//
// A slot holds [heads, numbers] floats, zeros when taken. Slots share nothing: a fork is a copy, at the price of one
// read and one write of the state, which a token pays anyway.
#pragma once

#include <algorithm>
#include <cstring>
#include <fourfold/tensor.hpp>
#include <span>
#include <string>
#include <vector>

namespace fourfold {

class ScanStates {
 public:
  // `numbers`: key dim * value dim of a head. Refused beyond 2^40 bytes in all.
  static result<ScanStates> create(int slots, int heads, std::int64_t numbers) {
    constexpr std::int64_t kMost = std::int64_t{1} << 38;
    if (slots < 1 || heads < 1 || numbers < 1 || numbers > kMost / slots / heads)
      return status(Code::invalid_argument, "scan states: " + std::to_string(slots) + " slots of " +
                                                std::to_string(heads) + " heads of " + std::to_string(numbers) +
                                                " numbers; each must be at least 1 and all together at most 2^38");
    return ScanStates(slots, heads, numbers);
  }

  // All slots as a scan takes them, [slots * heads, numbers].
  Rows<float> rows() { return {memory_.data(), std::int64_t{slots()} * heads_, numbers_}; }
  int slots() const { return static_cast<int>(used_.size()); }
  std::span<const float> slot(int slot) const {
    return {memory_.data() + static_cast<std::size_t>(slot) * size(), size()};
  }

  // A free slot, all zeros.
  result<int> take() {
    const auto free = std::find(used_.begin(), used_.end(), false);
    if (free == used_.end())
      return status(Code::resource, "scan states: all " + std::to_string(slots()) + " slots are taken");
    *free = true;
    const int slot = static_cast<int>(free - used_.begin());
    std::fill_n(at(slot), size(), 0.f);
    return slot;
  }
  // A copy of a taken slot in a slot of its own.
  result<int> fork(int slot) {
    FOURFOLD_TRY(check(slot));
    auto copy = take();
    if (copy) std::copy_n(at(slot), size(), at(*copy));
    return copy;
  }
  status drop(int slot) {
    FOURFOLD_TRY(check(slot));
    used_[static_cast<std::size_t>(slot)] = false;
    return {};
  }
  // `slot` goes on from where `fork` stands; the fork is dropped.
  status keep(int fork, int slot) {
    FOURFOLD_TRY(check(slot));
    FOURFOLD_TRY(check(fork));
    if (fork == slot) return {};
    std::copy_n(at(fork), size(), at(slot));
    return drop(fork);
  }

  // A slot as bytes, and back; restore refuses bytes that are not such a slot's, and then changes nothing.
  result<std::vector<char>> save(int slot) const {
    FOURFOLD_TRY(check(slot));
    const Header header = header_for();
    std::vector<char> bytes(sizeof header + size() * sizeof(float));
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, this->slot(slot).data(), size() * sizeof(float));
    return bytes;
  }
  status restore(int slot, std::span<const char> bytes) {
    FOURFOLD_TRY(check(slot));
    Header header{}, want = header_for();
    const auto malformed = [](const std::string& why) { return status(Code::malformed, "scan state: " + why); };
    if (bytes.size() < sizeof header) return malformed(std::to_string(bytes.size()) + " bytes are too few for one");
    std::memcpy(&header, bytes.data(), sizeof header);
    if (std::memcmp(header.magic, want.magic, sizeof header.magic) != 0) return malformed("the bytes are none");
    if (std::memcmp(header.version, want.version, sizeof header.version) != 0)
      return {Code::unsupported, "scan state: of version " + std::string(header.version, sizeof header.version) +
                                     " of its format; this build reads " +
                                     std::string(want.version, sizeof want.version)};
    if (header.heads != want.heads || header.numbers != want.numbers)
      return malformed("it has " + std::to_string(header.heads) + " heads of " + std::to_string(header.numbers) +
                       " numbers, must be " + std::to_string(want.heads) + " of " + std::to_string(want.numbers));
    if (bytes.size() != sizeof header + size() * sizeof(float))
      return malformed(std::to_string(bytes.size()) + " bytes, must be " +
                       std::to_string(sizeof header + size() * sizeof(float)));
    std::memcpy(at(slot), bytes.data() + sizeof header, size() * sizeof(float));
    return {};
  }

 private:
  struct Header {
    char magic[6], version[2];
    std::int64_t heads, numbers;
  };
  Header header_for() const { return {{'f', 'f', 's', 'c', 'a', 'n'}, {'0', '1'}, heads_, numbers_}; }

  ScanStates(int slots, int heads, std::int64_t numbers)
      : heads_(heads),
        numbers_(numbers),
        used_(static_cast<std::size_t>(slots)),
        memory_(static_cast<std::size_t>(slots) * size()) {}

  std::size_t size() const { return static_cast<std::size_t>(heads_) * static_cast<std::size_t>(numbers_); }
  float* at(int slot) { return memory_.data() + static_cast<std::size_t>(slot) * size(); }
  status check(int slot) const {
    if (slot >= 0 && slot < slots() && used_[static_cast<std::size_t>(slot)]) return {};
    return {Code::invalid_argument, "scan states: slot " + std::to_string(slot) + " is not taken"};
  }

  int heads_;
  std::int64_t numbers_;
  std::vector<bool> used_;
  std::vector<float> memory_;
};

}  // namespace fourfold
