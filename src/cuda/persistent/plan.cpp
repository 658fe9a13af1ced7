#include "cuda/persistent/plan.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "program/visit.hpp"

namespace fourfold::cuda::persistent {
namespace {

// Row groups are dealt in whole units (a gate with its up), contiguous for each CTA; those that leave a remainder begin
// where the last ones ended, so that no CTA is first in every step.
struct Deal {
  int grid, start = 0;

  // Units [first, last) of CTA `cta`.
  std::pair<int, int> share(int units, int cta) const {
    const int place = (cta - start + grid) % grid, base = units / grid, extra = units % grid;
    const int first = place * base + std::min(place, extra);
    return {first, first + base + (place < extra ? 1 : 0)};
  }
  void next(int units) { start = (start + units % grid) % grid; }
};

int unit_groups(const Phase& phase) { return phase.finish == Finish::gated ? 2 : 1; }

// The slice that a row group begins with: rows that lie early in the output begin early in the input, whatever the
// grid, so that sums are added in the same order everywhere and a CTA begins near the slice that it helped to make.
// Neighbours that 128 CTAs would take together begin together.
int first_slice(int unit, int units, int slices) {
  const int block = std::max(units / 128, 1);
  return static_cast<int>(std::int64_t{unit / block * block} * slices / units);
}

class Maker {
 public:
  Maker(const Program& program, const PlanRequest& request) : program_(program), deal_{request.grid} {
    plan_.slice = request.slice;
    plan_.tasks.resize(static_cast<std::size_t>(request.grid));
    refs_.resize(program.values.size());
  }

  result<Plan> make() {
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      step_ = static_cast<int>(i);
      std::visit(Overloaded{[&](const Embed& s) { add(s); }, [&](const Project& s) { add(s); },
                            [&](const Attend& s) { add(s); },
                            [&](const auto&) { refuse("only embed, project and attend steps run here"); }},
                 program_.steps[i].op);
    }
    if (!refused_.empty()) return status{Code::unsupported, refused_};
    add_sample();
    count_arrivals();
    return std::move(plan_);
  }

 private:
  using Key = std::tuple<int, int, int>;  // finish or kind, rows, columns: buffers of the same make are shared

  const Step& step() const { return program_.steps[static_cast<std::size_t>(step_)]; }
  // Once for all steps of the same kind, named by the first of them.
  void refuse(const std::string& why) {
    const std::string& name = step().name;
    const std::size_t dot = name.find('.', 4);
    const std::string kind = name.starts_with("blk.") && dot != std::string::npos ? name.substr(dot) : name;
    if (!said_.insert(kind + why).second) return;
    refused_ += (refused_.empty() ? "" : "\n") + name + ": " + why + " (runs on `graph`)";
  }
  Ref ref(Value v) const { return refs_[static_cast<std::size_t>(v.id)]; }

  int counter(const std::string& name) {
    plan_.counters.push_back({name, 0, 0});
    return static_cast<int>(plan_.counters.size()) - 1;
  }

  Ref write(const Key& key, const std::string& name, int width, bool counted) {
    const auto [at, fresh] = shared_.try_emplace(key, static_cast<int>(plan_.buffers.size()));
    if (fresh) {
      Buffer buffer{name, plan_.arena, width, plan_.slice, -1};
      plan_.arena += (width + 31) / 32 * 32;
      if (counted) buffer.first_counter = static_cast<int>(plan_.counters.size());
      for (int s = 0; counted && s < buffer.slices(); ++s) counter(name + "[" + std::to_string(s) + "]");
      plan_.buffers.push_back(std::move(buffer));
      versions_.push_back(0);
    }
    return {at->second, versions_[static_cast<std::size_t>(at->second)]++};
  }

  void add(const Embed& s) {
    if (step_ != 0) refuse("an embedding is the first step of a program");
    refs_[static_cast<std::size_t>(s.out.id)] = {};
  }

