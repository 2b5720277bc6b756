// Tests the choice among alternatives with times that the test prescribes.
#include "engine/tuning/choice_measuring.h"

#include <gtest/gtest.h>

#include <functional>

#include "engine/tuning/choice_table.h"

namespace kvd {
namespace {

using kernels::DataType;
using kernels::ProductChoice;
using kernels::WideForm;

// Returns the seconds that `seconds_of` gives, and counts the calls.
class ScriptedTimer final : public ProductTimer {
 public:
  std::optional<double> Time(const TimedProduct& product) override {
    ++calls;
    return seconds_of(product, calls);
  }
  bool Prepare(const TimedProduct&) override {
    if (prepares == 0) return true;
    --prepares;
    return false;
  }
  std::size_t prepares = 0;
  std::function<std::optional<double>(const TimedProduct&, std::size_t)> seconds_of;
  std::size_t calls = 0;
};

class ChoiceMeasuringTest : public testing::Test {
 protected:
  ChoiceMeasuringTest() {
    table_.name = "avx512";
    table_.round_rows = [](const float*, std::size_t, std::size_t, std::size_t, void*) {};
    table_.bf16_rows_min = 8;
    defaults_ = kernels::DefaultChoices(table_);
  }
  kernels::ProductChoices Measure(const std::vector<DataType>& types,
                                  std::uint32_t rows_max = 512) {
    timer_.calls = 0;
    ChoiceMeasuring measuring(table_, types, defaults_, rows_max, timer_);
    std::size_t left = measuring.slices_left();
    while (!measuring.done()) {
      measuring.Slice();
      EXPECT_LT(measuring.slices_left(), left);
      left = measuring.slices_left();
    }
    EXPECT_EQ(timer_.calls, measuring.slices_done());
    return measuring.Choose();
  }
  static bool InBf16(const TimedProduct& product) {
    return product.choice.wide_form == WideForm::kBf16;
  }

