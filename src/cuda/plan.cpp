#include "cuda/plan.hpp"

#include <algorithm>
#include <cmath>

#include "program/visit.hpp"

namespace fourfold::cuda {
namespace {

constexpr int kMostColumns = 40960;  // whose activation leaves room for two tiles in shared memory

std::optional<KvType> kv_type(Storage cache) {
  switch (cache) {
    case Storage::bf16:
      return KvType::bf16;
    case Storage::f16:
      return KvType::f16;
    case Storage::fp8:
      return KvType::f8;
    default:
      return {};
  }
}

// A Program's steps that the kernels know.
bool is_plain(const Attend& s) {
  return !s.gate.valid() && !s.latent && !s.top_keys && !static_cast<bool>(s.walk) && !static_cast<bool>(s.score);
}

struct Requirements {
  std::string unmet{};
  void require(bool met, const std::string& line) {
    if (!met && unmet.find(line) == std::string::npos) unmet.append("\n  ").append(line);
  }
};

void check_project(const Program& program, const Project& s, Requirements& all) {
  const TensorSpec& weight = program.tensor(s.dots[0].weight);
  all.require(weight.cols <= kMostColumns && weight.cols % 4 == 0, "project: rows of " + std::to_string(weight.cols) +
                                                                       " columns; accepted: multiples of 4 up to " +
                                                                       std::to_string(kMostColumns));
  all.require(s.dots.size() <= 3,
              "project: " + std::to_string(s.dots.size()) + " dots of one input; accepted: up to 3");
  for (const Dot& dot : s.dots)
    if (dot.scales.valid() && !program.scaled_by_row(dot))
      all.require(program.tensor(dot.weight).storage == Storage::fp8,
                  "project: scales of 128 x 128 blocks with storage " +
                      std::string(info(program.tensor(dot.weight).storage).name) + "; accepted: fp8");
  const bool known = std::holds_alternative<Store>(s.epilogue) || std::holds_alternative<AddTo>(s.epilogue) ||
                     std::holds_alternative<Gated>(s.epilogue) || std::holds_alternative<Append>(s.epilogue);
  const auto* append = std::get_if<Append>(&s.epilogue);
  all.require(known && (append == nullptr || (!append->gate.valid() && !append->row.valid())),
              "project: latent attention, gated queries and norms over all heads have no kernels on the device");
  for (const auto& norm : {s.norm, s.add ? std::optional(s.add->norm) : std::nullopt})
    all.require(!norm || !norm->bias.valid(), "project: LayerNorm has no kernels on the device");
  if (const auto* gated = std::get_if<Gated>(&s.epilogue))
    all.require(s.dots.size() == 2 && program.tensor(s.dots[1].weight).rows == program.width(gated->out),
                "project: a gate needs two dots of equal rows");
}

std::vector<float2> turns_of(const RopeSpec& rope, int positions) {
  std::vector<float2> turns;
  turns.reserve(static_cast<std::size_t>(positions) * rope.inverse_frequency.size());
  for (int p = 0; p < positions; ++p)
    for (const double frequency : rope.inverse_frequency)
      turns.push_back({static_cast<float>(rope.scale * std::cos(p * frequency)),
                       static_cast<float>(rope.scale * std::sin(p * frequency))});
  return turns;
}

// Turns each step of a Program into launches.
struct Resolver {
  const Program& program;
  const DeviceWeights& weights;
  const SequenceMemory& memory;
  const ActivationMemory& activations;
  const ArenaPlan& arena;
  DevicePlan& plan;

  float* at(Value v) const {
    const std::int64_t offset = arena.offset[static_cast<std::size_t>(v.id)];
    return offset < 0 ? memory.logits.as<float>() : activations.arena + activations.tokens * offset;
  }
  DeviceNorm norm(const std::optional<NormSpec>& n) const {
    return n ? DeviceNorm{weights.vector(n->weight), n->eps, n->scale} : DeviceNorm{};
  }

