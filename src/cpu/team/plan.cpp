#include "cpu/team/plan.hpp"

#include <algorithm>
#include <climits>
#include <cmath>
#include <numeric>

#include "cpu/team/cache.hpp"

namespace fourfold::team {
namespace {

constexpr int kPairRows = 2 * simd::kTileRows;  // prefill's dots walk two tiles at once
constexpr std::int64_t kUnitBytes = 24 << 10;   // weights of a unit: small enough to share evenly, and to stay in L1

std::int64_t row_bytes(const Matrix& m) { return static_cast<std::int64_t>(m.tile_bytes) / simd::kTileRows; }

// Rows per unit for a dot whose rows cost `bytes` each: whole multiples of `grain`.
int unit_rows(std::int64_t bytes, int grain) {
  return static_cast<int>(std::max<std::int64_t>(1, kUnitBytes / (bytes * grain))) * grain;
}

void add_units(std::vector<Unit>& units, int dot, int rows, int step, std::int64_t bytes_per_row) {
  for (int row = 0; row < rows; row += step) {
    const int n = std::min(step, rows - row);
    units.push_back({dot, row, n, n * bytes_per_row});
  }
}

// A key of `key` rows and a value of `value` rows make a kv head; `key` alone is the head of a Turn.
std::vector<Unit> make_units(const std::vector<TeamDot>& dots, const ProjectEpilogue& epilogue, int key, int value) {
  std::vector<Unit> units;
  const auto rows = [&](std::size_t d) { return dots[d].matrix.rows; };
  const auto bytes = [&](std::size_t d) { return row_bytes(dots[d].matrix); };
  const auto grain = [](int head) { return std::lcm(head, simd::kTileRows); };  // whole heads and whole tiles
  if (std::holds_alternative<Append>(epilogue)) {
    add_units(units, 0, rows(0), grain(key), bytes(0));
    // As many key rows as hold whole heads and whole tiles of both dots.
    const int heads = std::lcm(grain(key) / key, grain(value) / value);
    add_units(units, 1, rows(1), heads * key, bytes(1) + bytes(2) * value / key);
    if (dots.size() > 3) add_units(units, 3, rows(3), unit_rows(bytes(3), kPairRows), bytes(3));
  } else if (std::holds_alternative<Turn>(epilogue)) {
    add_units(units, 0, rows(0), grain(key), bytes(0));
  } else {
    const std::int64_t together = bytes(0) + (dots.size() > 1 ? bytes(1) : 0);
    add_units(units, 0, rows(0), unit_rows(together, kPairRows), together);
  }
  return units;
}

// A worker's units in stretches. Neighbouring units of one dot become one.
std::vector<Unit> join(const std::vector<Unit>& units) {
  std::int64_t total = 0, at = 0;
  for (const Unit& u : units) total += u.bytes;
  std::vector<Unit> stretches;
  double piece_end = 0;
  for (const Unit& unit : units) {
    const std::int64_t middle = at + unit.bytes / 2;
    at += unit.bytes;
    const bool fresh = static_cast<double>(middle) >= piece_end;
    if (fresh)
      piece_end +=
          (stretches.empty() ? kLongStretch : (1 - kLongStretch) / kShortStretches) * static_cast<double>(total);
    if (fresh || stretches.back().dot != unit.dot) {
      stretches.push_back(unit);
    } else {
      stretches.back().rows += unit.rows;
      stretches.back().bytes += unit.bytes;
    }
  }
  return stretches;
}

// Each worker's units. Key/value heads come first, in even groups: attention shares its heads alike, and a leaf just
// appended to is read by the core that wrote it. The other units even the bytes out.
std::vector<std::vector<Unit>> share_units(const std::vector<Unit>& units, int workers) {
  std::vector<std::vector<Unit>> shares(static_cast<std::size_t>(workers));
  const auto is_pair = [](const Unit& u) { return u.dot == 1; };
  const auto pairs = std::count_if(units.begin(), units.end(), is_pair);
  std::int64_t total = 0, rest = 0, pair = 0;
  std::vector<std::int64_t> wanted(shares.size());
  for (const Unit& u : units) total += u.bytes;
  std::fill(wanted.begin(), wanted.end(), total / workers);
  for (const Unit& u : units) {
    if (!is_pair(u)) {
      rest += u.bytes;
      continue;
    }
    const auto w = static_cast<std::size_t>((2 * pair++ + 1) * workers / (2 * pairs));
    shares[w].push_back(u);
    wanted[w] = std::max<std::int64_t>(0, wanted[w] - u.bytes);
  }
  const double scale = static_cast<double>(rest) /
                       static_cast<double>(std::max<std::int64_t>(1, std::reduce(wanted.begin(), wanted.end())));
  std::size_t w = 0;
  std::int64_t at = 0;
  double end = static_cast<double>(wanted[0]) * scale;
  for (const Unit& u : units) {
    if (is_pair(u)) continue;
    while (w + 1 < shares.size() && static_cast<double>(2 * at + u.bytes) >= 2 * end)
      end += static_cast<double>(wanted[++w]) * scale;
    shares[w].push_back(u);
    at += u.bytes;
  }
  return shares;
}

std::vector<Unit> make_stretches(const std::vector<Unit>& units, int workers) {
  std::vector<std::vector<Unit>> shares = share_units(units, workers);
  std::size_t most = 0;
  for (auto& share : shares) {
    share = join(share);
    most = std::max(most, share.size());
  }
  std::vector<Unit> stretches;
  for (auto& share : shares) {
    share.resize(most, Unit{});
    stretches.insert(stretches.end(), share.begin(), share.end());
  }
  return stretches;
}

// Turns each step of a Program into the team's.
struct Resolver {
  const Program& program;
  const TeamWeights& weights;
  const Kernels& kernels;
  int workers;
  bool f32;

