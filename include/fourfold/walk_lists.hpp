// Walks whose tiles are data: block lists, index lists, trees, page tables. Each is checked once, when it is made.
#pragma once

#include <fourfold/status.hpp>
#include <fourfold/walk.hpp>
#include <span>
#include <string>

namespace fourfold {

// Block-sparse attention. Queries in blocks of `query_block`, keys in blocks of `key_block`; query block i visits the
// key blocks ids[offsets[i]] .. ids[offsets[i + 1] - 1], ascending. Queries beyond the last block see nothing.
class BlockList {
 public:
  static result<BlockList> make(std::span<const int> offsets, std::span<const int> ids, int query_block,
                                int key_block) {
    const auto bad = [](std::string why) { return status(Code::invalid_argument, "block list: " + std::move(why)); };
    if (query_block < 1 || key_block < 1) return bad("block sizes must be at least 1");
    if (offsets.empty() || offsets.front() != 0 || offsets.back() != static_cast<int>(ids.size()))
      return bad("offsets must begin with 0 and end with the number of ids, " + std::to_string(ids.size()));
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      if (offsets[i + 1] < offsets[i] || offsets[i + 1] > offsets.back()) return bad("offsets must not descend");
      for (int n = offsets[i]; n < offsets[i + 1]; ++n) {
        const int least = n == offsets[i] ? 0 : ids[n - 1] + 1, most = kEveryKey / key_block - 1;
        if (ids[n] < least || ids[n] > most)
          return bad("id " + std::to_string(ids[n]) + " of query block " + std::to_string(i) + " must be in [" +
                     std::to_string(least) + ", " + std::to_string(most) + "]");
      }
    }
    return BlockList(offsets, ids, query_block, key_block);
  }

  constexpr bool visible(int query, int key) const {
    if (query < 0 || query / query_block_ >= blocks()) return false;
    const std::span<const int> list = of(query / query_block_);
    const int at = first_not_below(list, key / key_block_);
    return at < static_cast<int>(list.size()) && list[at] == key / key_block_;
  }
  constexpr auto tiles(Range queries) const {
    const Range q = queries & Range{0, kEveryKey};
    const Range rows =
        Range{q.first / query_block_, (q.end - 1) / query_block_ + 1} & Range{0, q.empty() ? 0 : blocks()};
    return RangeView([self = *this, rows](int from) {
      int least = kEveryKey;
      for (int row = rows.first; row < rows.end; ++row) {
        const std::span<const int> list = self.of(row);
        const int at = first_not_below(list, from / self.key_block_);
        if (at < static_cast<int>(list.size()) && list[at] < least) least = list[at];
      }
      if (least == kEveryKey) return Range{};
      return Range{least * self.key_block_, (least + 1) * self.key_block_} & Range{from, kEveryKey};
    });
  }

 private:
  constexpr BlockList(std::span<const int> offsets, std::span<const int> ids, int query_block, int key_block)
      : offsets_(offsets), ids_(ids), query_block_(query_block), key_block_(key_block) {}
  constexpr int blocks() const { return static_cast<int>(offsets_.size()) - 1; }
  constexpr std::span<const int> of(int row) const {
    return ids_.subspan(offsets_[row], offsets_[row + 1] - offsets_[row]);
  }
  static constexpr int first_not_below(std::span<const int> list, int id) {
    int low = 0, high = static_cast<int>(list.size());
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (list[middle] < id) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  std::span<const int> offsets_, ids_;
  int query_block_, key_block_;
};

// Top-k sparse attention: query i visits the keys ids[offsets[i]] .. ids[offsets[i + 1] - 1], ascending.
struct IndexList : BlockList {
  static result<IndexList> make(std::span<const int> offsets, std::span<const int> ids) {
    auto blocks = BlockList::make(offsets, ids, 1, 1);
    if (!blocks) return blocks.error();
    return IndexList{*blocks};
  }
};

// A tree of guesses after a common prefix: node i stands at position prefix + i and sees the prefix, itself and its
// ancestors. parents[i] is a node before i, or -1 for a child of the prefix.
class TreeMask {
 public:
  static result<TreeMask> make(int prefix, std::span<const int> parents) {
    if (prefix < 0) return status(Code::invalid_argument, "tree mask: prefix must not be negative");
    for (std::size_t i = 0; i < parents.size(); ++i)
      if (parents[i] < -1 || parents[i] >= static_cast<int>(i))
        return status(Code::invalid_argument, "tree mask: parent " + std::to_string(parents[i]) + " of node " +
                                                  std::to_string(i) + " must be -1 or a node before it");
    return TreeMask(prefix, parents);
  }

  constexpr bool visible(int query, int key) const {
    if (key < prefix_ || query < prefix_) return key <= query;
    int node = query - prefix_;
    if (node >= static_cast<int>(parents_.size())) return false;
    while (node > key - prefix_) node = parents_[node];
    return node == key - prefix_;
  }
  constexpr Ranges tiles(Range queries) const { return ranges({0, queries.end}); }

 private:
  constexpr TreeMask(int prefix, std::span<const int> parents) : prefix_(prefix), parents_(parents) {}

  int prefix_;
  std::span<const int> parents_;
};

// Keys kept in pages of `page_size` rows: key k lies in row pages[k / page_size] * page_size + k % page_size of a pool
// of `pool_pages` pages. As a walk it visits the keys that exist, [first, length), page by page, so that a tile is
// contiguous in memory; `PageTable & Causal` composes. A window has given back the pages before `first`: their entries
// are never looked at. `Paged` (load.hpp) reads through the same table.
class PageTable {
 public:
  static result<PageTable> make(std::span<const int> pages, int page_size, int pool_pages, int length, int first = 0) {
    const auto bad = [](std::string why) { return status(Code::invalid_argument, "page table: " + std::move(why)); };
    if (page_size < 1) return bad("page size " + std::to_string(page_size) + " must be at least 1");
    const long long capacity = static_cast<long long>(pages.size()) * page_size;
    if (length < 0 || length > capacity)
      return bad("length " + std::to_string(length) + " must be in [0, " + std::to_string(capacity) + "], " +
                 std::to_string(pages.size()) + " pages of " + std::to_string(page_size));
    if (first < 0 || first > length)
      return bad("first " + std::to_string(first) + " must be in [0, " + std::to_string(length) + "]");
    for (std::size_t i = static_cast<std::size_t>(first / page_size); i < pages.size(); ++i)
      if (pages[i] < 0 || pages[i] >= pool_pages)
        return bad("page id " + std::to_string(pages[i]) + " at entry " + std::to_string(i) + " must be in [0, " +
                   std::to_string(pool_pages) + ")");
    return PageTable(pages, page_size, first, length);
  }

  constexpr int length() const { return length_; }
  constexpr long long row(long long key) const {
    return static_cast<long long>(pages_[key / page_size_]) * page_size_ + key % page_size_;
  }
  constexpr bool visible(int, int key) const { return key >= first_ && key < length_; }
  constexpr auto tiles(Range) const {
    return RangeView([size = page_size_, first = first_, length = length_](int from) {
      if (from < first) from = first;
      if (from >= length) return Range{};
      const int left = size - from % size;
      return Range{from, left < length - from ? from + left : length};
    });
  }

 private:
  constexpr PageTable(std::span<const int> pages, int page_size, int first, int length)
      : pages_(pages), page_size_(page_size), first_(first), length_(length) {}

  std::span<const int> pages_;
  int page_size_, first_, length_;
};

}  // namespace fourfold
