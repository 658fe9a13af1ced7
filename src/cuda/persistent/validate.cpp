#include "cuda/persistent/validate.hpp"

#include <algorithm>

namespace fourfold::cuda::persistent {
namespace {

using Clock = std::vector<int>;  // per CTA: how many of its tasks surely happened before

void join(Clock& into, const Clock& other) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

status wrong(const std::string& fault, const std::string& where) {
  return {Code::malformed, "persistent plan: " + fault + ": " + where};
}

status check_overlap(const Plan& plan) {
  for (const Buffer& a : plan.buffers) {
    if (a.offset < 0 || a.offset + a.width > plan.arena)
      return wrong("overlap", "buffer " + a.name + " ends at " + std::to_string(a.offset + a.width) + " of " +
                                  std::to_string(plan.arena));
    for (const Buffer& b : plan.buffers)
      if (&a != &b && a.offset < b.offset + b.width && b.offset < a.offset + a.width)
        return wrong("overlap", "buffers " + a.name + " and " + b.name);
  }
  return {};
}

// One run of the plan. Numbers are followed in cells of kCell, which no two tasks share.
class Run {
 public:
  Run(const Plan& plan, int tokens) : plan_(plan), tokens_(tokens), ctas_(static_cast<std::size_t>(plan.grid())) {
    clocks_.assign(ctas_, Clock(ctas_, 0));
    next_.assign(ctas_, 0);
    count_.assign(plan.counters.size(), 0);
    versions_.resize(plan.counters.size());
    for (const Buffer& b : plan.buffers) cells_.emplace_back(static_cast<std::size_t>((b.width + kCell - 1) / kCell));
    for (const auto& list : plan.tasks) {
      footprints_.emplace_back();
      for (const Task& task : list) footprints_.back().push_back(footprint(plan, task));
    }
  }

