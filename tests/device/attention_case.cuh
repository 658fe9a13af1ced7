// A random attention on the device and two answers to compare with: in double, and as naive code in the cache's own
// precision would compute it.
#pragma once

#include <string>

#include "cuda/sm90/attend.cuh"
#include "device.cuh"

namespace fourfold::cuda::test {

using namespace sm90;

static __global__ void fill_noise(float* out, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x)
    out[i] = noise(seed, i);
}

// Positions [0, filled) of every head; the last stored dims beyond the head's are zeros.
template <class Kv>
__global__ void fill_cache(char* cache, CacheLayout layout, int filled, std::uint64_t seed) {
  const std::int64_t each = std::int64_t{filled} * layout.stored_dim(), count = 2 * layout.kv_heads * each;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const int dim = i % layout.stored_dim(), position = i / layout.stored_dim() % filled, head = i / each / 2;
    const Part part = i / each % 2 != 0 ? Part::value : Part::key;
    Kv::store(cache + layout.place(head, position, part, dim), dim < layout.head_dim ? noise(seed, i) : 0.f);
  }
}

// One thread per (token, head, dim): the definition. kNaive rounds queries and weights as the matrix unit takes them.
template <class Kv, bool kNaive, class W, class S>
__global__ void attend_in_double(Attention a, W walk, S score, double* out) {
  const int dim = threadIdx.x, head = blockIdx.x, token = blockIdx.y, position = *a.position + token;
  const int kv_head = head / (a.heads / a.layout.kv_heads), d = a.layout.head_dim, end = *a.position + a.tokens;
  const char* cache = reinterpret_cast<const char*>(a.cache);
  const auto rounded = [](double x) {
    return kNaive ? double{Kv::Operand::unpack(Kv::Operand::pack(static_cast<float>(x), 0.f)).x} : x;
  };
  const auto own = at_head(score, head);
  __shared__ double weights[1024];
  double m = a.sinks != nullptr ? a.sinks[head] : -INFINITY;
  for (int pass = 0; pass < 2; ++pass) {
    double l = a.sinks != nullptr ? exp(a.sinks[head] - m) : 0, o = 0;
    for (int first = 0; first < end; first += blockDim.x) {
      const int key = first + dim;
      double s = -INFINITY;
      if (key < end && walk.visible(position, key)) {
        double dot = 0;
        for (int i = 0; i < d; ++i)
          dot += rounded(a.query[(std::int64_t{token} * a.heads + head) * d + i]) *
                 Kv::load(cache + a.layout.place(kv_head, key, Part::key, i));
        s = own(dot, position, key);
      }
      weights[dim] = s;
      __syncthreads();
      for (int i = 0; i < blockDim.x && first + i < end; ++i) {
        if (pass == 0) {
          m = fmax(m, weights[i]);
        } else if (weights[i] != -INFINITY) {
          const double w = exp(weights[i] - m);
          l += w;
          if (dim < d) o += rounded(w) * Kv::load(cache + a.layout.place(kv_head, first + i, Part::value, dim));
        }
      }
      __syncthreads();
    }
    if (pass == 1 && dim < d) out[(std::int64_t{token} * a.heads + head) * d + dim] = l == 0 ? 0 : o / l;
  }
}

struct Shape {
  KvType type;
  int heads, kv_heads, head_dim;
};

template <class F>
void with_kv(KvType type, F&& f) {
  switch (type) {
    case KvType::bf16:
      return f(Kv16<Bf16>{});
    case KvType::f16:
      return f(Kv16<F16>{});
    case KvType::f8:
      return f(Kv8{});
  }
}

// `tokens` tokens from `position` on, whose keys and values are in the cache; what lies behind them there is NaN.
struct Case {
  Shape shape;
  int position, tokens;
  CacheLayout layout;
  Buffer<char> cache;
  Buffer<float> query, out;
  Buffer<int> start;
  Buffer<char> scratch;
  std::vector<float> sink_values;
  Buffer<float> sinks;

