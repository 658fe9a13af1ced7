// ShortConvolution: a causal convolution of a few taps along each channel, whose state is its last inputs. Token shift
// is the case of two taps.
//
//   ShortConvolution conv{Rows<const float>{taps, channels, 4}};
//   status s = conv.on(reference).run(x, out, states, sequences);
//
// out(t, c) = bias[c] + sum over i of taps(c, i) x(t - width + 1 + i, c)                      Gu and Dao 2023, figure 3
// As a scan its transition moves a window of width - 1 inputs by one. Memory binds: each input is read once from there.
#pragma once

#include <algorithm>
#include <fourfold/executor.hpp>
#include <fourfold/load.hpp>
#include <fourfold/scan_tokens.hpp>
#include <span>
#include <vector>

namespace fourfold {

template <class X>
class ShortConvolutionOn;

struct ShortConvolution {
  Rows<const float> taps;         // [channels, width], the newest input's last
  std::span<const float> bias{};  // [channels] or nothing

  template <class X>
  constexpr ShortConvolutionOn<X> on(const X& executor) const {
    return {*this, executor};
  }
};

template <class X>
class ShortConvolutionOn {
 public:
  constexpr ShortConvolutionOn(const ShortConvolution& conv, const X& executor) : conv_(conv), executor_(executor) {}

  // x [tokens, channels]   out [tokens, channels], not x itself
  // states [slots, (width - 1) * channels]: the inputs before the first token, oldest first; left as those before the
  // next one. No data: zeros.
  template <Matrix M>
  status run(const M& x, Rows<float> out, Rows<float> states, const ScanSequences& sequences) const {
    FOURFOLD_TRY(check(x.rows, x.columns, out, states, sequences));
    const int channels = static_cast<int>(x.columns), blocks = (channels + kBlock - 1) / kBlock;
    for_each(executor_, sequences.count() * blocks, [&](int job) {
      const int sequence = job / blocks, column = job % blocks * kBlock;
      run_block(x, out, states.data ? states.row(sequences.slot(sequence)).data() : nullptr,
                sequences.offsets[sequence], sequences.offsets[sequence + 1], column,
                std::min(kBlock, channels - column));
    });
    return {};
  }
  // One sequence.
  template <Matrix M>
  status run(const M& x, Rows<float> out, Rows<float> states = {}) const {
    const int whole[] = {0, static_cast<int>(x.rows)};
    return run(x, out, states, ScanSequences{whole});
  }

 private:
  static constexpr int kBlock = 64;

  status check(std::int64_t tokens, std::int64_t channels, Rows<float> out, Rows<float> states,
               const ScanSequences& sequences) const {
    if (conv_.taps.rows != channels)
      return detail::mismatch("short convolution: rows of taps", conv_.taps.rows, "the channels", channels);
    if (conv_.taps.columns < 1) return {Code::invalid_argument, "short convolution: width must be at least 1"};
    if (!conv_.bias.empty() && static_cast<std::int64_t>(conv_.bias.size()) != channels)
      return detail::mismatch("short convolution: biases", static_cast<std::int64_t>(conv_.bias.size()), "the channels",
                              channels);
    if (out.rows != tokens || out.columns != channels)
      return {Code::invalid_argument, "short convolution: out must be [tokens, channels]"};
    FOURFOLD_TRY(detail::check_offsets("short convolution: offsets", sequences.offsets, static_cast<int>(tokens)));
    if (!states.data) return {};
    if (states.columns != (conv_.taps.columns - 1) * channels ||
        (sequences.slots.empty() && states.rows != sequences.count()))
      return {Code::invalid_argument, "short convolution: states must be [slots, (width - 1) * channels]"};
    return sequences.slots.empty() ? status() : detail::check_slots(sequences.slots, sequences.count(), states.rows);
  }

  template <class M>
  void run_block(const M& x, Rows<float> out, float* state, int first, int end, int column, int count) const {
    using T = real_on<X, float>;
    const int before = static_cast<int>(conv_.taps.columns) - 1, tokens = end - first;
    std::vector<float> inputs((static_cast<std::size_t>(before) + tokens) * count);  // [before + tokens, count]
    if (state)
      for (int i = 0; i < before; ++i) std::copy_n(state + i * x.columns + column, count, &inputs[i * count]);
    for (int t = 0; t < tokens; ++t) read(x, first + t, column, count, inputs.data() + (before + t) * count);
    std::vector<T> sum(count);
    for (int t = 0; t < tokens; ++t) {
      for (int c = 0; c < count; ++c) sum[c] = conv_.bias.empty() ? T(0) : static_cast<T>(conv_.bias[column + c]);
      for (int i = 0; i <= before; ++i)
        for (int c = 0; c < count; ++c)
          sum[c] += static_cast<T>(conv_.taps(column + c, i)) * static_cast<T>(inputs[(t + i) * count + c]);
      for (int c = 0; c < count; ++c) out(first + t, column + c) = static_cast<float>(sum[c]);
    }
    if (state)
      for (int i = 0; i < before; ++i)
        std::copy_n(inputs.data() + (tokens + i) * count, count, state + i * x.columns + column);
  }

  ShortConvolution conv_;
  Held<X> executor_;
};

}  // namespace fourfold
