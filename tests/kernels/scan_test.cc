// Tests scans of state-space layers and their convolution: every kernel table computes the bits of
// the scalar table, the results agree with the formulas, and scanning in chunks of any length gives
// the same bits.
#include <functional>

#include "tests/kernels/kernel_inputs.h"

namespace kvd::kernels::scan_test {
namespace {

constexpr std::size_t kRows = 35;
constexpr std::size_t kChannelCounts[] = {0, 1, 3, 7, 8, 9, 16, 31, 33, 70};
constexpr std::size_t kStateCounts[] = {1, 7, 8, 9, 16, 31, 32, 33, 64, 128, 255, 257};

// Rows of random numbers. The used elements begin at kFirst, and each row has one more element
// after them.
class Rows {
 public:
  Rows(Numbers& numbers, std::size_t width, float scale, float offset = 0.0f) {
    for (std::size_t row = 0; row < kRows; ++row) {
      rows_.push_back(numbers.Row(kFirst + width + 1));
      for (float& number : rows_.back()) number = number * scale + offset;
      pointers_.push_back(rows_.back().data());
    }
  }
  ScanRows From(std::size_t row) const { return {pointers_.data() + row, kFirst}; }
  float at(std::size_t row, std::size_t i) const { return rows_[row][kFirst + i]; }

 private:
  static constexpr std::size_t kFirst = 3;
  std::vector<std::vector<float>> rows_;
  std::vector<const float*> pointers_;
};

// The result of a scan: the final state and the output rows. Each row of y has one unused element
// before and one after it.
struct Outcome {
  std::vector<float> state, y;
};

using Scan = std::function<void(std::size_t first_row, std::size_t row_count, float* state,
                                float* const* y)>;

Outcome RunInPieces(const std::vector<float>& state, std::size_t width, std::size_t piece,
                    const Scan& scan) {
  Outcome outcome{.state = state, .y = std::vector<float>(kRows * (width + 2), 77.0f)};
  std::vector<float*> y;
  for (std::size_t row = 0; row < kRows; ++row) y.push_back(outcome.y.data() + row * (width + 2));
  for (std::size_t done = 0; done < kRows; done += piece) {
    scan(done, std::min(piece, kRows - done), outcome.state.data(), y.data() + done);
  }
  return outcome;
}

::testing::AssertionResult Same(const Outcome& expected, const Outcome& actual) {
  const auto states = SameBits(expected.state, actual.state);
  return states ? SameBits(expected.y, actual.y) : states;
}

double SoftplusOf(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
double SiluOf(double x) { return x / (1.0 + std::exp(-x)); }

// The inputs of scan_channels and of scan_head.
struct Inputs {
  std::size_t channels, states;
  Numbers numbers;
  Rows dt{numbers, channels, 4.0f}, x{numbers, channels, 1.0f}, gate{numbers, channels, 8.0f};
  Rows b{numbers, states, 1.0f}, c{numbers, states, 1.0f};
  std::vector<float> a, d, state;

  Inputs(std::size_t channel_count, std::size_t state_count)
      : channels(channel_count), states(state_count), numbers(71) {
    a = numbers.Row(channels * states);
    for (float& number : a) number = -std::fabs(number);
    d = numbers.Row(channels);
    state = numbers.Row(channels * states);
  }

  Outcome RunChannels(const KernelTable& table, std::size_t piece) const {
    return RunInPieces(state, channels, piece,
                       [&](std::size_t row, std::size_t count, float* h, float* const* y) {
                         table.scan_channels({.row_count = count,
                                              .channel_count = channels,
                                              .state_count = states,
                                              .dt = dt.From(row),
                                              .x = x.From(row),
                                              .gate = gate.From(row),
                                              .b = b.From(row),
                                              .c = c.From(row),
                                              .a = a.data(),
                                              .d = d.data(),
                                              .state = h,
                                              .y = y,
                                              .y_first = 1});
                       });
  }
  Outcome RunHead(const KernelTable& table, std::size_t piece) const {
    return RunInPieces(state, channels, piece,
                       [&](std::size_t row, std::size_t count, float* h, float* const* y) {
                         table.scan_head({.row_count = count,
                                          .channel_count = channels,
                                          .state_count = states,
                                          .dt = dt.From(row),
                                          .x = x.From(row),
                                          .gate = gate.From(row),
                                          .b = b.From(row),
                                          .c = c.From(row),
                                          .dt_bias = 0.3f,
                                          .a = -0.7f,
                                          .d = 1.1f,
                                          .state = h,
                                          .y = y,
                                          .y_first = 1});
                       });
  }

  // Compares the outcome with the formula in double precision. Arguments of the functions:
  // step(row, channel), a_of(channel, state), d_of(channel).
  template <class Step, class A, class D>
  void ExpectTheFormula(const Outcome& outcome, const Step& step, const A& a_of,
                        const D& d_of) const {
    std::vector<double> h(state.begin(), state.end());
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t i = 0; i < channels; ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < states; ++k) {
          double& s = h[i * states + k];
          s = s * std::exp(step(row, i) * a_of(i, k)) +
              double{b.at(row, k)} * x.at(row, i) * step(row, i);
          sum += s * c.at(row, k);
        }
        const double y = (sum + x.at(row, i) * d_of(i)) * SiluOf(gate.at(row, i));
        ASSERT_NEAR(outcome.y[row * (channels + 2) + 1 + i], y, 2e-3 + 1e-4 * std::fabs(y))
            << "row " << row << " channel " << i;
      }
    }
    for (std::size_t at = 0; at < h.size(); ++at) {
      ASSERT_NEAR(outcome.state[at], h[at], 1e-3 + 1e-4 * std::fabs(h[at])) << at;
    }
  }
};

