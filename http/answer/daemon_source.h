// DaemonSource: the pieces of the generations of one answer, one generation after the other on the
// answer's sequence.
//
// With a journal each piece is logged before the caller sees it. Invariant: the generations, pieces
// and results of the journal come first and once, without the daemon; then the daemon's generation
// continues behind the last logged token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "http/answer/answer_count.h"
#include "http/answer/answer_journal.h"
#include "http/answer/answer_request.h"
#include "http/answer/answer_sequence.h"
#include "http/answer/piece_source.h"
#include "http/backend/daemon_session.h"

namespace kvd::http {

class DaemonSource final : public PieceSource {
 public:
  // All outlive the source.
  DaemonSource(const AnswerRequest& request, AnswerSequence& sequence, AnswerCount& count)
      : request_(request), sequence_(sequence), count_(count) {}

  Status Begin(const GenerationPortion& portion) override;
  // Errors: those of the generation; kCancelled after Cancel.
  Await<Result<std::optional<AnswerPiece>>> Next() override;
  Await<Result<bool>> Prepare() override;
  const wire::GenerateResult& result() const override { return result_; }

  void Cancel();
  bool is_cancelled() const { return is_cancelled_; }
  // The daemon cannot continue the answer that the last error has ended, as its session or its
  // sequence is gone; it can compute it again.
  bool is_lost() const { return is_lost_; }
  // The answer is computed again: from now on nothing is read from the journal or logged.
  void StartOver();
  // The generation in flight; null: there is none.
  std::unique_ptr<GenerationStream> TakeStream() {
    if (stream_) stream_->OnParking({});
    return std::move(stream_);
  }

 private:
  enum class Stage : std::uint8_t {
    kRuns,    // the daemon computes the generation, or there is none
    kLogged,  // an earlier process has begun it, and its pieces are those of the journal
    kAsked,   // the daemon was asked to continue it, and has not said yet whether it can
  };

  AnswerJournal* journal() const { return request_.journal.get(); }
  // The journal, unless the answer is computed again.
  AnswerJournal* log() const { return has_started_over_ ? nullptr : journal(); }
  // Records that the daemon sends with each token, besides that of the token itself.
  std::uint32_t sent_logprobs() const;
  // Asks the daemon for the present generation; with kAsked, for what is behind the logged tokens.
  Result<std::unique_ptr<GenerationStream>> StartStream() const;
  void LogStart();
  // Takes the slot and the sequence of an earlier process.
  Await<Status> Claim();
  // Continues the generation of an earlier process behind the tokens of the journal.
  Await<Status> Resume();
  std::optional<AnswerPiece> NextLogged();
  std::unexpected<Error> EndWith(Error error);
  void EndWith(const wire::GenerateResult& result, bool is_logged);
  // Leaves out the records that the daemon sends and the request does not want.
  void TrimLogprobs(AnswerPiece& piece) const;

  const AnswerRequest& request_;
  AnswerSequence& sequence_;
  AnswerCount& count_;
  GenerationPortion portion_;  // of the present generation
  Stage stage_ = Stage::kRuns;
  std::unique_ptr<GenerationStream> stream_;
  wire::GenerateResult result_{};  // of the last generation that has ended
  LoggedStart start_;              // of the earlier process's last generation
  std::uint32_t received_ = 0;     // tokens that the journal had of the present generation
  TokenId last_received_ = 0;      // the last of them; 0: none
  bool is_cancelled_ = false;
  bool is_lost_ = false;
  bool has_started_over_ = false;
};

}  // namespace kvd::http