  status run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t cta = 0; cta < ctas_; ++cta)
        while (more(cta) && ready(cta)) {
          FOURFOLD_TRY(step(cta));
          moved = true;
        }
    }
    for (std::size_t cta = 0; cta < ctas_; ++cta)
      if (more(cta)) return stuck(cta);
    return all_written();
  }

 private:
  static constexpr int kCell = 2;  // divides what warps, heads and states own

  struct Cell {
    int version = -1;  // token * versions + version
    int cta = 0, task = 0;
    Clock readers;  // per CTA: 1 + its last task that read
  };
  struct Version {
    int arrived = 0;
    Clock clock;
    std::vector<std::pair<int, int>> from;  // CTA and its task
  };

  std::size_t tasks(std::size_t cta) const { return plan_.tasks[cta].size(); }
  bool more(std::size_t cta) const { return next_[cta] < static_cast<int>(tasks(cta)) * tokens_; }
  int token(std::size_t cta) const { return next_[cta] / static_cast<int>(tasks(cta)); }
  std::size_t index(std::size_t cta) const { return static_cast<std::size_t>(next_[cta]) % tasks(cta); }
  const Footprint& now(std::size_t cta) const { return footprints_[cta][index(cta)]; }
  std::string name(std::size_t cta) const {
    return plan_.phase(plan_.tasks[cta][index(cta)]).name + " of CTA " + std::to_string(cta);
  }
  const Counter& counter(int c) const { return plan_.counters[static_cast<std::size_t>(c)]; }

  // How many versions have to be there, over all tokens.
  int wanted(std::size_t cta, const Wait& w) const { return token(cta) * counter(w.counter).versions + w.version + 1; }
  bool arrived(std::size_t cta, const Wait& w) const {
    return count_[static_cast<std::size_t>(w.counter)] >= wanted(cta, w) * counter(w.counter).arrivals;
  }
  bool ready(std::size_t cta) const {
    const auto& waits = now(cta).waits;
    return std::all_of(waits.begin(), waits.end(), [&](const Wait& w) { return arrived(cta, w); });
  }

  status step(std::size_t cta) {
    Clock& clock = clocks_[cta];
    for (const Wait& w : now(cta).waits)
      if (const int version = wanted(cta, w) - 1; version >= 0)
        join(clock, versions_[static_cast<std::size_t>(w.counter)][static_cast<std::size_t>(version)].clock);
    for (const Access& a : now(cta).reads) FOURFOLD_TRY(read(cta, a));
    for (const Access& a : now(cta).writes) FOURFOLD_TRY(write(cta, a));
    clock[cta] = next_[cta] + 1;
    for (const Arrival& a : now(cta).arrivals) FOURFOLD_TRY(arrive(cta, a));
    ++next_[cta];
    return {};
  }

  // Versions of a buffer in one token: those its phases write.
  int versions_of(int buffer) const {
    int most = 0;
    for (const Phase& p : plan_.phases)
      if (p.kind != Kind::sample && p.out.buffer == buffer) most = std::max(most, p.out.version + 1);
    return most;
  }
  int absolute(std::size_t cta, Ref at) {
    if (per_token_.empty())
      for (std::size_t b = 0; b < plan_.buffers.size(); ++b) per_token_.push_back(versions_of(static_cast<int>(b)));
    return token(cta) * per_token_[static_cast<std::size_t>(at.buffer)] + at.version;
  }
  bool before(std::size_t cta, int other, int task) const {
    return clocks_[cta][static_cast<std::size_t>(other)] > task;
  }

  template <class F>
  status each_cell(std::size_t cta, const Access& a, F f) {
    auto& cells = cells_[static_cast<std::size_t>(a.at.buffer)];
    for (int at = a.span.first / kCell; at * kCell < a.span.last(); ++at) {
      const char* fault =
          at < static_cast<int>(cells.size()) ? f(cells[static_cast<std::size_t>(at)]) : "read too early";
      if (fault)
        return wrong(fault, name(cta) + ", " + plan_.buffer(a.at).name + "[" + std::to_string(at * kCell) + "]");
    }
    return {};
  }
  status read(std::size_t cta, const Access& a) {
    const int version = absolute(cta, a.at);
    return each_cell(cta, a, [&](Cell& cell) -> const char* {
      if (cell.version != version || !before(cta, cell.cta, cell.task)) return "read too early";
      if (cell.readers.empty()) cell.readers.assign(ctas_, 0);
      cell.readers[cta] = next_[cta] + 1;
      return nullptr;
    });
  }
  status write(std::size_t cta, const Access& a) {
    const int version = absolute(cta, a.at);
    return each_cell(cta, a, [&](Cell& cell) -> const char* {
      if (cell.version >= version) return "written twice";
      if (cell.version >= 0 && !before(cta, cell.cta, cell.task)) return "overwritten";
      for (std::size_t other = 0; other < cell.readers.size(); ++other)
        if (cell.readers[other] > clocks_[cta][other] && other != cta) return "overwritten";
      cell = {version, static_cast<int>(cta), next_[cta], {}};
      return nullptr;
    });
  }

  status arrive(std::size_t cta, const Arrival& a) {
    auto& list = versions_[static_cast<std::size_t>(a.counter)];
    for (int i = 0; i < a.count; ++i) {
      const int v = count_[static_cast<std::size_t>(a.counter)]++ / std::max(counter(a.counter).arrivals, 1);
      if (v >= static_cast<int>(list.size())) list.resize(static_cast<std::size_t>(v) + 1);
      Version& version = list[static_cast<std::size_t>(v)];
      if (version.clock.empty()) version.clock.assign(ctas_, 0);
      join(version.clock, clocks_[cta]);
      version.from.push_back({static_cast<int>(cta), next_[cta]});
      if (v == 0) continue;
      for (const auto& [other, task] : list[static_cast<std::size_t>(v) - 1].from)
        if (!before(cta, other, task)) return wrong("mixed arrivals", name(cta) + ", " + counter(a.counter).name);
    }
    return {};
  }

  status stuck(std::size_t cta) const {
    for (const Wait& w : now(cta).waits) {
      if (arrived(cta, w)) continue;
      const int have = count_[static_cast<std::size_t>(w.counter)], want = wanted(cta, w) * counter(w.counter).arrivals;
      const std::string where = name(cta) + " waits for " + counter(w.counter).name + ", which has " +
                                std::to_string(have) + " of " + std::to_string(want) + " arrivals";
      const int all = counter(w.counter).versions * counter(w.counter).arrivals;
      return wrong(arrivals_of_token(w.counter) < all ? "missing arrival" : "cycle", where);
    }
    return wrong("cycle", name(cta));
  }
  // Arrivals that the tasks of one token bring to a counter.
  int arrivals_of_token(int c) const {
    int sum = 0;
    for (const auto& list : footprints_)
      for (const Footprint& f : list)
        for (const Arrival& a : f.arrivals) sum += a.counter == c ? a.count : 0;
    return sum;
  }

  status all_written() const {
    for (std::size_t b = 0; b < cells_.size(); ++b)
      for (std::size_t i = 0; i < cells_[b].size(); ++i)
        if (cells_[b][i].version + 1 < tokens_ * versions_of(static_cast<int>(b)))
          return wrong("never written", plan_.buffers[b].name + "[" + std::to_string(i * kCell) + "]");
    return {};
  }

  const Plan& plan_;
  int tokens_;
  std::size_t ctas_;
  std::vector<Clock> clocks_;
  std::vector<int> next_, count_, per_token_;  // next_: tasks done, over all tokens
  std::vector<std::vector<Version>> versions_;
  std::vector<std::vector<Cell>> cells_;
  std::vector<std::vector<Footprint>> footprints_;
};

}  // namespace

status validate(const Plan& plan) {
  FOURFOLD_TRY(check_overlap(plan));
  return Run(plan, 2).run();
}

}  // namespace fourfold::cuda::persistent