  void resolve(const Embed& s, std::size_t) const {
    plan.steps.push_back(DeviceEmbed{weights.table(s.table), s.scale, at(s.out)});
  }
  void resolve(const Attend& s, std::size_t) const {
    const auto cache = static_cast<std::size_t>(s.cache);
    Attention attention;
    attention.query = at(s.query);
    attention.out = at(s.out);
    attention.cache = memory.caches[cache].data();
    attention.layout = memory.layouts[cache];
    attention.type = memory.type;
    attention.heads = s.heads;
    attention.tokens = 1;
    attention.position = &memory.token()->position;
    attention.sinks = weights.vector(s.sinks);
    attention.scratch = memory.scratch.data();
    plan.steps.push_back(DeviceAttend{attention, {program.caches[cache].window, s.scale, s.soft_cap}});
  }
  void resolve(const Project& s, std::size_t step) const {
    for (const WeightRun& run : weights.runs(step)) {
      DeviceProject p = common(s, run);
      std::visit(Overloaded{[&](const Store& e) {
                              p.epilogue = DeviceEpilogue::store;
                              p.activation = e.activation;
                              p.soft_cap = e.soft_cap;
                              p.out = at(e.out);
                            },
                            [&](const AddTo& e) {
                              p.epilogue = DeviceEpilogue::add;
                              p.residual = at(e.x);
                              p.out = at(e.out);
                            },
                            [&](const Gated& e) {
                              p.epilogue = DeviceEpilogue::gated;
                              p.activation = e.activation;
                              p.out = at(e.out);
                            },
                            [&](const Append& e) { append(s, e, run, p); }, [](const auto&) {}},
                 s.epilogue);
      if (s.last_only)
        plan.head = p;
      else
        plan.steps.push_back(p);
    }
  }
  template <class Other>
  void resolve(const Other&, std::size_t) const {}

