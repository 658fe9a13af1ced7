#include "cpu/team/pages.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace fourfold::team {
namespace {

constexpr std::uint64_t kChange = std::uint64_t{1} << 32;

int top(std::uint64_t head) { return static_cast<int>(static_cast<std::uint32_t>(head)); }
std::uint64_t changed(std::uint64_t head, int top) {
  return (head / kChange + 1) * kChange | static_cast<std::uint32_t>(top);
}

}  // namespace

status PagePool::join() {
  const std::lock_guard lock(guard_);
  if (sequences_ < slab_count_) return ++sequences_, status{};
  if (slab_count_ == kMostSlabs)
    return {Code::resource, "caches: " + std::to_string(kMostSlabs) + " sessions share one pool already"};
  auto memory = Mapping::create(page_bytes_ * static_cast<std::size_t>(most_));
  if (!memory.ok()) return memory.error();
  const int first = slab_count_ * most_;
  auto& slab = slabs_[static_cast<std::size_t>(slab_count_)];
  slab.reset(new Slab{std::move(memory).value(), std::vector<Slot>(static_cast<std::size_t>(most_))});
  for (int i = 0; i + 1 < most_; ++i) slab->slots[static_cast<std::size_t>(i)].next = first + i + 1;
  ++slab_count_;
  ++sequences_;
  push(first, first + most_ - 1);
  return {};
}

void PagePool::leave() {
  const std::lock_guard lock(guard_);
  --sequences_;
}

void PagePool::push(int first, int last) noexcept {
  std::uint64_t head = free_.load(std::memory_order_relaxed);
  do slot(last).next.store(top(head), std::memory_order_relaxed);
  while (!free_.compare_exchange_weak(head, changed(head, first), std::memory_order_acq_rel));
}

int PagePool::take() noexcept {
  std::uint64_t head = free_.load(std::memory_order_acquire);
  while (top(head) >= 0) {
    const int page = top(head), next = slot(page).next.load(std::memory_order_relaxed);
    if (!free_.compare_exchange_weak(head, changed(head, next), std::memory_order_acq_rel)) continue;
    slot(page).holders.store(1, std::memory_order_relaxed);
    held_.fetch_add(1, std::memory_order_relaxed);
    return page;
  }
  return -1;
}

void PagePool::drop(int page) noexcept {
  if (slot(page).holders.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  held_.fetch_sub(1, std::memory_order_relaxed);
  push(page, page);
}

int PageShape::most_pages() const {
  const int all = (context + page - 1) / page;
  return window > 0 ? std::min<int>(all, (window - 1 + batch + page - 1) / page + 1) : all;
}

int PageShape::held_pages(int position) const {
  return position == 0 ? 0 : (position + page - 1) / page - oldest_needed(position - 1) / page;
}

result<PageList> PageList::create(const PageShape& shape) {
  auto pool = std::make_shared<PagePool>(shape.page_bytes(), shape.most_pages());
  FOURFOLD_TRY(pool->join());
  return PageList(std::move(pool), shape);
}

PageList::PageList(std::shared_ptr<PagePool> pool, const PageShape& shape) : pool_(std::move(pool)), shape_(shape) {
  const int pages = pages_to(shape.context);
  pages_.assign(static_cast<std::size_t>(pages), -1);
  parts_.assign(static_cast<std::size_t>(pages * (shape.page / shape.part) + 1), nullptr);
}

PageList::PageList(PageList&& other) noexcept = default;

PageList::~PageList() {
  if (!pool_) return;
  drop(first_, held_);
  pool_->leave();
}

result<PageList> PageList::fork() const {
  FOURFOLD_TRY(pool_->join());
  PageList copy(pool_, shape_);
  for (int i = first_; i < held_; ++i) {
    pool_->share(pages_[static_cast<std::size_t>(i)]);
    copy.set(i, pages_[static_cast<std::size_t>(i)]);
  }
  copy.first_ = first_;
  copy.held_ = held_;
  copy.oldest_ = oldest_;
  copy.end_ = end_;
  return copy;
}

void PageList::set(int index, int page) {
  pages_[static_cast<std::size_t>(index)] = page;
  const int parts = shape_.page / shape_.part;
  for (int i = 0; i < parts; ++i)
    parts_[static_cast<std::size_t>(index * parts + i)] =
        page < 0 ? nullptr : pool_->data(page) + shape_.part_bytes * static_cast<std::size_t>(i);
}

void PageList::drop(int first, int end) {
  for (int i = first; i < end; ++i) {
    pool_->drop(pages_[static_cast<std::size_t>(i)]);
    set(i, -1);
  }
}

status PageList::take(int pages) {
  for (; held_ < pages; ++held_) {
    const int page = pool_->take();
    if (page < 0) return {Code::resource, "caches: no page is left; the plan has " + std::to_string(pool_->most())};
    set(held_, page);
  }
  return {};
}

status PageList::prepare(int position, int tokens) {
  if (position < 0 || tokens < 0 || tokens > shape_.context - position)
    return {Code::resource, "page table: positions " + std::to_string(position) + " to " +
                                std::to_string(position + tokens - 1) + " do not fit: its pages hold " +
                                std::to_string(shape_.context)};
  if (position > end_ || (position < end_ && !rewind(position)))
    return {Code::invalid_argument, "page table: position " + std::to_string(position) + " does not follow on the " +
                                        std::to_string(end_) + " that are held"};
  const int needed = std::min(shape_.oldest_needed(position) / shape_.page, held_);
  drop(first_, needed);
  first_ = std::max(first_, needed);
  oldest_ = std::max(oldest_, first_ * shape_.page);
  const int last = position / shape_.page;
  if (last < held_ && pool_->shared(pages_[static_cast<std::size_t>(last)])) {
    const int page = pool_->take(), old = pages_[static_cast<std::size_t>(last)];
    if (page < 0) return {Code::resource, "caches: no page is left; the plan has " + std::to_string(pool_->most())};
    std::memcpy(pool_->data(page), pool_->data(old), pool_->page_bytes());
    set(last, page);
    pool_->drop(old);
  }
  FOURFOLD_TRY(take(pages_to(position + tokens)));
  end_ = position + tokens;
  return {};
}

bool PageList::rewind(int position) {
  const bool gone = shape_.oldest_needed(position) < oldest_;
  const int keep = gone ? first_ : std::max(first_, pages_to(position));
  drop(keep, held_);
  held_ = keep;
  end_ = position;
  if (!gone) return true;
  first_ = held_ = oldest_ = end_ = 0;
  return position == 0;
}

status PageList::jump(int position) {
  rewind(0);
  oldest_ = shape_.oldest_needed(position);
  first_ = held_ = oldest_ / shape_.page;
  end_ = position;
  return take(pages_to(position));
}

result<PageTable> PageList::table() const {
  return PageTable::make(std::span(pages_).first(static_cast<std::size_t>(held_)), shape_.page, pool_->pages(), end_,
                         oldest_);
}

std::size_t PageList::held_bytes() const { return pool_->page_bytes() * static_cast<std::size_t>(held_ - first_); }

}  // namespace fourfold::team