  void add(const Project& s) {
    Phase phase{step().name, Kind::project, step_, ref(s.in), {}, {}, Finish::store};
    const bool gated = std::holds_alternative<Gated>(s.epilogue);
    for (const Dot& dot : s.dots) {
      const TensorSpec& spec = program_.tensor(dot.weight);
      const int rows = static_cast<int>(spec.rows), whole = (rows + kGroupRows - 1) / kGroupRows * kGroupRows;
      phase.rows += gated ? whole : rows;
      phase.outputs = gated ? rows : phase.rows;
      phase.columns = static_cast<int>(spec.cols);
      if (s.dots.size() > 1 && !gated && rows != whole)
        refuse(spec.name + " has " + std::to_string(rows) + " rows, no multiple of " + std::to_string(kGroupRows));
    }
    check_maps(s);
    std::string what = "logits";
    Value out{};
    std::visit(Overloaded{[&](const Store& e) {
                            out = e.out;
                            phase.finish = Finish::logits;
                            if (e.out != program_.logits || e.soft_cap > 0 || e.activation != Activation::none)
                              refuse("an output that is neither added to x nor plain logits is not in {none}");
                          },
                          [&](const AddTo& e) {
                            out = e.out, what = phase.columns > phase.rows ? "x.down" : "x.out";
                            phase.finish = Finish::add, phase.residual = ref(e.x);
                          },
                          [&](const Gated& e) { out = e.out, what = "act", phase.finish = Finish::gated; },
                          [&](const Append& e) { out = e.query, what = "qkv"; },
                          [&](const auto&) { refuse("its epilogue is not in {store, add, gated, append}"); }},
               s.epilogue);
    if (!refused_.empty()) return;
    const Key key{static_cast<int>(phase.finish), phase.outputs, phase.columns};
    phase.out = write(key, what, phase.outputs, phase.finish != Finish::logits);
    refs_[static_cast<std::size_t>(out.id)] = phase.out;
    plan_.phases.push_back(phase);
    hand_out(phase);
  }

  // Maps in front of and behind the dots that the kernel has no code for.
  void check_maps(const Project& s) {
    if (s.add) refuse("a norm behind the step before it is not in {none}");
    if (s.norm && s.norm->scale != 1) refuse("a norm's scale is not in {1}");
    for (const Dot& dot : s.dots) {
      if (dot.scale != 1) refuse("a dot's scale is not in {1}");
    }
    if (const auto* append = std::get_if<Append>(&s.epilogue)) {
      if (append->gate.valid()) refuse("a gate beside queries is not in {none}");
      const int dim = program_.caches[static_cast<std::size_t>(append->cache)].head_dim;
      if (append->rope >= 0 && (rope_of(*append).dims != dim || rope_of(*append).skip != 0))
        refuse("rotary dims are not all of the head's " + std::to_string(dim));
    }
    const auto* gate = std::get_if<Gated>(&s.epilogue);
    if (gate && gate->activation != Activation::silu) refuse("its activation is not in {silu}");
  }

  const RopeSpec& rope_of(const Append& a) const { return program_.ropes[static_cast<std::size_t>(a.rope)]; }

  void hand_out(const Phase& phase) {
    const int unit = unit_groups(phase), units = phase.groups() / unit, index = last_phase();
    const int slices = (phase.columns + plan_.slice - 1) / plan_.slice;
    for (int cta = 0; cta < plan_.grid(); ++cta) {
      auto [at, end] = deal_.share(units, cta);
      while (at < end) {
        const int turn = first_slice(at, units, slices);
        int count = 1;
        while (at + count < end && (count + 1) * unit <= kMaxGroups && first_slice(at + count, units, slices) == turn)
          ++count;
        tasks(cta).push_back({index, at * unit, count * unit, turn, 0, 0});
        at += count;
      }
    }
    deal_.next(units);
  }