  TeamEmbed operator()(const Embed& s) const { return {weights.matrix(s.table), s.scale, s.out}; }

  TeamProject operator()(const Project& s) const {
    TeamProject p{};
    p.width = program.width(s.in);
    if (s.add) p.add = TeamAddNorm{s.add->x, s.add->y, s.add->out, *norm(s.add->norm)};
    p.in = s.in;
    p.norm = norm(s.norm);
    for (const Dot& d : s.dots) {
      p.dots.push_back(dot(d, f32 || s.exact));
      p.kinds[static_cast<std::size_t>(p.dots.back().kind)] = true;
    }
    p.epilogue = s.epilogue;
    p.last_only = s.last_only;
    int key = 1, value = 1;  // entries of a head
    if (const auto* append = std::get_if<Append>(&s.epilogue)) {
      const CacheSpec& kv = program.caches[static_cast<std::size_t>(append->cache)];
      key = kv.head_dim, value = kv.values();
      p.query_norm = norm(append->query_norm);
      p.key_norm = norm(append->key_norm);
    } else if (const auto* turn = std::get_if<Turn>(&s.epilogue)) {
      key = p.dots[0].matrix.rows / turn->heads;
      p.query_norm = norm(turn->norm);
    } else if (const auto* append_key = std::get_if<AppendKey>(&s.epilogue)) {
      p.query_norm = norm(append_key->norm);
    }
    p.units = make_units(p.dots, p.epilogue, key, value);
    p.stretches = make_stretches(p.units, workers);
    return p;
  }

  TeamRoute operator()(const RouteStep& s) const {
    const float* bias = weights.vector(s.selection_bias);
    const auto experts = static_cast<std::size_t>(bias ? program.width(s.logits) : 0);
    return {s.logits, s.ids, s.weights, {bias, experts}, s.rule};
  }

  TeamExperts operator()(const Experts& s) const {
    TeamExperts e{};
    e.width = static_cast<int>(program.tensor(s.dots[0].weight).cols);
    e.chosen = program.width(s.ids);
    e.in = s.in, e.ids = s.ids, e.out = s.out;
    e.per_choice = s.per_choice;
    e.norm = norm(s.norm);
    std::int64_t bytes = 0;
    for (const Dot& d : s.dots) {
      e.dots.push_back(dot(d, f32));
      e.kinds[static_cast<std::size_t>(e.dots.back().kind)] = true;
      bytes += row_bytes(e.dots.back().matrix);
    }
    e.unit_rows = unit_rows(bytes, kPairRows);
    e.activation = s.activation, e.gate = s.gate, e.alpha = s.alpha, e.limit = s.limit;
    return e;
  }

  TeamCombine operator()(const Combine& s) const {
    return {s.x, s.made, s.weights, s.shared, s.shared_gate, s.out, s.scale};
  }

