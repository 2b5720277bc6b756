// ChoiceMeasuring: compares the alternatives of products by timing them, in slices, and chooses.
//
// A slice is one call of ProductTimer::Prepare or Time, which do a bounded part of the work. The
// alternatives of a question take turns, so that a change of the machine's speed affects all of
// them. Between two slices the caller may do anything else, or end the measuring. Used on one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/product_choice.h"

namespace kvd {

struct TimedProduct {
  kernels::DataType type = kernels::DataType::kF32;
  std::uint32_t rows = 0;
  kernels::ProductChoice choice;
};

class ProductTimer {
 public:
  virtual ~ProductTimer() = default;
  // Prepares a bounded part of the rows of x for the product's type and number of rows. Returns
  // whether they are complete.
  virtual bool Prepare(const TimedProduct& product) = 0;
  // Computes a bounded part of the product with the model's weights and returns the seconds for
  // each multiply-add; empty if the weights cannot be timed now. REQUIRES: Prepare returned true
  // for the last type and number of rows.
  virtual std::optional<double> Time(const TimedProduct& product) = 0;
};

class ChoiceMeasuring {
 public:
  // Number of times that each alternative is timed; the median counts.
  static constexpr std::size_t kRepeats = 25;

  // types: the types of the model's matrices, each once. rows_max: the most rows of a step. `timer`
  // must outlive the object.
  ChoiceMeasuring(const kernels::KernelTable& table, std::span<const kernels::DataType> types,
                  const kernels::ProductChoices& defaults, std::uint32_t rows_max,
                  ProductTimer& timer);

  bool done() const { return next_ == questions_.size(); }
  // Times one alternative once, or prepares its rows. REQUIRES: !done().
  void Slice();
  std::size_t slices_done() const { return slices_done_; }
  // The most slices that are left, without those that prepare rows.
  std::size_t slices_left() const;

  // The types of which a question was answered. REQUIRES: done().
  std::vector<kernels::DataType> types() const;
  // The default is replaced by another alternative only if that is faster by more than 3 %.
  // REQUIRES: done().
  kernels::ProductChoices Choose() const;

 private:
  // What the alternatives of a question differ in.
  enum class Subject : std::uint8_t { kForm, kAhead, kPanelFrom, kPanelOuts };
  struct Question {
    Subject subject;
    TimedProduct product;  // `choice` is set for each alternative
    std::vector<kernels::ProductChoice> alternatives;
    std::vector<std::vector<double>> seconds;  // of each alternative
    bool is_skipped = false;
  };

  void Ask(Subject subject, kernels::DataType type, std::uint32_t rows,
           std::vector<kernels::ProductChoice> alternatives);
  void AskOfQuantised(kernels::DataType type, const kernels::ProductChoice& base,
                      std::uint32_t rows_max);
  // The questions of one type about one subject, in order of rows; empty if one was skipped.
  std::vector<const Question*> Answered(kernels::DataType type, Subject subject) const;
  // Index of the fastest alternative but the first. One with the form `preferred`, or the second,
  // is replaced only by one that is faster by more than 3 %.
  static std::size_t FastestOf(const Question& question, kernels::WideForm preferred);
  // The least rows from which the wide alternative is chosen; 0: never, or unknown.
  struct Threshold {
    bool is_known = false;
    kernels::WideForm form = kernels::WideForm::kAsNarrow;  // of the wide alternative
    std::uint32_t rows = 0;
  };
  Threshold ThresholdOf(kernels::DataType type, Subject subject) const;

  const kernels::ProductChoices defaults_;
  ProductTimer& timer_;
  std::vector<kernels::DataType> types_;
  std::vector<Question> questions_;
  std::size_t next_ = 0;  // index of the question of the next slice
  std::size_t turn_ = 0;  // slices of that question so far
  std::size_t slices_done_ = 0;
};

}  // namespace kvd