  void add(const Attend& s) {
    const CacheSpec& spec = program_.caches[static_cast<std::size_t>(s.cache)];
    Phase phase{step().name, Kind::attend, step_, ref(s.query), {}, {}};
    phase.cache = s.cache, phase.kv_heads = spec.kv_heads, phase.head_dim = spec.head_dim;
    phase.queries = s.heads / spec.kv_heads;
    const int room = plan_.grid() / spec.kv_heads;
    for (phase.sharers = kChains; phase.sharers > std::max(room, 1); phase.sharers /= 2) {
    }
    if (room == 0) refuse(std::to_string(spec.kv_heads) + " KV heads are more than the grid's CTAs");
    if (spec.window > 0) refuse("a window is not in {none}");
    if (s.soft_cap > 0 || s.score) refuse("a score map is not in {scale}");
    if (s.walk) refuse("its walk is not in {causal}");
    if (s.sinks.valid() || s.gate.valid() || s.latent || s.top_keys || spec.keys_only || spec.values() != spec.head_dim)
      refuse("sinks, gates, latents, chosen keys and values of another width are not in {none}");
    if (phase.head_outputs() % phase.sharers != 0) refuse("a KV head's outputs do not divide among its CTAs");
    if (plan_.slice % phase.head_outputs() != 0 && phase.head_outputs() % plan_.slice != 0)
      refuse("the " + std::to_string(phase.head_outputs()) +
             " outputs of a KV head neither divide nor fill slices of " + std::to_string(plan_.slice));
    if (!refused_.empty()) return;
    const int width = s.heads * spec.head_dim;
    if (plan_.parts.empty())
      for (int h = 0; h < spec.kv_heads; ++h) plan_.parts.push_back(counter("part[" + std::to_string(h) + "]"));
    phase.out = write({-1, width, 0}, "part", kChains * (width + 2 * s.heads), false);
    add_shares(phase);
    phase.kind = Kind::merge, phase.name = program_.steps[static_cast<std::size_t>(step_)].name + ".merge";
    phase.in = phase.out;
    phase.out = write({-2, width, 0}, "att", width, true);
    add_shares(phase);
    refs_[static_cast<std::size_t>(s.out.id)] = phase.out;
  }

  void add_shares(const Phase& phase) {
    plan_.phases.push_back(phase);
    const int turn = phase.in.version;  // so that no CTA has the first chain, often the longest, in every layer
    for (int cta = 0; cta < phase.kv_heads * phase.sharers; ++cta)
      tasks(cta).push_back({last_phase(), 0, 0, 0, cta / phase.sharers, (cta + turn) % phase.sharers});
  }

  void add_sample() {
    Phase phase;
    phase.name = "sample", phase.kind = Kind::sample;
    plan_.phases.push_back(phase);
    plan_.sampled = counter("sampled");
    for (auto& list : plan_.tasks) list.push_back({last_phase()});
  }

  // Every version of a buffer is written by the same tasks, so the first one's arrivals are those of all.
  void count_arrivals() {
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b)
      for (int s = 0; plan_.buffers[b].first_counter >= 0 && s < plan_.buffers[b].slices(); ++s)
        plan_.counters[static_cast<std::size_t>(plan_.buffers[b].first_counter + s)].versions = versions_[b];
    for (int part : plan_.parts) plan_.counters[static_cast<std::size_t>(part)].versions = part_versions();
    plan_.counters[static_cast<std::size_t>(plan_.sampled)].versions = 1;
    for (const auto& list : plan_.tasks)
      for (const Task& task : list) {
        if (plan_.phase(task).kind != Kind::sample && plan_.phase(task).out.version != 0) continue;
        for (const Arrival& a : footprint(plan_, task).arrivals)
          plan_.counters[static_cast<std::size_t>(a.counter)].arrivals += a.count;
      }
  }
  int part_versions() const {
    return static_cast<int>(
        std::count_if(plan_.phases.begin(), plan_.phases.end(), [](const Phase& p) { return p.kind == Kind::attend; }));
  }

  int last_phase() const { return static_cast<int>(plan_.phases.size()) - 1; }
  std::vector<Task>& tasks(int cta) { return plan_.tasks[static_cast<std::size_t>(cta)]; }

  const Program& program_;
  Deal deal_;
  Plan plan_;
  int step_ = 0;
  std::vector<Ref> refs_;  // per Value
  std::map<Key, int> shared_;
  std::vector<int> versions_;  // per buffer, so far
  std::string refused_;
  std::set<std::string> said_;
};

// The slices of `span` of a buffer, as waits for its version.
void wait_for(const Plan& plan, Ref ref, Span span, Footprint& out) {
  const Buffer& buffer = plan.buffer(ref);
  for (int s = span.first / buffer.slice; s * buffer.slice < span.last(); ++s)
    out.waits.push_back({buffer.first_counter + s, ref.version});
  out.reads.push_back({ref, span});
}

// One arrival for each slice that a task's outputs touch.
void announce(const Buffer& buffer, Span span, std::vector<Arrival>& out) {
  if (buffer.first_counter < 0) return;
  for (int s = span.first / buffer.slice; s * buffer.slice < span.last(); ++s)
    out.push_back({buffer.first_counter + s, 1});
}

