// PieceSource: a source of the pieces of one answer.
//
// An answer is made by sources that lie over each other, and each has the same interface:
//
//   DaemonSource     one generation of the daemon after another, those of the journal first
//   BudgetedSource   generations in portions, which a reasoning budget continues
//   ShiftedSource    generations with shifts of a full context between them
//
// A source gives the pieces of one generation, which Begin begins, as the source below it does, and
// hides the generations that it begins itself. So the caller of the last source sees one generation
// from the first token of the answer to the last.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/ids.h"
#include "http/backend/answer_piece.h"
#include "http/loop/await.h"
#include "shm/wire_generate.h"

namespace kvd::http {

// What a generation appends to the sequence of its answer.
struct GenerationPart {
  static constexpr std::int32_t kNoLimit = std::numeric_limits<std::int32_t>::max();

  // Are computed first, and outlive the generation. Empty: it continues behind the last token.
  std::span<const TokenId> tokens;
  std::uint32_t first = 0;      // index of the first of them in the prompt; its size: behind it
  std::int32_t tokens_max = 0;  // to predict
  std::uint32_t flags = 0;      // wire::kContinue, wire::kResumeSampler
  bool may_skip_last = false;   // the last token need not be computed (wire::kSkipLast)

  // Of the tokens of a part that follows this one.
  std::uint32_t next_first() const { return first + static_cast<std::uint32_t>(tokens.size()); }
};

class PieceSource {
 public:
  PieceSource() = default;
  virtual ~PieceSource() = default;
  PieceSource(const PieceSource&) = delete;
  PieceSource& operator=(const PieceSource&) = delete;

  // Begins a generation. The one before has ended.
  virtual Status Begin(const GenerationPart& part) = 0;
  // Waits for the next piece; nullopt: the generation has ended, and result() is set.
  virtual Await<Result<std::optional<AnswerPiece>>> Next() = 0;
  // Before a further generation of the same answer: makes sure that the answer has its sequence.
  // Returns false if an earlier process has begun that generation, and has changed the sequence for
  // it already.
  virtual Await<Result<bool>> Prepare() = 0;
  virtual const wire::GenerateResult& result() const = 0;
};

// Whether a generation ended at the limit that it was given, so that the answer may go on.
inline bool EndsAtLimit(const wire::GenerateResult& result) {
  return result.finish != wire::kFinishEnd && result.finish != wire::kFinishGrammar &&
         result.finish != wire::kFinishStop;
}

}  // namespace kvd::http
