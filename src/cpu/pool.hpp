// Pool: a team of threads that runs one program together, with barriers cheap enough for phases of a few microseconds.
//
// `run(f)` executes f(Worker&) once on every thread, the caller being worker 0, and returns when all have finished.
// Inside, `Worker::barrier()` separates phases. It is a dissemination barrier (Hensgen, Finkel and Manber 1988): in
// round r worker i signals worker i + 2^r and waits for worker i - 2^r, so two threads exchange one cache line each way
// and nobody owns a counter. Every flag has one writer, one reader and a cache line of its own.
// A team that fills the processors allowed has one processor for each worker: left alone, the kernel may run two
// spinning workers on one of them and leave another idle, and every barrier then waits for a time slice.
// What binds: the latency of a cache line between cores, log2(count) times.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <fourfold/status.hpp>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace fourfold {

inline constexpr std::size_t kLine = 128;  // two 64-byte lines: processors prefetch them in pairs

inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Starts to bring a line here for writing.
inline void fetch_to_write(const void* p) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1);
#endif
}

// Waits in steps: spins, then gives the processor away, then sleeps. Threads that must take turns skip the spinning.
class Backoff {
 public:
  explicit Backoff(bool take_turns) : yielding_(take_turns) {}

  void pause() noexcept {
    if (++pauses_ % kPausesPerClock != 0 && !yielding_) return relax();
    long_pause();
  }
  std::int64_t waited_ns() const noexcept { return waited_ns_; }  // as of the last look at the clock

 private:
  static constexpr std::uint32_t kPausesPerClock = 64;
  void long_pause() noexcept;

  bool yielding_;
  std::uint32_t pauses_ = 0;
  std::int64_t start_ns_ = 0, waited_ns_ = 0;
};

// [begin, end)
struct Share {
  std::int64_t begin = 0, end = 0;
  friend bool operator==(const Share&, const Share&) = default;
};

// One thread's part in a running program. Every worker of a run must pass the same number of barriers.
class Worker {
 public:
  Worker(int index, int count, bool take_turns) : index(index), count(count), take_turns_(take_turns) {}
  const int index;  // 0 .. count - 1
  const int count;

  // Returns when every worker has arrived; what each wrote before is then visible to all.
  void barrier() noexcept {
    barrier([]() noexcept { return false; });
  }

  // The same; while others are missing, calls idle() until it returns false (to prefetch what the next phase reads).
  template <class Idle>
  void barrier(Idle&& idle) noexcept {
    if (count == 1) return;
    ++epoch_;
    bool more = true;
    for (int hop = 1, round = 0; hop < count; hop *= 2, ++round) {
      signal_[round]->store(epoch_, std::memory_order_release);
      Backoff backoff(take_turns_);
      while (static_cast<std::int32_t>(await_[round]->load(std::memory_order_acquire) - epoch_) < 0) {
        if (more) {
          more = idle();
        } else {
          backoff.pause();
        }
      }
    }
  }

  // This worker's part of n items, in whole multiples of `grain` (the last part takes the remainder).
  Share share(std::int64_t n, std::int64_t grain = 1) const noexcept {
    const std::int64_t grains = (n + grain - 1) / grain;
    const auto bound = [&](std::int64_t i) { return std::min(n, grains * i / count * grain); };
    return {bound(index), bound(index + 1)};
  }

 private:
  friend class Pool;
  static constexpr int kRounds = 10;
  bool take_turns_;
  std::uint32_t epoch_ = 0;
  std::array<std::atomic<std::uint32_t>*, kRounds> signal_{};
  std::array<const std::atomic<std::uint32_t>*, kRounds> await_{};
};

class Pool {
 public:
  static constexpr int kMaxThreads = 1 << Worker::kRounds;

  // A pool of `threads` in 1 .. kMaxThreads, the caller of run() included. A number above the processors available is
  // obeyed: waiting threads then yield at once.
  static result<std::unique_ptr<Pool>> create(int threads);

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  int threads() const noexcept { return static_cast<int>(workers_.size()); }

