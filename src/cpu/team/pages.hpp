// PagePool: pages of one size, held by any number of sequences. PageList: the pages of one sequence, in order.
//
// A page holds consecutive positions of some caches. It counts its holders; only a page's single holder writes to it,
// another one copies it first. Free pages are a stack without locks (Treiber 1986; half of its head is a count of
// changes, so that a page which left and came back meanwhile is noticed). Memory comes in slabs, one for each sequence
// that joins, of as many pages as a sequence can hold: whoever joined finds a page, and taking it never waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu/team/weights.hpp"
#include "fourfold/walk_lists.hpp"

namespace fourfold::team {

class PagePool {
 public:
  static constexpr int kMostSlabs = 1024;  // sequences at a time

  // `most`: pages that one sequence holds at most.
  PagePool(std::size_t page_bytes, int most) : page_bytes_(page_bytes), most_(most) {}

  // Memory for one more sequence. resource: the system gives none, or kMostSlabs sequences are there.
  status join();
  void leave();

  int take() noexcept;  // a page nobody holds, unset bytes; -1: all are held
  void share(int page) noexcept { slot(page).holders.fetch_add(1, std::memory_order_relaxed); }
  void drop(int page) noexcept;
  bool shared(int page) const noexcept { return slot(page).holders.load(std::memory_order_acquire) > 1; }

  std::uint8_t* data(int page) const noexcept {
    return slab(page).memory.data() + page_bytes_ * static_cast<std::size_t>(page % most_);
  }
  std::size_t page_bytes() const { return page_bytes_; }
  int most() const { return most_; }
  int pages() const noexcept { return slab_count_ * most_; }
  int held() const noexcept { return held_.load(std::memory_order_relaxed); }  // pages with a holder

 private:
  struct Slot {
    std::atomic<int> holders{0};
    std::atomic<int> next{-1};  // below it in the stack, while nobody holds it
  };
  struct Slab {
    Mapping memory;
    std::vector<Slot> slots;
  };
  const Slab& slab(int page) const noexcept { return *slabs_[static_cast<std::size_t>(page / most_)]; }
  Slot& slot(int page) const noexcept {
    return slabs_[static_cast<std::size_t>(page / most_)]->slots[static_cast<std::size_t>(page % most_)];
  }
  void push(int first, int last) noexcept;  // pages linked from first to last

  const std::size_t page_bytes_;
  const int most_;
  std::mutex guard_;  // of joining and leaving
  int sequences_ = 0, slab_count_ = 0;
  std::array<std::unique_ptr<Slab>, kMostSlabs> slabs_;
  std::atomic<std::uint64_t> free_{0xffffffff};  // changes << 32 | page on top (-1: none)
  std::atomic<int> held_{0};
};

// What a sequence keeps: `window` 0 every position, else what the last `window` positions need to go on.
struct PageShape {
  int context = 0;             // positions
  int page = 64;               // positions of a page
  int window = 0;              // keys further back are never read
  int batch = 1;               // most positions prepared at once
  int part = 64;               // positions of a part: a page is one or several
  std::size_t part_bytes = 0;  // of all caches that share these pages

  int most_pages() const;
  int held_pages(int position) const;  // once `position` positions are written, the last one by itself
  int oldest_needed(int position) const { return window > 0 && position >= window ? position - window + 1 : 0; }
  std::size_t page_bytes() const { return part_bytes * static_cast<std::size_t>(page / part); }
};

class PageList {
 public:
  static result<PageList> create(const PageShape& shape);
  PageList(PageList&& other) noexcept;
  PageList& operator=(PageList&&) = delete;
  ~PageList();

  // Another sequence with the same pages.
  result<PageList> fork() const;
  // Makes [position, position + tokens) ready to be written: gives pages back that no window reads any more, copies a
  // shared one, takes new ones. resource: beyond the context. invalid_argument: a gap before `position`.
  status prepare(int position, int tokens);
  // Forgets all from `position` on; false, and everything is forgotten, when what a window needs there is gone.
  bool rewind(int position);
  // Holds nothing but unset pages for what `position` needs to go on.
  status jump(int position);

  int end() const { return end_; }
  int oldest() const { return oldest_; }
  // The same as the walk of that name: whose rows lie where.
  result<PageTable> table() const;
  // Part i holds the positions from i * shape().part on; null where no page is held. One null follows the last.
  const std::uint8_t* const* parts() const { return parts_.data(); }
  std::uint8_t* part(int position) const { return parts_[static_cast<std::size_t>(position / shape_.part)]; }
  const PageShape& shape() const { return shape_; }
  std::size_t held_bytes() const;
  const PagePool& pool() const { return *pool_; }

 private:
  PageList(std::shared_ptr<PagePool> pool, const PageShape& shape);
  int pages_to(int position) const { return (position + shape_.page - 1) / shape_.page; }
  status take(int pages);  // until the list holds them up to this index
  void set(int index, int page);
  void drop(int first, int end);

  std::shared_ptr<PagePool> pool_;
  PageShape shape_;
  int first_ = 0, held_ = 0;  // the list holds the pages [first, held)
  int oldest_ = 0, end_ = 0;  // positions written, or about to be, that it still holds
  std::vector<int> pages_;    // by position / page; -1: not held
  std::vector<std::uint8_t*> parts_;
};

}  // namespace fourfold::team
