// The public headers in device code, as nvcc sees them: every walk, score, monoid, load and epilogue, element by
// element.
#include <fourfold/affine.hpp>
#include <fourfold/fold.hpp>
#include <fourfold/map.hpp>
#include <fourfold/route.hpp>
#include <fourfold/scan.hpp>
#include <fourfold/walk_lists.hpp>

using namespace fourfold;

// One thread per output row: what a tile driver does per element.
template <Walk W, Score S, Monoid M, Load L>
__global__ void fold_rows(W walk, S score, M monoid, L keys, const float* q, const float* v, int n, float* out) {
  const int query = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  auto state = monoid.identity();
  for (Range r : walk.tiles(Range{query, query + 1}))
    for (int key = r.first; key < r.end && key < n; ++key) {
      if (!walk.visible(query, key)) continue;
      float dot = 0;
      for (int d = 0; d < 4; ++d) dot += q[query * 4 + d] * static_cast<float>(keys(key, d));
      if constexpr (requires { monoid.lift(dot, dot); }) {
        state = monoid.combine(state, monoid.lift(static_cast<float>(score(dot, query, key)), v[key]));
      } else {
        state = monoid.combine(state, detail::lift_at(monoid, static_cast<float>(score(dot, query, key)), key));
      }
    }
  if constexpr (requires { out[query] = monoid.finish(state); }) {
    out[query] = monoid.finish(state);
  } else if constexpr (requires { monoid.finish(state).value; }) {
    out[query] = monoid.finish(state).value;
  } else {
    out[query] = monoid.finish(state)[0].value;
  }
}

template <Epilogue E>
__global__ void finish_row(E epilogue, float* values, int columns) {
  apply(epilogue, std::span<float>(values + blockIdx.x * columns, columns), static_cast<int>(blockIdx.x));
}

__global__ void absorb_leaf(OnlineSoftmax<float> monoid, const float* scores, const float* values, float* out) {
  float storage[8];
  auto row = monoid.row(storage, 8);
  monoid.absorb(row, ScoreTile<float>{scores, ~std::uint64_t{0}}, ValueTile<float>{values, 8});
  for (int c = 0; c < 8; ++c) out[c] = monoid.finish(monoid.column(row, c));
}

__global__ void step(ScalarDecay rule, Token token, Rows<float> state) {
  rule.transition(token).apply(state);
  rule.update(token).add_to(state);
}

template <class W>
void launch_walk(W walk, const float* x, float* out) {
  const Rows<const float> rows{x, 64, 4};
  fold_rows<<<1, 64>>>(walk, Scale{0.5f} | SoftCap{50}, OnlineSoftmax<float>{}, rows, x, x, 64, out);
}

void launch_all(const float* x, const std::uint8_t* bytes, float* out, std::span<const int> list, PageTable table) {
  launch_walk(Full{}, x, out);
  launch_walk(Window{8} & Causal{}, x, out);
  launch_walk(Chunk{8}, x, out);
  launch_walk(*BlockList::make(list, list, 8, 8), x, out);
  launch_walk(*TreeMask::make(1, list), x, out);
  launch_walk(table & Causal{}, x, out);
  const Rows<const float> rows{x, 64, 4};
  const Alibi alibi{8};
  const Bias bias{x, 64};
  fold_rows<<<1, 64>>>(Causal{}, alibi | bias, Sum{}, Paged{rows, table}, x, x, 64, out);
  fold_rows<<<1, 64>>>(Full{}, Plain{}, Max{}, Contiguous<blocks::Q4_K>{bytes, 64, 256}, x, x, 64, out);
  fold_rows<<<1, 64>>>(Full{}, Plain{}, LogSumExp{}, Stored{Storage::q6_k, bytes, 64, 256}, x, x, 64, out);
  fold_rows<<<1, 64>>>(Full{}, Plain{}, ArgMax{}, rows, x, x, 64, out);
  fold_rows<<<1, 64>>>(Full{}, Plain{}, TopK<4>{}, rows, x, x, 64, out);
  finish_row<<<1, 1>>>(Gate{Silu{}, rows} | Add{rows} | AddBias{x} | GeluTanh{}, out, 4);
  finish_row<<<1, 1>>>(RmsNorm{x, 1e-5f} | Rope{.dim = 4, .rotary = 4}, out, 4);
  finish_row<<<1, 1>>>(LayerNorm{x, x, 1e-5f}, out, 4);
  absorb_leaf<<<1, 1>>>({}, x, x, out);
  step<<<1, 1>>>(ScalarDecay{}, Token{{x, 4}, {x, 4}}, Rows<float>{out, 4, 4});
}
