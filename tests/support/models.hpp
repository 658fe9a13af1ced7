// The tiny models of tests/data/models, and the logits of a Session over some ids.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fourfold/session.hpp>
#include <span>
#include <string>
#include <vector>

namespace fourfold::test {

inline const std::string kModels = FOURFOLD_TEST_DATA "/models/";

inline Model open_model(const std::string& name) {
  auto model = load(kModels + name);
  if (!model.ok()) throw std::runtime_error(model.error().message());
  return std::move(model).value();
}

inline std::vector<int> some_ids(int count, int vocab, unsigned seed = 1) {
  std::vector<int> ids;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;  // Knuth; Lewis
    ids.push_back(static_cast<int>((seed >> 8) % static_cast<unsigned>(vocab)));
  }
  return ids;
}

// Logits of every id, [ids, vocab], evaluated `chunk` ids at a time.
inline std::vector<float> all_logits(const Model& model, const SessionOptions& options, std::span<const int> ids,
                                     int chunk) {
  auto session = model.session(options);
  EXPECT_TRUE(session.ok()) << session.error().message();
  std::vector<float> logits;
  for (std::size_t first = 0; session.ok() && first < ids.size(); first += static_cast<std::size_t>(chunk)) {
    const auto part = ids.subspan(first, std::min(static_cast<std::size_t>(chunk), ids.size() - first));
    const status done = session->eval(part, static_cast<int>(part.size()));
    EXPECT_TRUE(done.ok()) << done.message();
    if (!done.ok()) break;
    for (int i = 0; i < static_cast<int>(part.size()); ++i)
      logits.insert(logits.end(), session->logits(i).begin(), session->logits(i).end());
  }
  return logits;
}

// "variants/qwen2_window" -> "variants_qwen2_window": a name that GoogleTest accepts.
inline std::string test_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

}  // namespace fourfold::test