class ScanTest : public TableTest {};

TEST_P(ScanTest, ChannelsGiveTheScalarBits) {
  for (const std::size_t channels : kChannelCounts) {
    for (const std::size_t states : kStateCounts) {
      const Inputs inputs(channels, states);
      ASSERT_TRUE(Same(inputs.RunChannels(*scalar_, kRows), inputs.RunChannels(*table_, kRows)))
          << channels << " channels of " << states;
    }
  }
}

TEST_P(ScanTest, HeadsGiveTheScalarBits) {
  for (const std::size_t channels : kChannelCounts) {
    for (const std::size_t states : kStateCounts) {
      const Inputs inputs(channels, states);
      ASSERT_TRUE(Same(inputs.RunHead(*scalar_, kRows), inputs.RunHead(*table_, kRows)))
          << channels << " channels of " << states;
    }
  }
}

TEST_P(ScanTest, FragmentsOfAnyLengthGiveTheSameBits) {
  for (const std::size_t states : {9u, 16u, 128u}) {
    const Inputs inputs(21, states);
    const Outcome channels = inputs.RunChannels(*table_, kRows);
    const Outcome head = inputs.RunHead(*table_, kRows);
    for (const std::size_t piece : {1u, 7u, 16u, 17u, 34u}) {
      EXPECT_TRUE(Same(channels, inputs.RunChannels(*table_, piece))) << piece;
      EXPECT_TRUE(Same(head, inputs.RunHead(*table_, piece))) << piece;
    }
  }
}

TEST_P(ScanTest, ChannelsFollowTheFormula) {
  const Inputs inputs(19, 16);
  inputs.ExpectTheFormula(
      inputs.RunChannels(*table_, kRows),
      [&](std::size_t row, std::size_t i) { return SoftplusOf(inputs.dt.at(row, i)); },
      [&](std::size_t i, std::size_t k) { return double{inputs.a[i * 16 + k]}; },
      [&](std::size_t i) { return double{inputs.d[i]}; });
}

TEST_P(ScanTest, HeadsFollowTheFormula) {
  const Inputs inputs(19, 64);
  inputs.ExpectTheFormula(
      inputs.RunHead(*table_, kRows),
      [&](std::size_t row, std::size_t) { return SoftplusOf(inputs.dt.at(row, 0) + 0.3); },
      [](std::size_t, std::size_t) { return -0.7; }, [](std::size_t) { return 1.1; });
}

