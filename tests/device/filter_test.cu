// Filters of logits on the device against their definition: rows of one to many blocks of threads, equal logits, NaN
// and infinities. Skipped where there is no device.
#include <algorithm>
#include <bit>

#include "cuda/steps.hpp"
#include "device.cuh"

namespace fourfold::cuda::test {
namespace {

class Filters : public DeviceTest {};

// The id of the last that stays.
int last_kept(const std::vector<float>& logits, int k, double mass, float share) {
  std::vector<int> ids(logits.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
  const auto nan_last = [&](int id) { return std::isnan(logits[id]) ? -std::numeric_limits<double>::infinity() : 0; };
  std::stable_sort(ids.begin(), ids.end(), [&](int a, int b) {
    if (nan_last(a) != nan_last(b)) return nan_last(a) > nan_last(b);
    return logits[a] > logits[b];
  });
  ids.resize(std::min<std::size_t>(ids.size(), k));
  const float best = logits[ids[0]];
  const auto weight = [&](int id) {
    return std::isnan(logits[id]) ? 0 : logits[id] == best ? 1 : std::exp(double{logits[id]} - best);
  };
  double total = 0, sum = 0;
  for (const int id : ids) total += weight(id);
  int last = ids[0];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const float x = logits[ids[i]];
    if (i > 0 && (std::isnan(x) || (share > 0 && x < best + std::log(share)))) break;
    last = ids[i];
    sum += weight(ids[i]) / total;
    if (mass < 1 && sum >= mass) break;
  }
  return last;
}

void check(const std::vector<float>& logits, int k, float mass, float share, const std::string& name) {
  const int vocab = static_cast<int>(logits.size());
  const Buffer<float> row(logits);
  const Buffer<unsigned long long> least(1);
  const Buffer<unsigned> done(1, 0);
  const Buffer<std::byte> candidates(filter_bytes(vocab));
  const Filter f{row.get(), vocab,       std::min(k, vocab), mass,
                 share,     least.get(), done.get(),         reinterpret_cast<unsigned long long*>(candidates.get())};
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(filter_logits(f, false, nullptr), cudaSuccess) << name;
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << name;
    const int id = static_cast<int>(0xffffffffu - static_cast<std::uint32_t>(least.host()[0]));
    ASSERT_EQ(id, last_kept(logits, k, mass, share)) << name << ", k " << k << ", mass " << mass << ", share " << share;
  }
}

void check_all(const std::vector<float>& logits, const std::string& name) {
  for (const int k : {1, 40, kMostKept})
    for (const float mass : {1.f, 0.8f, 0.f})
      for (const float share : {0.f, 0.1f}) {
        check(logits, k, mass, share, name);
        if (testing::Test::HasFatalFailure()) return;
      }
}

TEST_F(Filters, KeepWhatTheirDefinitionSays) {
  for (const int vocab : {1, 2, 50, 1000, 4096, 4097, 262208}) {
    std::vector<float> logits = noise_vector(vocab, vocab);
    check_all(logits, "noise of " + std::to_string(vocab));
    for (float& x : logits) x = std::round(x * 2) / 2;
    check_all(logits, "equal logits of " + std::to_string(vocab));
    for (std::size_t i = 0; i < logits.size(); i += 3) logits[i] = std::nanf("");
    check_all(logits, "NaN among " + std::to_string(vocab));
    if (HasFatalFailure()) return;
  }
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  check_all(std::vector<float>(5000, std::nanf("")), "NaN alone");
  check_all(std::vector<float>(5000, -kInfinite), "nothing possible");
  check_all({1, kInfinite, 2, kInfinite, -kInfinite, 0.f, -0.f}, "infinities");
}

}  // namespace
}  // namespace fourfold::cuda::test