void project_footprint(const Plan& plan, const Phase& phase, const Task& task, Footprint& out) {
  const int slices = (phase.columns + plan.slice - 1) / plan.slice;
  for (int i = 0; i < slices; ++i) {
    const int s = (task.first_slice + i) % slices;
    if (phase.in.buffer < 0) {
      if (i == 0) out.waits.push_back({plan.sampled, -1});
      continue;
    }
    const int first = s * plan.slice;
    wait_for(plan, phase.in, {first, std::min(plan.slice, phase.columns - first)}, out);
  }
  const Span span = outputs_of(phase, task);
  if (phase.finish == Finish::add && phase.residual.buffer >= 0) out.reads.push_back({phase.residual, span});
  out.writes.push_back({phase.out, span});
  announce(plan.buffer(phase.out), span, out.arrivals);
}

void attend_footprint(const Plan& plan, const Phase& phase, const Task& task, Footprint& out) {
  const int own = phase.head_outputs(), heads = phase.kv_heads * phase.queries, d = phase.head_dim;
  const int key = heads * d + task.kv_head * d, value = key + phase.kv_heads * d;
  wait_for(plan, phase.in, {task.kv_head * own, own}, out);
  for (int at : {key, value}) wait_for(plan, phase.in, {at, d}, out);
  const int state = own + 2 * phase.queries;
  for (int chain = task.share; chain < kChains; chain += phase.sharers)
    out.writes.push_back({phase.out, {(task.kv_head * kChains + chain) * state, state}});
  out.arrivals.push_back({plan.parts[static_cast<std::size_t>(task.kv_head)], 1});
}

void merge_footprint(const Plan& plan, const Phase& phase, const Task& task, Footprint& out) {
  const int state = phase.head_outputs() + 2 * phase.queries, count = phase.head_outputs() / phase.sharers;
  out.waits.push_back({plan.parts[static_cast<std::size_t>(task.kv_head)], phase.in.version});
  out.reads.push_back({phase.in, {task.kv_head * kChains * state, kChains * state}});
  const Span span{task.kv_head * phase.head_outputs() + task.share * count, count};
  out.writes.push_back({phase.out, span});
  announce(plan.buffer(phase.out), span, out.arrivals);
}

}  // namespace

Span outputs_of(const Phase& phase, const Task& task) {
  const int scale = phase.finish == Finish::gated ? 2 : 1;
  const int first = task.first_group * kGroupRows / scale;
  return {first, std::min(task.groups * kGroupRows / scale, phase.outputs - first)};
}

Footprint footprint(const Plan& plan, const Task& task) {
  const Phase& phase = plan.phase(task);
  Footprint out;
  switch (phase.kind) {
    case Kind::project:
      project_footprint(plan, phase, task, out);
      break;
    case Kind::attend:
      attend_footprint(plan, phase, task, out);
      break;
    case Kind::merge:
      merge_footprint(plan, phase, task, out);
      break;
    case Kind::sample:
      out.arrivals.push_back({plan.sampled, 1});
      break;
  }
  return out;
}

result<Plan> make_plan(const Program& program, const PlanRequest& request) {
  if (request.grid < 1 || request.slice < kGroupRows)
    return status{Code::invalid_argument, "grid " + std::to_string(request.grid) + " and slice " +
                                              std::to_string(request.slice) + ": a grid has at least 1 CTA, a slice " +
                                              std::to_string(kGroupRows) + " columns"};
  return Maker(program, request).make();
}

int best_grid(const Program& program, int sms) {
  int best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int grid = sms; grid > sms / 2; --grid) {
    double busiest = 0;
    for (const Step& step : program.steps) {
      const auto* project = std::get_if<Project>(&step.op);
      if (!project) continue;
      std::int64_t rows = 0, columns = 0;
      for (const Dot& dot : project->dots)
        rows += program.tensor(dot.weight).rows, columns = program.tensor(dot.weight).cols;
      const std::int64_t groups = (rows + kGroupRows - 1) / kGroupRows;
      const std::int64_t most = (groups + grid - 1) / grid;
      busiest += static_cast<double>(most * columns);
    }
    if (busiest < 0.98 * least || (busiest <= 1.02 * least && grid % kChains == 0 && best % kChains != 0))
      least = busiest, best = grid;
  }
  return best;
}

}  // namespace fourfold::cuda::persistent