// With one state that starts at 0, with a = d = 0 and x = b = c = silu(gate) = 1, the new state and
// y are both softplus(dt).
TEST_P(ScanTest, SoftplusIsCloseToTheTruth) {
  for (float dt = -95.0f; dt < 95.0f; dt += 0.0371f) {
    const float one = 1.0f, gate = 1.2784645f, nothing = 0.0f;  // silu(gate) = 1
    const float* const dts = &dt;
    const float* const ones = &one;
    const float* const gates = &gate;
    float state = 0.0f, y = 0.0f;
    float* const ys = &y;
    table_->scan_channels({.row_count = 1,
                           .channel_count = 1,
                           .state_count = 1,
                           .dt = {&dts, 0},
                           .x = {&ones, 0},
                           .gate = {&gates, 0},
                           .b = {&ones, 0},
                           .c = {&ones, 0},
                           .a = &nothing,
                           .d = &nothing,
                           .state = &state,
                           .y = &ys,
                           .y_first = 0});
    const double truth = SoftplusOf(dt);
    ASSERT_NEAR(state, truth, 4e-7 * truth + 1e-43) << dt;
    ASSERT_NEAR(y, truth, 1e-6 * truth + 1e-43) << dt;
  }
}

TEST_P(ScanTest, NanStaysNan) {
  for (const float bad : {NAN, INFINITY}) {
    Inputs inputs(5, 16);
    inputs.state[16 + 3] = bad;
    for (const Outcome& outcome :
         {inputs.RunChannels(*table_, kRows), inputs.RunHead(*table_, kRows)}) {
      EXPECT_FALSE(std::isfinite(outcome.y[2]));
      EXPECT_TRUE(std::isfinite(outcome.y[1]));
    }
  }
}

TEST_P(ScanTest, ConvolutionsGiveTheScalarBits) {
  Numbers numbers(72);
  for (const std::size_t channels : kChannelCounts) {
    for (const std::size_t width : {1u, 2u, 3u, 4u, 5u, 32u}) {
      for (const bool is_plain : {false, true}) {
        const Rows x(numbers, channels, 1.0f), kept(numbers, channels, 1.0f);
        const std::vector<float> taps = numbers.Row(channels * width), bias = numbers.Row(channels);
        const ScanRows before = kept.From(0);
        std::vector<const float*> rows;
        for (std::size_t i = 0; i + 1 < width; ++i) rows.push_back(before.rows[i] + before.first);
        const auto run = [&](const KernelTable& table) {
          return RunInPieces({}, channels, kRows,
                             [&](std::size_t, std::size_t count, float*, float* const* y) {
                               table.convolve({.row_count = count,
                                               .channel_count = channels,
                                               .width = width,
                                               .taps = taps.data(),
                                               .bias = is_plain ? nullptr : bias.data(),
                                               .before = rows.data(),
                                               .x = x.From(0),
                                               .y = y,
                                               .y_first = 1,
                                               .is_activated = !is_plain});
                             });
        };
        const Outcome outcome = run(*table_);
        ASSERT_TRUE(Same(run(*scalar_), outcome)) << channels << " channels, " << width << " wide";
        for (std::size_t row = 0; row < kRows; ++row) {
          for (std::size_t c = 0; c < channels; ++c) {
            double sum = is_plain ? 0.0 : bias[c];
            for (std::size_t i = 0; i < width; ++i) {
              const std::size_t at = row + i;
              sum += double{taps[c * width + i]} *
                     (at + 1 < width ? kept.at(at, c) : x.at(at + 1 - width, c));
            }
            ASSERT_NEAR(outcome.y[row * (channels + 2) + 1 + c], is_plain ? sum : SiluOf(sum),
                        2e-5);
          }
        }
      }
    }
  }
}

KVD_FOR_EVERY_TABLE(ScanTest);

}  // namespace
}  // namespace kvd::kernels::scan_test
