#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bench.hpp"
#include "figures.hpp"
#include "json_out.hpp"
#include "table.hpp"

namespace fourfold::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> scaled(std::vector<double> values, double factor) {
  for (double& v : values) v *= factor;
  return values;
}

// Field names are llama-bench's where it has the figure.
Json as_json(const BenchContext& c, const Measured& m) {
  const auto ns = scaled(m.seconds, 1e9), rates = m.rates();
  Json json{{"build_version", FOURFOLD_VERSION},
            {"cpu_info", c.cpu},
            {"backends", c.executor},
            {"model_filename", c.file},
            {"model_type", c.model},
            {"model_size", c.size},
            {"model_n_params", c.parameters},
            {"n_batch", c.batch},
            {"n_threads", c.threads},
            {"type_k", c.cache},
            {"type_v", c.cache},
            {"f32", c.f32},
            {"n_prompt", m.prompt},
            {"n_gen", m.generated},
            {"n_depth", m.depth},
            {"avg_ns", mean(ns)},
            {"stddev_ns", deviation(ns)},
            {"avg_ts", mean(rates)},
            {"stddev_ts", deviation(rates)},
            {"p50_ms", quantile(m.token_seconds, 0.5) * 1e3},
            {"p99_ms", quantile(m.token_seconds, 0.99) * 1e3}};
  if (m.has_limits) {
    json["bytes_per_token"] = m.bytes_per_token();
    json["read_ceiling_bytes_per_s"] = quantile(m.ceilings, 0.5);
    json["share_of_ceiling"] = m.share();
    json["mfu"] = m.mfu();
    json["binds"] = m.floor.binds();
  }
  if (c.price) json["dollars_per_million_tokens"] = dollars_per_million(c, m);
  json["samples_ns"] = ns;
  json["samples_ts"] = rates;
  return json;
}

std::vector<std::string> circumstances(const BenchContext& c) {
  return {c.model, in_bytes(c.size), in_thousands(c.parameters), c.executor, std::to_string(c.threads)};
}

std::vector<std::string> figures(const BenchContext& c, const Measured& m) {
  const auto rates = m.rates();
  std::vector<std::string> row = {m.name(), significant(mean(rates), 4) + " ± " + significant(deviation(rates), 2),
                                  significant(quantile(m.token_seconds, 0.5) * 1e3, 3),
                                  significant(quantile(m.token_seconds, 0.99) * 1e3, 3)};
  if (m.has_limits)
    row.insert(row.end(), {significant(m.bytes_per_token() / 1e6, 3),
                           percent(m.share()) + " of " + significant(quantile(m.ceilings, 0.5) / 1e9, 2),
                           percent(m.mfu()), m.floor.binds()});
  else
    row.insert(row.end(), {"-", "-", "-", "-"});
  if (c.price) row.push_back(fixed(dollars_per_million(c, m), 2));
  return row;
}

// What all rows have in common is said once, in a line above the table, so that a row fits a terminal.
std::string markdown(const std::vector<BenchRow>& rows) {
  const std::vector<std::string> names = {"model", "size", "params", "backend", "threads"};
  const std::string sides = "lrrlr";
  std::vector<std::string> head = {"test", "t/s", "p50 ms", "p99 ms", "MB/token", "of GB/s", "MFU", "binds"};
  std::string alignment = "rrrrrrrl", common;
  if (rows.front().context.price) {
    head.push_back("$/Mtoken");
    alignment += 'r';
  }
  std::vector<std::size_t> differing;
  const auto first = circumstances(rows.front().context);
  for (std::size_t c = 0; c < names.size(); ++c) {
    const auto same = [&](const BenchRow& row) { return circumstances(row.context)[c] == first[c]; };
    if (std::all_of(rows.begin(), rows.end(), same))
      common += (common.empty() ? "" : " · ") + names[c] + " " + first[c];
    else
      differing.push_back(c);
  }
  const auto chosen = [&](const std::vector<std::string>& from, std::vector<std::string> rest) {
    std::vector<std::string> cells;
    for (const std::size_t c : differing) cells.push_back(from[c]);
    cells.insert(cells.end(), rest.begin(), rest.end());
    return cells;
  };
  std::string columns;
  for (const std::size_t c : differing) columns += sides[c];
  Table table{columns + alignment};
  table.row(chosen(names, head));
  for (const auto& [context, test] : rows) table.row(chosen(circumstances(context), figures(context, test)));
  return common + (common.empty() ? "" : "\n\n") + table.markdown();
}

std::string csv(const std::vector<Json>& rows) {
  std::string out;
  const auto line = [&](const auto& cell) {
    bool first = true;
    for (const auto& [name, value] : rows.front().items()) {
      if (value.is_array()) continue;
      out += (first ? "" : ",") + cell(name);
      first = false;
    }
    out += "\n";
  };
  line([](const std::string& name) { return name; });
  for (const Json& row : rows)
    line([&](const std::string& name) {
      std::string text = row[name].is_string() ? row[name].get<std::string>() : row[name].dump();
      for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
      return "\"" + text + "\"";
    });
  return out;
}

}  // namespace

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values);
  double sum = 0;
  for (const double v : values) sum += (v - middle) * (v - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double quantile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

std::string Measured::name() const {
  return (prompt > 0 ? "pp" + std::to_string(prompt) : "tg" + std::to_string(generated)) +
         (depth > 0 ? " @ d" + std::to_string(depth) : "");
}

std::vector<double> Measured::rates() const {
  std::vector<double> rates;
  for (const double s : seconds) rates.push_back(tokens() / s);
  return rates;
}

double Measured::median_s() const { return quantile(seconds, 0.5); }

double Measured::share() const {
  std::vector<double> shares;
  for (std::size_t r = 0; r < seconds.size(); ++r) shares.push_back(floor.cost.bytes() / ceilings[r] / seconds[r]);
  return quantile(shares, 0.5);
}

double dollars_per_million(const BenchContext& context, const Measured& m) {
  return *context.price / 3600 * m.median_s() / m.tokens() * 1e6;
}

std::string printed(const std::vector<BenchRow>& tests, const std::string& format) {
  if (format == "md") return markdown(tests);
  std::vector<Json> rows;
  for (const auto& [context, test] : tests) rows.push_back(as_json(context, test));
  if (format == "json") return dumped(rows, 2);
  if (format == "csv") return csv(rows);
  std::string lines;
  for (const Json& row : rows) lines += dumped(row);
  return lines;
}

}  // namespace fourfold::cli