  DeviceProject common(const Project& s, const WeightRun& run) const {
    DeviceProject p;
    p.storage = run.storage;
    p.tiles = run.tiles;
    p.order = run.order;
    p.columns = run.columns;
    p.in = at(s.in);
    p.norm = norm(s.norm);
    if (s.add) {
      p.add_x = at(s.add->x);
      p.add_y = at(s.add->y);
      p.add_norm = norm(s.add->norm);
      p.add_out = at(s.add->out);
    }
    const bool gated = std::holds_alternative<Gated>(s.epilogue);
    p.dot_count = gated ? 2 : static_cast<int>(run.first_groups.size());
    for (int i = 0; i < p.dot_count; ++i) {
      const Dot& dot = s.dots[static_cast<std::size_t>(run.first_dot + i)];
      const bool by_row = dot.scales.valid() && program.scaled_by_row(dot);
      p.dots[i] = {gated ? 0 : run.first_groups[static_cast<std::size_t>(i)],
                   static_cast<int>(program.tensor(dot.weight).rows),
                   weights.vector(dot.bias),
                   by_row ? weights.vector(dot.scales) : nullptr,
                   dot.scale,
                   0};
    }
    return p;
  }
  void append(const Project& s, const Append& e, const WeightRun& run, DeviceProject& p) const {
    const auto cache = static_cast<std::size_t>(e.cache);
    p.epilogue = DeviceEpilogue::append;
    int row = 0;
    for (int d = 0; d < static_cast<int>(s.dots.size()); ++d) {
      const int own = d - run.first_dot;
      if (own >= 0 && own < p.dot_count) p.dots[own].first_row = row;
      row += static_cast<int>(program.tensor(s.dots[static_cast<std::size_t>(d)].weight).rows);
    }
    DeviceHeads& h = p.heads;
    h.raw = activations.raw;
    h.arrived = reinterpret_cast<unsigned*>(memory.state.data() + 128);
    h.query_norm = norm(e.query_norm);
    h.key_norm = norm(e.key_norm);
    if (e.rope >= 0) {
      const RopeSpec& rope = program.ropes[static_cast<std::size_t>(e.rope)];
      h.turns = memory.turns[static_cast<std::size_t>(e.rope)].as<float2>();
      h.rope_dims = rope.dims;
      h.rope_skip = rope.skip;
      h.interleaved = rope.interleaved;
    }
    h.heads = e.heads;
    h.query = at(e.query);
    h.cache = memory.caches[cache].data();
    h.layout = memory.layouts[cache];
    h.type = memory.type;
    p.position = &memory.token()->position;
  }
};

}  // namespace

status check_program(const Program& program, const PlanOptions& options, const char* executor) {
  Requirements all;
  all.require(kv_type(options.cache).has_value(),
              "cache: storage " + std::string(info(options.cache).name) + " is not in {bf16, f16, fp8}");
  for (const CacheSpec& kv : program.caches)
    all.require((kv.value_dim == 0 || kv.value_dim == kv.head_dim) && !kv.keys_only,
                "attend: latent caches have no kernels on the device");
  for (const CacheSpec& kv : program.caches)
    all.require(kv.head_dim <= kMostHeadDim,
                "attend: head dimension " + std::to_string(kv.head_dim) + " is above " + std::to_string(kMostHeadDim));
  for (const Step& step : program.steps)
    std::visit(Overloaded{[](const Embed&) {},
                          [&](const Attend& s) {
                            all.require(is_plain(s),
                                        "attend: gates, latents, top keys and walks or scores of other types "
                                        "have no kernels on the device");
                          },
                          [&](const Project& s) { check_project(program, s, all); },
                          [&](const auto&) {
                            all.require(false, step.name + ": scans and routed experts have no kernels on the device");
                          }},
               step.op);
  if (all.unmet.empty()) return {};
  return {Code::unsupported, "plan: cannot run this Program on `" + std::string(executor) + "`" + all.unmet};
}

result<SequenceMemory> allocate_sequence(const Program& program, const PlanOptions& options, const ArenaPlan& arena) {
  SequenceMemory m;
  m.type = *kv_type(options.cache);
  const auto take = [](DeviceMemory& to, std::size_t bytes, const char* what) -> status {
    auto memory = DeviceMemory::allocate(bytes, what);
    if (!memory.ok()) return memory.error();
    to = std::move(memory).value();
    return {};
  };
  std::size_t heads = 1, raw = 1;
  for (const CacheSpec& kv : program.caches) {
    m.layouts.push_back({kv.kv_heads, kv.head_dim, m.type == KvType::f8 ? 1 : 2, options.context});
    FOURFOLD_TRY(take(m.caches.emplace_back(), static_cast<std::size_t>(m.layouts.back().bytes()), "the cache"));
  }
  for (const Step& step : program.steps)
    if (const auto* attend = std::get_if<Attend>(&step.op)) {
      const CacheLayout& layout = m.layouts[static_cast<std::size_t>(attend->cache)];
      const auto all = static_cast<std::size_t>(attend->heads + 2 * layout.kv_heads);
      heads = std::max(heads, all);
      raw = std::max(raw, all * static_cast<std::size_t>(layout.head_dim));
      m.attend_bytes = std::max(m.attend_bytes, attend_scratch_bytes(layout, attend->heads) / 256 * 256 + 256);
    }
  FOURFOLD_TRY(take(m.arena, static_cast<std::size_t>(arena.width) * sizeof(float), "activations"));
  FOURFOLD_TRY(take(m.logits, static_cast<std::size_t>(program.vocab) * sizeof(float), "logits"));
  for (const DeviceMemory* unwritten : {&m.arena, &m.logits})  // as NaN, which shows
    FOURFOLD_TRY(checked(cudaMemset(unwritten->data(), 0xff, unwritten->bytes()), "marking activations as unwritten"));
  FOURFOLD_TRY(take(m.state, 128 + heads * sizeof(unsigned), "the sequence's state"));
  FOURFOLD_TRY(take(m.candidates, filter_bytes(program.vocab), "scratch memory"));
  FOURFOLD_TRY(take(m.scratch, m.attend_bytes + raw * sizeof(float), "scratch memory"));
  for (const RopeSpec& rope : program.ropes) {
    const auto turns = turns_of(rope, options.context);
    FOURFOLD_TRY(take(m.turns.emplace_back(), turns.size() * sizeof(float2), "rotations"));
    FOURFOLD_TRY(
        checked(cudaMemcpy(m.turns.back().data(), turns.data(), turns.size() * sizeof(float2), cudaMemcpyHostToDevice),
                "copying rotations"));
  }
  return m;
}

DevicePlan resolve(const Program& program, const DeviceWeights& weights, const SequenceMemory& memory,
                   const ActivationMemory& activations, const ArenaPlan& arena) {
  DevicePlan plan;
  plan.arena = arena;
  const Resolver resolver{program, weights, memory, activations, arena, plan};
  for (std::size_t s = 0; s < program.steps.size(); ++s)
    std::visit([&](const auto& op) { resolver.resolve(op, s); }, program.steps[s].op);
  return plan;
}

}  // namespace fourfold::cuda