  TeamStep operator()(const Attend& s) const {
    const CacheSpec& kv = program.caches[static_cast<std::size_t>(s.cache)];
    const TeamAttend attend{s.query,
                            s.out,
                            s.gate,
                            s.cache,
                            s.heads,
                            kv.kv_heads,
                            kv.window,
                            kv_shape(kv),
                            s.scale,
                            s.soft_cap,
                            weights.vector(s.sinks),
                            s.walk,
                            s.score};
    if (!s.latent) return attend;
    TeamLatent latent{attend,
                      dot({s.latent->key_up}, f32),
                      dot({s.latent->key_down}, f32),
                      dot({s.latent->value_up}, f32),
                      0,
                      0,
                      0,
                      0,
                      0,
                      {}};
    latent.rank = latent.key_up.matrix.cols;
    latent.nope = latent.key_up.matrix.rows;
    latent.rotary = kv.head_dim - latent.rank;
    latent.columns = latent.value_up.matrix.rows;
    // Expanding costs (nope + columns) rank a position; it saves 2 rank - nope - columns for each query that sees it.
    const int saved = 2 * latent.rank - latent.nope - latent.columns;
    latent.expand_from = saved > 0 ? std::max(2, (latent.nope + latent.columns) * latent.rank / saved) : INT_MAX;
    if (s.top_keys) {
      const TopKeys& top = *s.top_keys;
      latent.top = TeamTopKeys{
          top.query, top.weights, top.cache, top.heads, program.caches[static_cast<std::size_t>(top.cache)].head_dim,
          top.count, top.scale};
    }
    return latent;
  }

  TeamScan operator()(const ScanStep& s) const {
    const StateSpec& state = program.states[static_cast<std::size_t>(s.state)];
    TeamScan scan{s,
                  state.rows,
                  s.value.count() / s.heads,
                  state_offset(s.state),
                  s.rates,
                  weights.vector(s.decay_bias),
                  weights.vector(s.skip),
                  s.skip.valid() ? static_cast<int>(program.tensor(s.skip).cols) : 0};
    if (s.rate.valid()) {
      const float* rate = weights.vector(s.rate);
      scan.rate.assign(rate, rate + program.tensor(s.rate).rows * program.tensor(s.rate).cols);
      for (float& r : scan.rate)
        if (s.rate_is_log) r = -std::exp(r);
    }
    if (s.mechanism == Mechanism::mamba) {
      const std::vector<float> stored = scan.rate;
      for (std::size_t i = 0; i < stored.size(); ++i)
        scan.rate[i % static_cast<std::size_t>(scan.keys) * static_cast<std::size_t>(s.heads) +
                  i / static_cast<std::size_t>(scan.keys)] = stored[i];
    }
    return scan;
  }

  TeamConv operator()(const ShortConv& s) const {
    const StateSpec& state = program.states[static_cast<std::size_t>(s.state)];
    TeamConv conv{s, state.rows + 1, state.columns, state_offset(s.state), {}, {}, weights.vector(s.bias)};
    int channel = 0;
    for (const Columns& part : s.in)
      for (int i = 0; i < part.count();) {
        const int count = std::min(kConvChannels, part.width - i % part.width);
        conv.pieces.push_back({part.value, part.at(i), channel, count, part.scale});
        i += count;
        channel += count;
      }
    const float* stored = weights.vector(s.weights);  // [channels, kernel], or [channels] of a mix
    for (int j = 0; j < conv.kernel; ++j)
      for (int c = 0; c < conv.channels; ++c)
        conv.weights.push_back(!s.mix ? stored[c * conv.kernel + j] : j == 0 ? 1 - stored[c] : stored[c]);
    return conv;
  }

  TeamMap operator()(const MapStep& s) const {
    if (!s.norm) return {s, nullptr, nullptr, 0};
    return {s, weights.vector(s.norm->weight), weights.vector(s.norm->bias),
            static_cast<int>(program.tensor(s.norm->weight).cols)};
  }

