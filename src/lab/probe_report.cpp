// Ceilings as text and as JSON.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "lab/probe.hpp"

namespace fourfold {
namespace {

using nlohmann::json;

struct TextField {
  const char* name;
  std::string Ceilings::*field;
};
struct NumberField {
  const char* name;
  double Ceilings::*field;
};

constexpr TextField kTexts[] = {
    {"cpu", &Ceilings::cpu}, {"isa", &Ceilings::isa}, {"read_pattern", &Ceilings::read_pattern}};
constexpr NumberField kNumbers[] = {{"read_bytes_per_s", &Ceilings::read_bytes_per_s},
                                    {"read_bytes_per_s_1", &Ceilings::read_bytes_per_s_1},
                                    {"read_spread", &Ceilings::read_spread},
                                    {"read_buffer_bytes", &Ceilings::read_buffer_bytes},
                                    {"l2_bytes_per_s", &Ceilings::l2_bytes_per_s},
                                    {"l3_bytes_per_s", &Ceilings::l3_bytes_per_s},
                                    {"int8_ops", &Ceilings::int8_ops},
                                    {"int8_ops_1", &Ceilings::int8_ops_1},
                                    {"bf16_ops", &Ceilings::bf16_ops},
                                    {"bf16_ops_1", &Ceilings::bf16_ops_1},
                                    {"f32_flops", &Ceilings::f32_flops},
                                    {"f32_flops_1", &Ceilings::f32_flops_1},
                                    {"barrier_s", &Ceilings::barrier_s},
                                    {"clock_hz", &Ceilings::clock_hz}};

// "45.3 GB/s": three or four digits, the unit's prefix chosen to fit.
std::string with_unit(double value, const char* unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  int prefix = 0;
  while (value >= 1000 && prefix < 5) value /= 1000, ++prefix;
  char text[64];
  std::snprintf(text, sizeof text, "%7.*f %s%s", value < 100 ? 2 : 1, value, kPrefixes[prefix], unit);
  return text;
}

void add_line(std::string& out, const char* what, const std::string& value, const std::string& note) {
  char text[256];
  std::snprintf(text, sizeof text, "%-24s %-15s %s", what, value.c_str(), note.c_str());
  out += text;
  out.erase(out.find_last_not_of(' ') + 1);
  out += '\n';
}

}  // namespace

json to_json(const Ceilings& c) {
  json object = {{"threads", c.threads}};
  for (const auto& [name, field] : kTexts) object[name] = c.*field;
  for (const auto& [name, field] : kNumbers) object[name] = c.*field;
  return object;
}

std::string format_probe(const Ceilings& c) {
  const simd::ProbeKernels* kernels = simd::probe_kernels(c.isa);
  const auto instruction = [&](const simd::OpLoop simd::ProbeKernels::*loop) {
    return std::string(kernels != nullptr ? (kernels->*loop).instruction : "");
  };
  char note[160];
  std::string out;
  const auto line = [&](const char* what, double value, const char* unit, const std::string& text) {
    if (value > 0) add_line(out, what, with_unit(value, unit), text);
  };
  add_line(out, "processor", "",
           c.cpu + ", " + std::to_string(c.threads) + (c.threads == 1 ? " thread, " : " threads, ") + c.isa);
  std::snprintf(note, sizeof note, "%s; %.0f MiB, spread %.0f%%", c.read_pattern.c_str(), c.read_buffer_bytes / 1048576,
                100 * c.read_spread);
  line("read memory", c.read_bytes_per_s, "B/s", note);
  line("read memory, 1 thread", c.read_bytes_per_s_1, "B/s", "");
  line("read L3", c.l3_bytes_per_s, "B/s", "");
  line("read L2", c.l2_bytes_per_s, "B/s", "");
  line("int8 dot", c.int8_ops, "OP/s", instruction(&simd::ProbeKernels::int8_dot));
  line("int8 dot, 1 thread", c.int8_ops_1, "OP/s", "");
  if (c.bf16_ops > 0) line("bf16 dot", c.bf16_ops, "FLOP/s", instruction(&simd::ProbeKernels::bf16_dot));
  line("bf16 dot, 1 thread", c.bf16_ops_1, "FLOP/s", "");
  line("f32 multiply-add", c.f32_flops, "FLOP/s", instruction(&simd::ProbeKernels::f32_fma));
  line("f32 multiply-add, 1 thr.", c.f32_flops_1, "FLOP/s", "");
  std::snprintf(note, sizeof note, "%7.0f ns", c.barrier_s * 1e9);
  add_line(out, "barrier", note, "");
  line("clock, all threads busy", c.clock_hz, "Hz", "");
  return out;
}

}  // namespace fourfold
