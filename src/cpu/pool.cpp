// The slow sides of Pool: starting, waiting long, ending.
#include "cpu/pool.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <system_error>

#include "cpu/topology.hpp"

namespace fourfold {
namespace {

constexpr std::int64_t kSpinNs = 50'000;           // then yield
constexpr std::int64_t kSleepAfterNs = 1'000'000;  // then sleep
constexpr std::int64_t kParkAfterNs = 1'000'000;   // an idle thread parks
constexpr std::int64_t kParkEarlyNs = 50'000;      // the same where threads take turns
constexpr auto kNap = std::chrono::microseconds(50);

std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Threads of the pool leave signals to the threads of the program.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

void Backoff::long_pause() noexcept {
  const std::int64_t now = now_ns();
  if (start_ns_ == 0) start_ns_ = now;
  waited_ns_ = now - start_ns_;
  yielding_ = yielding_ || waited_ns_ > kSpinNs;
  if (waited_ns_ > kSleepAfterNs) {
    std::this_thread::sleep_for(kNap);
  } else if (yielding_) {
    sched_yield();
  }
}

result<std::unique_ptr<Pool>> Pool::create(int threads) {
  if (threads < 1 || threads > kMaxThreads) {
    return status(Code::invalid_argument,
                  "threads: " + std::to_string(threads) + " is not in 1 .. " + std::to_string(kMaxThreads));
  }
  const Topology topology = read_topology();
  std::unique_ptr<Pool> pool(new Pool(threads, threads > topology.budget()));
  try {
    const SignalsBlocked blocked;
    pool->threads_.reserve(static_cast<std::size_t>(threads));
    for (int i = 1; i < threads; ++i) {
      Worker& worker = pool->workers_[static_cast<std::size_t>(i)].worker;
      pool->threads_.emplace_back([&worker, p = pool.get()] { p->serve(worker); });
    }
  } catch (const std::system_error& error) {
    return status(Code::resource, "threads: the system starts " + std::to_string(pool->threads_.size() + 1) + " of " +
                                      std::to_string(threads) + " (" + error.what() + ")");
  }
  const bool fills = threads > 1 && threads == topology.budget() && topology.allowed.size() == pool->workers_.size();
  if (fills && topology.allowed.back() < CPU_SETSIZE) pool->settle(topology.allowed);
  return pool;
}

// One processor for each worker; the caller's stays where it is. The caller itself is moved when it runs.
void Pool::settle(const std::vector<int>& processors) noexcept {
  homes_ = processors;
  const auto here = std::find(homes_.begin(), homes_.end(), sched_getcpu());
  if (here != homes_.end()) std::iter_swap(homes_.begin(), here);
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(homes_[i + 1]), &set);
    pthread_setaffinity_np(threads_[i].native_handle(), sizeof set, &set);
  }
}

// Brings the calling thread to its own processor if it is on another worker's, and leaves its mask as it was.
void Pool::move_home() noexcept {
  if (homes_.empty() || sched_getcpu() == homes_.front()) return;
  cpu_set_t before;
  if (sched_getaffinity(0, sizeof before, &before) != 0) return;
  cpu_set_t home;
  CPU_ZERO(&home);
  CPU_SET(static_cast<std::size_t>(homes_.front()), &home);
  if (sched_setaffinity(0, sizeof home, &home) == 0) sched_setaffinity(0, sizeof before, &before);
}

Pool::Pool(int threads, bool take_turns) : take_turns_(take_turns) {
  std::size_t rounds = 0;
  while ((1 << rounds) < threads) ++rounds;
  flags_ = std::vector<Flag>(rounds * static_cast<std::size_t>(threads));
  workers_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    Worker& worker = workers_.emplace_back(Seat{Worker(i, threads, take_turns)}).worker;
    for (std::size_t round = 0; round < rounds; ++round) {
      const int to = (i + (1 << round)) % threads;
      worker.signal_[round] = &flags_[static_cast<std::size_t>(to) * rounds + round].epoch;
      worker.await_[round] = &flags_[static_cast<std::size_t>(i) * rounds + round].epoch;
    }
  }
}

Pool::~Pool() {
  start(Job{});
  for (std::thread& thread : threads_) thread.join();
}

status Pool::run(Job job) {
  if (busy_.exchange(true, std::memory_order_acquire)) {
    return status(Code::invalid_argument, "pool: a run is under way on this pool; runs neither nest nor overlap");
  }
  Worker& caller = workers_.front().worker;
  move_home();
  if (caller.count > 1) start(job);
  job.call(job.program, caller);
  caller.barrier();
  busy_.store(false, std::memory_order_release);
  return {};
}

void Pool::start(Job job) noexcept {
  job_ = job;
  generation_.fetch_add(1, std::memory_order_seq_cst);
  generation_.notify_all();  // a load of one counter unless somebody parks
}

void Pool::serve(Worker& worker) noexcept {
  const std::int64_t park_after_ns = take_turns_ ? kParkEarlyNs : kParkAfterNs;
  std::uint32_t seen = 0;
  while (true) {
    Backoff backoff(take_turns_);
    while (generation_.load(std::memory_order_acquire) == seen) {
      if (backoff.waited_ns() < park_after_ns) {
        backoff.pause();
      } else {
        generation_.wait(seen, std::memory_order_acquire);
      }
    }
    ++seen;
    const Job job = job_;
    if (job.call == nullptr) return;
    job.call(job.program, worker);
    worker.barrier();
  }
}

}  // namespace fourfold