 private:
  std::size_t state_offset(int state) const {
    std::int64_t sum = 0;
    for (int s = 0; s < state; ++s) sum += program.states[static_cast<std::size_t>(s)].numbers();
    return static_cast<std::size_t>(sum);
  }
  std::optional<TeamNorm> norm(const std::optional<NormSpec>& n) const {
    if (!n) return {};
    return TeamNorm{weights.vector(n->weight), n->eps, n->scale, static_cast<int>(program.tensor(n->weight).cols),
                    weights.vector(n->bias)};
  }
  TeamDot dot(const Dot& d, bool exact) const {
    const Matrix& m = weights.matrix(d.weight);
    const auto s = simd::index(m.storage);
    return {m, weights.vector(d.bias), exact ? kernels.dot_f32[s] : kernels.dot[s],
            exact ? simd::Rounding::f32 : kernels.rounding[s], d.scale};
  }
};

void need_prepared(const std::array<bool, 3>& kinds, int rows, int width, TeamPlan& plan) {
  for (std::size_t kind = 0; kind < 3; ++kind)
    if (kinds[kind])
      plan.prepared[kind] =
          std::max(plan.prepared[kind],
                   static_cast<std::size_t>(rows) * simd::prepared_bytes(static_cast<simd::Rounding>(kind), width));
}

void size_for(const TeamProject& step, TeamPlan& plan) {
  plan.max_width = std::max(plan.max_width, step.width);
  need_prepared(step.kinds, 1, step.width, plan);
  for (const TeamDot& dot : step.dots) plan.max_rows = std::max(plan.max_rows, dot.matrix.rows);
  const bool pairs = std::holds_alternative<Append>(step.epilogue);
  const int keys = pairs ? step.dots[1].matrix.rows : 1, values = pairs ? step.dots[2].matrix.rows : 1;
  for (const Unit& unit : step.units)
    plan.max_unit_rows = std::max({plan.max_unit_rows, unit.rows, unit.rows * values / keys});
}

void size_for(const TeamExperts& step, TeamPlan& plan) {
  need_prepared(step.kinds, step.input_rows(1), step.width, plan);
  plan.max_experts = std::max(plan.max_experts, step.dots[0].matrix.stack);
  plan.max_chosen = std::max(plan.max_chosen, step.chosen);
  plan.max_rows = std::max(plan.max_rows, step.rows());
  plan.max_unit_rows = std::max(plan.max_unit_rows, step.unit_rows);
}

void size_for(const TeamMap& step, TeamPlan& plan) { plan.max_map = std::max(plan.max_map, step.step.group); }
void size_for(const TeamScan& step, TeamPlan& plan) {
  const bool channels = step.step.mechanism == Mechanism::mamba;
  plan.max_head = std::max({plan.max_head, step.keys, channels ? kScanChannels : step.values});
}
void size_for(const TeamConv& step, TeamPlan& plan) { plan.max_kernel = std::max(plan.max_kernel, step.kernel); }
template <class S>
void size_for(const S&, TeamPlan&) {}

}  // namespace

TeamPlan resolve(const Program& program, const TeamWeights& weights, const Kernels& kernels, int workers, bool f32,
                 bool debug) {
  TeamPlan plan;
  plan.arena = plan_arena(program, !debug);
  const Resolver resolver{program, weights, kernels, workers, f32};
  for (const Step& step : program.steps)
    plan.steps.push_back(std::visit([&](const auto& s) -> TeamStep { return resolver(s); }, step.op));
  for (const TeamStep& step : plan.steps) std::visit([&](const auto& s) { size_for(s, plan); }, step);
  return plan;
}

status check_team(const Program& program, const std::optional<Storage>& cache) {
  std::string unmet;
  const auto require = [&](bool met, const std::string& line) {
    if (!met) unmet.append(unmet.empty() ? "  " : "\n  ").append(line);
  };
  for (const CacheSpec& kv : program.caches) {
    require(kv.head_dim <= simd::kMaxHeadDim,
            "attend: head dimension " + std::to_string(kv.head_dim) + " is above " + std::to_string(simd::kMaxHeadDim));
    if (cache) {
      const std::string name(info(*cache).name);
      require(simd::kv_leaf_bytes(*cache, kv_shape(kv)) > 0,
              *cache == Storage::q8_0
                  ? "cache: q8_0 needs a head dimension that is a multiple of 32, not " + std::to_string(kv.head_dim)
                  : "cache: storage " + name + " is not in {f32, f16, bf16, q8_0}");
    }
    if (!unmet.empty()) break;  // the layers are alike
  }
  for (const Step& step : program.steps)
    if (const auto* scan = std::get_if<ScanStep>(&step.op)) {
      const int keys = program.states[static_cast<std::size_t>(scan->state)].rows;
      require(keys <= simd::kMaxHeadDim,
              step.name + ": key dimension " + std::to_string(keys) + " is above " + std::to_string(simd::kMaxHeadDim));
    } else if (const auto* attend = std::get_if<Attend>(&step.op)) {
      require(!attend->top_keys || attend->latent, step.name + ": top keys without a latent have no team kernel");
      require(!attend->top_keys || (!attend->walk && !attend->score),
              step.name + ": a walk or score of its own beside top keys has no team kernel");
    }
  for (const Step& step : program.steps) {
    const auto* experts = std::get_if<Experts>(&step.op);
    if (experts == nullptr) continue;
    require(!experts->norm || !experts->per_choice, step.name + ": a norm over each choice's own input");
    if (!unmet.empty()) break;  // the layers are alike
  }
  const auto& isa = simd::selected_kernels();
  require(isa.ok(), isa.ok() ? "" : isa.error().message());
  for (const TensorSpec& tensor : program.tensors) {
    const bool known = !isa.ok() || (*isa)->dot[simd::index(tensor.storage)] != nullptr;
    require(known, "project: storage " + std::string(info(tensor.storage).name) + " of '" + tensor.name +
                       "' has no kernels on the CPU; accepted: those of GGUF up to q6_k, and mxfp4");
    if (!known) break;
  }
  if (unmet.empty()) return {};
  return {Code::unsupported, "plan: cannot run this Program on `team`\n" + unmet};
}

}  // namespace fourfold::team
