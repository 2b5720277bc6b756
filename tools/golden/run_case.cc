#include "tools/golden/run_case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

namespace kvd::golden {
namespace {

struct Errors {
  double worst = 0;
  double sum = 0;
  std::size_t rows = 0;
};

// Returns the normalised mean squared error: the sum of the squared differences divided by the sum
// of the squares of the expected numbers. Nmse returns NaN if a number is NaN.
double Nmse(std::span<const float> got, std::span<const float> expected) {
  double difference = 0, square = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    square += std::pow(static_cast<double>(expected[i]), 2);
  }
  return difference / square;
}

Status RunScenario(const Case& golden, const Scenario& scenario, Backend& backend, Errors* errors) {
  KVD_CHECK_OK(backend.Reset());
  std::vector<float> logits;
  for (const Step& step : scenario.steps) {
    logits.clear();
    if (step.op == Op::kDecode) {
      KVD_CHECK_OK(backend.Decode(step, &logits));
    } else if (step.op == Op::kDecodeBatch) {
      KVD_CHECK_OK(backend.DecodeBatch(step, &logits));
    } else if (step.op == Op::kEmbed) {
      KVD_CHECK_OK(backend.Embed(step, &logits));
    } else if (step.op == Op::kEncode) {
      KVD_CHECK_OK(backend.Encode(step));
    } else {
      KVD_CHECK_OK(backend.Edit(step));
    }
    const std::size_t width = RowWidth(golden, step);
    if (logits.size() != step.expect_rows * width) {
      return Fail(Code::kInternal, logits.size(), " numbers received, ", step.expect_rows,
                  " rows of ", width, " expected");
    }
    for (std::size_t row = 0; row < step.expect_rows; ++row) {
      const double error =
          Nmse(std::span(logits).subspan(row * width, width),
               std::span(golden.expected).subspan(step.expect_offset + row * width, width));
      errors->worst = std::isnan(error) ? error : std::max(errors->worst, error);
      errors->sum += error;
      ++errors->rows;
      if (!(error <= golden.tolerance)) {
        return Fail(Code::kNumerical, "row ", row, " at pos ", step.pos, ": NMSE ", error,
                    " is above ", golden.tolerance);
      }
    }
  }
  if (errors->rows == 0) return Fail(Code::kCorrupt, "the scenario compares no row");
  return {};
}

}  // namespace

void RunCase(const Case& golden, Backend& backend, Tally* tally) {
  for (const Scenario& scenario : golden.scenarios) {
    Errors errors;
    const Status status = RunScenario(golden, scenario, backend, &errors);
    const double mean = errors.rows == 0 ? 0 : errors.sum / static_cast<double>(errors.rows);
    std::printf("%s %-14s rows %4zu  worst %.3g  mean %.3g  %s\n", golden.folder.c_str(),
                scenario.name.c_str(), errors.rows, errors.worst, mean,
                status ? "ok" : status.error().message.c_str());
    ++(status ? tally->passed : tally->failed);
  }
}

}  // namespace kvd::golden