  // Runs f(Worker&) on every thread; f must not throw. Refused (invalid_argument) while another run is under way on
  // this pool, be it from inside f or from another thread. A thread idle for about a millisecond between runs parks.
  template <class F>
  status run(F&& f) {
    using Program = std::remove_reference_t<F>;
    return run(Job{[](void* program, Worker& worker) noexcept { (*static_cast<Program*>(program))(worker); },
                   const_cast<void*>(static_cast<const void*>(std::addressof(f)))});
  }

 private:
  struct Job {
    void (*call)(void*, Worker&) noexcept = nullptr;  // null asks the thread to end
    void* program = nullptr;
  };
  struct alignas(kLine) Flag {
    std::atomic<std::uint32_t> epoch{0};
  };
  struct alignas(kLine) Seat {
    Worker worker;
  };

  Pool(int threads, bool take_turns);
  void settle(const std::vector<int>& processors) noexcept;
  void move_home() noexcept;
  status run(Job job);
  void start(Job job) noexcept;
  void serve(Worker& worker) noexcept;

  const bool take_turns_;
  std::vector<int> homes_;  // processor of each worker, when the team fills the processors; else empty
  std::vector<Flag> flags_;
  std::vector<Seat> workers_;
  std::vector<std::thread> threads_;
  alignas(kLine) std::atomic<std::uint32_t> generation_{0};  // counts starts; idle threads watch it
  Job job_;                                                  // published by generation_
  alignas(kLine) std::atomic<bool> busy_{false};
};

// Hands out chunks 0 .. n - 1 to the workers of a run as they ask. Each worker starts with a part of its own, whose
// first chunk nobody else takes, and, when that is used up, helps the others. Which worker gets a chunk depends on
// timing: results must not depend on it.
//
// All workers take part in every phase, with the same n, and there is a barrier between two phases. A part's counter
// holds the phase it counts for: whoever comes first in a phase opens it, nobody resets it. A counter that another
// worker wrote takes as long to come as a barrier: it is fetched during the first chunk, and a worker whose own counter
// says that all others are done asks for no more.
class ChunkQueue {
 public:
  explicit ChunkQueue(int workers) : parts_(static_cast<std::size_t>(workers)) {}

  // Calls f(chunk) for each chunk that this worker gets.
  template <class F>
  void each(const Worker& worker, std::int64_t n, F&& f) {
    const auto count = static_cast<std::int64_t>(parts_.size());
    const std::uint64_t phase = ++parts_[static_cast<std::size_t>(worker.index)].phase;
    for (std::int64_t turn = 0; turn < count; ++turn) {
      const std::int64_t part = (worker.index + turn) % count;
      const std::int64_t first = n * part / count, size = n * (part + 1) / count - first;
      std::atomic<std::uint64_t>& next = parts_[static_cast<std::size_t>(part)].next;
      if (turn == 0) {
        fetch_to_write(&next);
        if (size > 0) f(first);
      }
      std::int64_t i;
      while ((i = claim(next, phase)) < size) f(first + i);
      if (turn == 0 && i - std::max<std::int64_t>(size, 1) == count - 1) return;  // all others came, their own used up
    }
  }

 private:
  static constexpr int kPhaseShift = 32;
  struct alignas(kLine) Part {
    std::atomic<std::uint64_t> next{0};     // phase, then the next chunk; an open part's own first chunk is taken
    alignas(kLine) std::uint64_t phase{0};  // phases its worker has entered
  };

  static std::int64_t claim(std::atomic<std::uint64_t>& next, std::uint64_t phase) {
    std::uint64_t seen = next.load(std::memory_order_relaxed);
    const std::uint64_t open = phase << kPhaseShift;
    if (seen < open) next.compare_exchange_strong(seen, open + 1, std::memory_order_relaxed);
    return static_cast<std::int64_t>(next.fetch_add(1, std::memory_order_relaxed) - open);
  }

  std::vector<Part> parts_;
};

}  // namespace fourfold
