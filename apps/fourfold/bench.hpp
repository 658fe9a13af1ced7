// bench: what one test measured, and the forms it is printed in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "limits.hpp"

namespace fourfold::cli {

struct Measured {
  int prompt = 0, generated = 0, depth = 0;  // one of the first two is 0
  std::vector<double> seconds{};             // per repetition
  std::vector<double> token_seconds{};       // per token generated; per repetition / tokens for a prompt
  std::vector<double> ceilings{};            // bytes per second, read before and after each repetition; may be empty
  Floor floor{};                             // at the median ceiling, of the whole test
  bool has_limits = false;

  int tokens() const { return prompt + generated; }
  std::string name() const;  // "pp512", "tg128 @ d4096"
  std::vector<double> rates() const;
  double bytes_per_token() const { return floor.cost.bytes() / tokens(); }
  double median_s() const;
  double share() const;  // of the ceiling around each repetition, the median; for has_limits only
  double mfu() const { return floor.compute_s / median_s(); }
};

// What all tests of a run have in common.
struct BenchContext {
  std::string file, model, executor, cache, cpu;
  double size = 0, parameters = 0;
  int threads = 0, batch = 0;
  std::optional<double> price;  // dollars per hour
  bool f32 = false;
};

double mean(const std::vector<double>& values);
double deviation(const std::vector<double>& values);           // of a sample
double quantile(std::vector<double> values, double fraction);  // by nearest rank
double dollars_per_million(const BenchContext& context, const Measured& m);

struct BenchRow {
  BenchContext context;
  Measured test;
};
// `format`: md, json, jsonl or csv.
std::string printed(const std::vector<BenchRow>& rows, const std::string& format);

}  // namespace fourfold::cli
