// Every question is asked of one type of weights and one number of rows. The questions of a type
// about one threshold are asked in ascending order of rows; the threshold is the least number of
// rows from which the second alternative is faster at this and every greater number.
#include "engine/tuning/choice_measuring.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "engine/tuning/choice_table.h"

namespace kvd {
namespace {

constexpr double kGainMin = 1.03;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

bool HasPanels(const kernels::KernelTable& table) {
  return std::string_view(table.name) != "scalar";
}

}  // namespace

ChoiceMeasuring::ChoiceMeasuring(const kernels::KernelTable& table,
                                 std::span<const kernels::DataType> types,
                                 const kernels::ProductChoices& defaults, std::uint32_t rows_max,
                                 ProductTimer& timer)
    : defaults_(defaults), timer_(timer) {
  for (const kernels::DataType type : types) {
    const kernels::ProductChoice& base = defaults.For(type);
    const std::size_t before = questions_.size();
    if (kernels::Supports(table, type, kernels::WideForm::kBf16)) {
      kernels::ProductChoice narrow = base, wide = base;
      narrow.wide_form = kernels::WideForm::kAsNarrow;
      narrow.wide_from_rows = 0;
      wide.wide_form = kernels::WideForm::kBf16;
      wide.wide_from_rows = 1;
      for (const std::uint32_t rows : kFormRows) {
        if (rows <= rows_max) Ask(Subject::kForm, type, rows, {narrow, wide});
      }
    }
    if (kernels::IsQuantized(type) && HasPanels(table)) AskOfQuantised(type, base, rows_max);
    if (questions_.size() > before) types_.push_back(type);
  }
}

void ChoiceMeasuring::AskOfQuantised(kernels::DataType type, const kernels::ProductChoice& base,
                                     std::uint32_t rows_max) {
  kernels::ProductChoice integers = base;
  integers.wide_form = kernels::WideForm::kAsNarrow;
  integers.wide_from_rows = 0;
  const auto with = [&integers](std::uint32_t kernels::ProductChoice::* member,
                                std::uint32_t value) {
    kernels::ProductChoice choice = integers;
    choice.*member = value;
    return choice;
  };
  std::vector<kernels::ProductChoice> distances = {integers};
  for (const std::uint32_t bytes : kAheadBytes) {
    distances.push_back(with(&kernels::ProductChoice::ahead_bytes, bytes));
  }
  Ask(Subject::kAhead, type, 1, std::move(distances));
  const std::uint32_t never = kPanelRows[std::size(kPanelRows) - 1];
  for (const std::uint32_t rows : kPanelRows) {
    if (rows == never || rows > rows_max) break;
    Ask(Subject::kPanelFrom, type, rows,
        {with(&kernels::ProductChoice::panel_from_rows, never),
         with(&kernels::ProductChoice::panel_from_rows, rows)});
  }
  std::vector<kernels::ProductChoice> panels = {integers};
  for (const std::uint32_t outs : kPanelSizes) {
    panels.push_back(with(&kernels::ProductChoice::panel_outs, outs));
  }
  if (kWideRows <= rows_max) Ask(Subject::kPanelOuts, type, kWideRows, std::move(panels));
}

void ChoiceMeasuring::Ask(Subject subject, kernels::DataType type, std::uint32_t rows,
                          std::vector<kernels::ProductChoice> alternatives) {
  Question question{.subject = subject,
                    .product = {.type = type, .rows = rows, .choice = {}},
                    .alternatives = std::move(alternatives),
                    .seconds = {}};
  question.seconds.resize(question.alternatives.size());
  questions_.push_back(std::move(question));
}

void ChoiceMeasuring::Slice() {
  KVD_ASSERT(!done());
  ++slices_done_;
  Question& question = questions_[next_];
  if (!timer_.Prepare(question.product)) return;
  const std::size_t alternative = turn_ % question.alternatives.size();
  question.product.choice = question.alternatives[alternative];
  const std::optional<double> seconds = timer_.Time(question.product);
  ++turn_;
  if (seconds) {
    question.seconds[alternative].push_back(*seconds);
  } else {
    question.is_skipped = true;
  }
  if (!question.is_skipped && turn_ < question.alternatives.size() * kRepeats) return;
  ++next_;
  turn_ = 0;
}

std::size_t ChoiceMeasuring::slices_left() const {
  std::size_t slices = 0;
  for (std::size_t q = next_; q < questions_.size(); ++q) {
    slices += questions_[q].alternatives.size() * kRepeats;
  }
  return slices - turn_;
}

std::vector<kernels::DataType> ChoiceMeasuring::types() const {
  std::vector<kernels::DataType> types;
  for (const kernels::DataType type : types_) {
    const bool is_answered = std::ranges::any_of(questions_, [type](const Question& question) {
      return question.product.type == type && !question.is_skipped;
    });
    if (is_answered) types.push_back(type);
  }
  return types;
}

std::vector<const ChoiceMeasuring::Question*> ChoiceMeasuring::Answered(kernels::DataType type,
                                                                        Subject subject) const {
  std::vector<const Question*> answered;
  for (const Question& question : questions_) {
    if (question.product.type != type || question.subject != subject) continue;
    if (question.is_skipped) return {};
    answered.push_back(&question);
  }
  return answered;
}

ChoiceMeasuring::Threshold ChoiceMeasuring::ThresholdOf(kernels::DataType type,
                                                        Subject subject) const {
  const std::vector<const Question*> questions = Answered(type, subject);
  Threshold threshold{.is_known = !questions.empty()};
  const kernels::ProductChoice& base = defaults_.For(type);
  for (auto question = questions.rbegin(); question != questions.rend(); ++question) {
    const std::uint32_t rows = (*question)->product.rows;
    const bool is_default = subject == Subject::kForm &&
                            base.wide_form == kernels::WideForm::kBf16 &&
                            rows >= base.wide_from_rows;
    const double first = Median((*question)->seconds[0]), second = Median((*question)->seconds[1]);
    if (is_default ? second > first * kGainMin : second * kGainMin > first) break;
    threshold.rows = rows;
  }
  return threshold;
}

kernels::ProductChoices ChoiceMeasuring::Choose() const {
  KVD_ASSERT(done());
  kernels::ProductChoices choices = defaults_;
  for (const kernels::DataType type : types_) {
    kernels::ProductChoice choice = defaults_.For(type);
    if (const Threshold form = ThresholdOf(type, Subject::kForm); form.is_known) {
      choice.wide_form = form.rows == 0 ? kernels::WideForm::kAsNarrow : kernels::WideForm::kBf16;
      choice.wide_from_rows = form.rows;
    }
    if (const Threshold panel = ThresholdOf(type, Subject::kPanelFrom); panel.is_known) {
      choice.panel_from_rows = panel.rows == 0 ? kPanelRows[std::size(kPanelRows) - 1] : panel.rows;
    }
    for (const auto& [subject, member] :
         {std::pair(Subject::kAhead, &kernels::ProductChoice::ahead_bytes),
          std::pair(Subject::kPanelOuts, &kernels::ProductChoice::panel_outs)}) {
      for (const Question* question : Answered(type, subject)) {
        double best = Median(question->seconds[0]) / kGainMin;
        for (std::size_t a = 1; a < question->alternatives.size(); ++a) {
          const double seconds = Median(question->seconds[a]);
          if (seconds >= best) continue;
          best = seconds;
          choice.*member = question->alternatives[a].*member;
        }
      }
    }
    choices.Set(type, choice);
  }
  return choices;
}

}  // namespace kvd