  Case(Shape s, int position, int tokens, std::uint64_t seed)
      : shape(s),
        position(position),
        tokens(tokens),
        layout{s.kv_heads, s.head_dim, s.type == KvType::f8 ? 1 : 2, position + tokens + 70},
        cache(layout.bytes()),
        query(std::size_t(tokens) * s.heads * s.head_dim),
        out(std::size_t(tokens) * s.heads * s.head_dim),
        start(std::vector<int>{position}),
        scratch(attend_scratch_bytes(layout, s.heads), 0),
        sink_values(s.heads),
        sinks(s.heads) {
    with_kv(s.type,
            [&](auto kv) { fill_cache<decltype(kv)><<<512, 256>>>(cache.get(), layout, position + tokens, seed); });
    fill_noise<<<64, 256>>>(query.get(), std::int64_t{tokens} * s.heads * s.head_dim, seed + 1);
    for (int h = 0; h < s.heads; ++h) sink_values[h] = 0.5f * h - 1;
    cudaMemcpy(sinks.get(), sink_values.data(), sink_values.size() * 4, cudaMemcpyHostToDevice);
  }

  Attention attention(bool with_sinks = false) const {
    return {query.get(),  out.get(),   reinterpret_cast<const std::byte*>(cache.get()),
            layout,       shape.type,  shape.heads,
            tokens,       start.get(), with_sinks ? sinks.get() : nullptr,
            scratch.get()};
  }
  template <class W, class S>
  std::vector<double> answer(const Attention& a, const W& walk, const S& score, bool naive) const {
    Buffer<double> answer(std::size_t(tokens) * shape.heads * shape.head_dim);
    const dim3 grid(shape.heads, tokens);
    with_kv(shape.type, [&](auto kv) {
      using Kv = decltype(kv);
      naive ? attend_in_double<Kv, true><<<grid, 256>>>(a, walk, score, answer.get())
            : attend_in_double<Kv, false><<<grid, 256>>>(a, walk, score, answer.get());
    });
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return answer.host();
  }
};

// NaNs first, then the error against double, which may be twice the naive one's; names the worst place.
template <class W, class S>
void expect_exact(const Case& c, const Attention& a, const W& walk, const S& score, const std::string& name) {
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << name << ": " << cudaGetErrorString(cudaGetLastError());
  const std::vector<float> got = c.out.host();
  const std::vector<double> exact = c.answer(a, walk, score, false), naive = c.answer(a, walk, score, true);
  std::vector<double> error(exact.size()), allowed(exact.size());
  std::size_t worst = 0, wrong = 0, first = exact.size();
  const double size = rms(exact);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto place = [&](std::size_t at) {
      return "token " + std::to_string(at / c.shape.head_dim / c.shape.heads) + ", head " +
             std::to_string(at / c.shape.head_dim % c.shape.heads) + ", dim " + std::to_string(at % c.shape.head_dim);
    };
    ASSERT_EQ(std::isnan(got[i]), std::isnan(exact[i]))
        << name << ": " << place(i) << " is " << got[i] << ", not " << exact[i];
    error[i] = got[i] - exact[i];
    allowed[i] = naive[i] - exact[i];
    if (std::abs(error[i]) > std::abs(error[worst])) worst = i;
    if (std::abs(error[i]) > 0.05 * size) ++wrong, first = std::min(first, i);
  }
  if (wrong > 0) {
    ADD_FAILURE() << name << ": " << wrong << " of " << exact.size() << " wrong, first token "
                  << first / c.shape.head_dim / c.shape.heads << ", head " << first / c.shape.head_dim % c.shape.heads
                  << ", dim " << first % c.shape.head_dim << ": " << got[first] << ", not " << exact[first];
    return;
  }
  EXPECT_LE(rms(error), 2 * rms(allowed) + 1e-6 * size)
      << name << ": naive " << rms(allowed) << ", worst at " << worst << ": " << got[worst] << ", not " << exact[worst];
  ::testing::Test::RecordProperty(name, std::to_string(rms(error) / (size > 0 ? size : 1)));
}

}  // namespace fourfold::cuda::test
