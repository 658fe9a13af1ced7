// A flat hash map from two 32-bit numbers to a small value: merges (left id, right id), trie edges (node, byte).
//
// Open addressing with linear probing, at most half full, one array of slots; a lookup costs one cache miss.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace fourfold {

template <class Value>
class PairMap {
 public:
  void reserve(std::size_t count) {
    if (count * 2 > slots_.size()) rebuild(std::bit_ceil(count * 2 + 2));
  }
  void assign(std::uint32_t a, std::uint32_t b, Value value) {
    reserve(count_ + 1);
    Slot& slot = slots_[place(key_of(a, b))];
    if (slot.key == kEmpty) {
      slot.key = key_of(a, b);
      ++count_;
    }
    slot.value = value;
  }
  const Value* find(std::uint32_t a, std::uint32_t b) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place(key_of(a, b))];
    return slot.key == kEmpty ? nullptr : &slot.value;
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // so the pair (2^32-1, 2^32-1) is no key
  struct Slot {
    std::uint64_t key = kEmpty;
    Value value{};
  };

  static std::uint64_t key_of(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }
  std::size_t place(std::uint64_t key) const {
    std::uint64_t h = (key ^ key >> 29) * 0x9E3779B97F4A7C15u;
    std::size_t at = (h ^ h >> 32) & (slots_.size() - 1);
    while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void rebuild(std::size_t size) {
    std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(size));
    for (const Slot& slot : old)
      if (slot.key != kEmpty) slots_[place(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace fourfold
