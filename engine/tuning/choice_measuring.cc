// Every question is asked of one type of weights and one number of rows. The questions of a type
// about one threshold are asked in ascending order of rows. The alternative that is the fastest
// with the most rows, without the first, is compared with the first; the threshold is the least
// number of rows from which it is faster at this and every greater number.
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

// The choice with products of any number of rows in the form.
kernels::ProductChoice WithForm(kernels::ProductChoice choice, kernels::WideForm form) {
  choice.wide_form = form;
  choice.wide_from_rows = form == kernels::WideForm::kAsNarrow ? 0 : 1;
  return choice;
}

// The scalar table is not for speed.
bool HasAlternatives(const kernels::KernelTable& table) {
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
    std::vector<kernels::ProductChoice> forms = {WithForm(base, kernels::WideForm::kAsNarrow)};
    for (const kernels::WideForm form : kernels::kWideForms) {
      if (HasAlternatives(table) && kernels::Supports(table, type, form))
        forms.push_back(WithForm(base, form));
    }
    for (const std::uint32_t rows : kFormRows) {
      if (forms.size() > 1 && rows <= rows_max) Ask(Subject::kForm, type, rows, forms);
    }
    if (kernels::IsQuantized(type) && HasAlternatives(table)) AskOfQuantised(type, base, rows_max);
    if (questions_.size() > before) types_.push_back(type);
  }
}

void ChoiceMeasuring::AskOfQuantised(kernels::DataType type, const kernels::ProductChoice& base,
                                     std::uint32_t rows_max) {
  const kernels::ProductChoice integers = WithForm(base, kernels::WideForm::kAsNarrow);
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

std::size_t ChoiceMeasuring::FastestOf(const Question& question, kernels::WideForm preferred) {
  const auto default_of =
      std::ranges::find(question.alternatives.begin() + 1, question.alternatives.end(), preferred,
                        &kernels::ProductChoice::wide_form);
  std::size_t fastest = 1;
  if (default_of != question.alternatives.end()) {
    fastest = static_cast<std::size_t>(default_of - question.alternatives.begin());
  }
  double best = Median(question.seconds[fastest]) / kGainMin;
  for (std::size_t a = 1; a < question.alternatives.size(); ++a) {
    const double seconds = Median(question.seconds[a]);
    if (seconds >= best) continue;
    best = seconds;
    fastest = a;
  }
  return fastest;
}

ChoiceMeasuring::Threshold ChoiceMeasuring::ThresholdOf(kernels::DataType type,
                                                        Subject subject) const {
  const std::vector<const Question*> questions = Answered(type, subject);
  Threshold threshold{.is_known = !questions.empty()};
  if (questions.empty()) return threshold;
  const kernels::ProductChoice& base = defaults_.For(type);
  const std::size_t wide = FastestOf(*questions.back(), base.wide_form);
  threshold.form = questions.back()->alternatives[wide].wide_form;
  for (auto question = questions.rbegin(); question != questions.rend(); ++question) {
    const std::uint32_t rows = (*question)->product.rows;
    const bool is_default = subject == Subject::kForm && base.wide_form == threshold.form &&
                            rows >= base.wide_from_rows;
    const double first = Median((*question)->seconds[0]);
    const double second = Median((*question)->seconds[wide]);
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
      choice.wide_form = form.rows == 0 ? kernels::WideForm::kAsNarrow : form.form;
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
