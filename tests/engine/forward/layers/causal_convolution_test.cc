#include "engine/forward/layers/convolutions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace kvd {
namespace {

constexpr std::size_t kChannels = 3 * kUnitChannels + 5;
constexpr std::size_t kRows = 40;

std::vector<float> Random(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

class CausalConvolutionTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  std::size_t width() const { return GetParam(); }
  const std::vector<float> taps_ = Random(kChannels * GetParam(), 1);
  const std::vector<float> bias_ = Random(kChannels, 2);
  const std::vector<float> x_ = Random(kRows * kChannels, 3);
  const CausalConvolution convolution_{
      .taps = taps_.data(), .bias = bias_.data(), .channels = kChannels, .width = GetParam()};

  struct Outcome {
    std::vector<float> y, state;
    bool operator==(const Outcome&) const = default;
  };

  // Convolves all rows in chunks of `chunk` rows.
  Outcome Run(std::size_t chunk) const {
    Outcome outcome{.y = std::vector<float>(kRows * kChannels), .state = {}};
    std::vector<float> from;
    for (std::size_t done = 0; done < kRows; done += chunk) {
      const std::size_t count = std::min(chunk, kRows - done);
      std::vector<const float*> x;
      std::vector<float*> y;
      for (std::size_t row = done; row < done + count; ++row) {
        x.push_back(x_.data() + row * kChannels);
        y.push_back(outcome.y.data() + row * kChannels);
      }
      std::vector<float> to(StateFloatsOf(convolution_), NAN);
      const ConvolvedRows convolved{.x = x.data(),
                                    .y = y.data(),
                                    .row_count = count,
                                    .from = done == 0 ? nullptr : from.data(),
                                    .to = to.data()};
      for (std::size_t first = 0; first < kChannels; first += kUnitChannels) {
        ConvolveChannels(*kernels::ScalarTable(), convolution_, convolved, first,
                         std::min(kUnitChannels, kChannels - first));
      }
      from = to;
    }
    outcome.state = from;
    return outcome;
  }
};

TEST_P(CausalConvolutionTest, SumsTheTapsOverTheLastTokens) {
  const Outcome outcome = Run(kRows);
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t c = 0; c < kChannels; ++c) {
      double sum = bias_[c];
      for (std::size_t i = 0; i < width() && i <= row; ++i) {
        sum += static_cast<double>(taps_[c * width() + width() - 1 - i]) *
               x_[(row - i) * kChannels + c];
      }
      ASSERT_NEAR(outcome.y[row * kChannels + c], sum, 1e-5) << "row " << row << " channel " << c;
    }
  }
  const std::vector<float> last(x_.end() - static_cast<std::ptrdiff_t>(outcome.state.size()),
                                x_.end());
  EXPECT_EQ(outcome.state, last);
}

TEST_P(CausalConvolutionTest, FragmentsOfAnyLengthGiveTheSameBits) {
  const Outcome whole = Run(kRows);
  for (const std::size_t chunk : {1, 2, 3, 7, 39}) EXPECT_EQ(Run(chunk), whole) << chunk;
}

// Convolutions that share the rows of a state compute what one convolution of all channels does.
TEST_P(CausalConvolutionTest, ConvolutionsOfPartsOfTheRowsGiveTheBitsOfOne) {
  const Outcome whole = Run(kRows);
  constexpr std::size_t kParts[] = {0, kUnitChannels + 1, 2 * kUnitChannels, kChannels};
  std::vector<float> y(kRows * kChannels), from(whole.state.size()), to(whole.state.size());
  for (const std::size_t done : {0, 7}) {
    const std::size_t count = done == 0 ? 7 : kRows - 7;
    for (std::size_t part = 0; part + 1 < std::size(kParts); ++part) {
      const std::size_t first = kParts[part], channels = kParts[part + 1] - first;
      const CausalConvolution convolution{.taps = taps_.data() + first * width(),
                                          .bias = bias_.data() + first,
                                          .channels = channels,
                                          .width = width(),
                                          .first_in_row = first,
                                          .row_channels = kChannels};
      std::vector<const float*> x_rows;
      std::vector<float*> y_rows;
      for (std::size_t row = done; row < done + count; ++row) {
        x_rows.push_back(x_.data() + row * kChannels + first);
        y_rows.push_back(y.data() + row * kChannels + first);
      }
      const ConvolvedRows convolved{.x = x_rows.data(),
                                    .y = y_rows.data(),
                                    .row_count = count,
                                    .from = done == 0 ? nullptr : from.data(),
                                    .to = to.data()};
      for (std::size_t at = 0; at < channels; at += kUnitChannels) {
        ConvolveChannels(*kernels::ScalarTable(), convolution, convolved, at,
                         std::min(kUnitChannels, channels - at));
      }
    }
    from = to;
  }
  EXPECT_EQ(y, whole.y);
  EXPECT_EQ(to, whole.state);
}

INSTANTIATE_TEST_SUITE_P(Widths, CausalConvolutionTest,
                         ::testing::Values(1, 2, 3, 4, ModelConfig::kConvolutionWidthMax),
                         [](const auto& named) { return "width_" + std::to_string(named.param); });

}  // namespace
}  // namespace kvd