  kernels::KernelTable table_ = *kernels::ScalarTable();
  kernels::ProductChoices defaults_;
  ScriptedTimer timer_;
};

TEST_F(ChoiceMeasuringTest, EqualTimesLeaveTheDefaults) {
  timer_.seconds_of = [](const TimedProduct&, std::size_t) { return 1.0; };
  const kernels::ProductChoices choices = Measure({DataType::kF16});
  EXPECT_EQ(choices.For(DataType::kF16), defaults_.For(DataType::kF16));
}

TEST_F(ChoiceMeasuringTest, TheWideProductBeginsWhereItStaysFaster) {
  timer_.seconds_of = [](const TimedProduct& product, std::size_t) {
    if (!InBf16(product)) return 1.0;
    return product.rows == 2 || product.rows >= 32 ? 0.5 : 2.0;
  };
  EXPECT_EQ(Measure({DataType::kF16}).For(DataType::kF16),
            (ProductChoice{.wide_form = WideForm::kBf16, .wide_from_rows = 32}));
}

TEST_F(ChoiceMeasuringTest, ASlowerWideProductIsNotChosen) {
  timer_.seconds_of = [](const TimedProduct& product, std::size_t) {
    return InBf16(product) ? 1.1 : 1.0;
  };
  EXPECT_EQ(Measure({DataType::kBF16}).For(DataType::kBF16), ProductChoice{});
}

TEST_F(ChoiceMeasuringTest, TheFasterOfTwoWideProductsIsChosen) {
  timer_.seconds_of = [](const TimedProduct& product, std::size_t) {
    if (InBf16(product)) return 0.9;
    if (product.choice.wide_form != WideForm::kOuter) return 1.0;
    return product.rows >= 16 ? 0.6 : 1.2;
  };
  const kernels::ProductChoices choices = Measure({DataType::kF16, DataType::kF32});
  const ProductChoice expected = {.wide_form = WideForm::kOuter, .wide_from_rows = 16};
  EXPECT_EQ(choices.For(DataType::kF16), expected);
  EXPECT_EQ(choices.For(DataType::kF32), expected);  // bf16 is not an alternative
}

TEST_F(ChoiceMeasuringTest, AClearlyFasterWideProductReplacesTheDefault) {
  for (const auto& [seconds, form] : {std::pair{0.49, WideForm::kBf16}, {0.45, WideForm::kOuter}}) {
    timer_.seconds_of = [outer = seconds](const TimedProduct& product, std::size_t) {
      if (InBf16(product)) return 0.5;
      return product.choice.wide_form == WideForm::kOuter ? outer : 1.0;
    };
    EXPECT_EQ(Measure({DataType::kF16}).For(DataType::kF16).wide_form, form) << seconds;
  }
}

TEST_F(ChoiceMeasuringTest, ASmallGainDoesNotChangeTheDefault) {
  timer_.seconds_of = [](const TimedProduct& product, std::size_t) {
    const bool is_default = InBf16(product) == (product.rows >= 8);
    return is_default ? 1.0 : 0.98;
  };
  EXPECT_EQ(Measure({DataType::kF16}).For(DataType::kF16).wide_from_rows, 8u);
}

TEST_F(ChoiceMeasuringTest, OutliersDoNotChangeTheChoice) {
  timer_.seconds_of = [](const TimedProduct& product, std::size_t call) {
    const double seconds = InBf16(product) ? 0.5 : 1.0;
    return call % 4 == 0 ? seconds * 100 : seconds;
  };
  EXPECT_EQ(Measure({DataType::kF16}).For(DataType::kF16).wide_from_rows, 2u);
}

TEST_F(ChoiceMeasuringTest, RowCountsThatNoStepHasAreNotTimed) {
  timer_.seconds_of = [](const TimedProduct& product, std::size_t) {
    EXPECT_LE(product.rows, 16u);
    return InBf16(product) ? 0.5 : 1.0;
  };
  EXPECT_EQ(Measure({DataType::kF16}, 16).For(DataType::kF16).wide_from_rows, 2u);
  EXPECT_EQ(timer_.calls, 4u * 3 * ChoiceMeasuring::kRepeats);
}

TEST_F(ChoiceMeasuringTest, PrefetchesAndPanelsOfQuantisedWeightsAreChosen) {
  timer_.seconds_of = [](const TimedProduct& product, std::size_t) {
    const ProductChoice& choice = product.choice;
    if (product.rows == 1) return choice.ahead_bytes == 65536 ? 0.8 : 1.0;
    if (product.rows == kWideRows) return choice.panel_outs == 32 ? 0.9 : 1.0;
    return choice.panel_from_rows == product.rows && product.rows >= 6 ? 0.7 : 1.0;
  };
  EXPECT_EQ(Measure({DataType::kQ4_K}).For(DataType::kQ4_K),
            (ProductChoice{.ahead_bytes = 65536, .panel_from_rows = 6, .panel_outs = 32}));
}

TEST_F(ChoiceMeasuringTest, SlowerPanelsBeginOnlyWhereRegistersEnd) {
  timer_.seconds_of = [](const TimedProduct&, std::size_t) { return 1.0; };
  EXPECT_EQ(Measure({DataType::kQ8_0}).For(DataType::kQ8_0),
            (ProductChoice{.panel_from_rows = 13}));
}

TEST_F(ChoiceMeasuringTest, WeightsThatCannotBeTimedKeepTheirDefault) {
  timer_.seconds_of = [](const TimedProduct& product, std::size_t) -> std::optional<double> {
    if (product.type == DataType::kBF16 && product.rows == 64) return std::nullopt;
    return InBf16(product) ? 2.0 : 1.0;
  };
  const kernels::ProductChoices choices = Measure({DataType::kF16, DataType::kBF16});
  EXPECT_EQ(choices.For(DataType::kF16), ProductChoice{});
  EXPECT_EQ(choices.For(DataType::kBF16), defaults_.For(DataType::kBF16));
  // The product with 64 rows was tried once.
  EXPECT_EQ(timer_.calls, 13u * 3 * ChoiceMeasuring::kRepeats + 1);
}

TEST_F(ChoiceMeasuringTest, PreparingRowsTakesItsOwnSlices) {
  timer_.seconds_of = [](const TimedProduct&, std::size_t) { return 1.0; };
  timer_.prepares = 5;
  ChoiceMeasuring measuring(table_, std::vector{DataType::kF16}, defaults_, 2, timer_);
  while (!measuring.done()) measuring.Slice();
  EXPECT_EQ(measuring.slices_done(), 5 + 3 * ChoiceMeasuring::kRepeats);
  EXPECT_EQ(timer_.calls, 3 * ChoiceMeasuring::kRepeats);
}

TEST_F(ChoiceMeasuringTest, TypesThatWereNotTimedAreNotListed) {
  timer_.seconds_of = [](const TimedProduct& product, std::size_t) {
    return product.type == DataType::kBF16 ? std::nullopt : std::optional(1.0);
  };
  ChoiceMeasuring measuring(table_, std::vector{DataType::kF16, DataType::kBF16}, defaults_, 512,
                            timer_);
  while (!measuring.done()) measuring.Slice();
  EXPECT_EQ(measuring.types(), std::vector{DataType::kF16});
}

TEST_F(ChoiceMeasuringTest, AlternativesTakeTurns) {
  std::vector<WideForm> forms;
  timer_.seconds_of = [&forms](const TimedProduct& product, std::size_t) {
    forms.push_back(product.choice.wide_form);
    return 1.0;
  };
  (void)Measure({DataType::kF16}, 2);
  constexpr WideForm kTurns[] = {WideForm::kAsNarrow, WideForm::kBf16, WideForm::kOuter};
  ASSERT_EQ(forms.size(), 3 * ChoiceMeasuring::kRepeats);
  for (std::size_t i = 0; i < forms.size(); ++i) EXPECT_EQ(forms[i], kTurns[i % 3]) << i;
}

TEST_F(ChoiceMeasuringTest, WithoutAlternativesNothingIsTimed) {
  const kernels::ProductChoices scalar = kernels::DefaultChoices(*kernels::ScalarTable());
  const ChoiceMeasuring measuring(*kernels::ScalarTable(),
                                  std::vector{DataType::kF16, DataType::kQ8_0, DataType::kF32},
                                  scalar, 512, timer_);
  EXPECT_TRUE(measuring.done());
  EXPECT_TRUE(measuring.types().empty());
  EXPECT_EQ(measuring.Choose(), scalar);
}

}  // namespace
}  // namespace kvd
