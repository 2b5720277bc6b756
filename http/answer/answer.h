// Answer: one generation for one AnswerRequest: it waits for a slot, finds what of the prompt is
// cached, generates, shifts the context where the request allows it, and counts.
//
//   KVD_CO_TRY(const auto answer, co_await Answer::Start(tenant, std::move(request)));
//   for (;;) {
//     KVD_CO_TRY(const auto piece, co_await answer->Next());
//     if (!piece) break;
//     Show(piece->text);
//   }
//   Report(answer->end());
//
// Destroying an Answer cancels it: its slot is free again within one step of the daemon. Its
// sequence stays in the slot, or as a retained prefix.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/answer/answer_request.h"
#include "http/answer/slots.h"
#include "http/answer/tenant.h"
#include "http/backend/daemon_session.h"
#include "http/loop/await.h"

namespace kvd::http {

struct AnswerPiece {
  std::vector<TokenId> tokens;  // empty: progress, or the text that was held back for stops
  std::string text;             // valid UTF-8, cut between characters
  // For each token the record of the token itself, then those of the most likely tokens.
  std::vector<wire::TokenLogprob> logprobs;
  bool is_progress = false;  // of the prompt: `done` of `total` tokens
  std::uint64_t done = 0;
  std::uint64_t total = 0;
};

enum class StopType : std::uint8_t {
  kNone,   // not ended
  kEos,    // an end token, or the grammar's end
  kLimit,  // predict_max, the end of the context, or predict_time_max
  kWord,   // a stop text
};

// What the cache did for a prompt.
struct CacheReport {
  std::uint32_t reused = 0;  // prompt tokens that were not computed
  std::string source;        // "slot", "live", "retained", "snapshot", "disk", "none"
  std::string limit;         // why no more: a name of PrefixLimit, "complete", ...
  // Where cached tokens and the prompt differ first, as text; empty: nothing differed.
  std::string prompt_text;
  std::string cached_text;
};

struct AnswerEnd {
  StopType stop_type = StopType::kNone;
  std::string stopping_word;  // with kWord
  bool is_truncated = false;  // the context was full, or was shifted
  bool ended_by_grammar = false;
  std::uint32_t prompt_tokens = 0;  // of the whole prompt
  std::uint32_t cached_tokens = 0;  // of them, not computed
  std::uint32_t predicted_tokens = 0;
  std::chrono::nanoseconds prompt_time{0};
  std::chrono::nanoseconds predict_time{0};
  std::uint32_t seed = 0;
  std::uint32_t slot = 0;
  CacheReport cache;
};

class Answer {
 public:
  // Waits for the slot. Errors: kNoSpace with AnswerTooLong's text (the prompt exceeds the context;
  // see IsTooLong), those of the daemon.
  static Await<Result<std::unique_ptr<Answer>>> Start(Tenant& tenant, AnswerRequest request);
  // Several answers to one prompt, which is computed once. The answers draw with different seeds:
  // seed, seed + 1, ...
  static Await<Result<std::vector<std::unique_ptr<Answer>>>> StartMany(Tenant& tenant,
                                                                       AnswerRequest request,
                                                                       std::uint32_t count);
  ~Answer();

  // Waits for the next piece; nullopt: the answer has ended, and end() is complete. Errors: those
  // of the generation; kCancelled after Cancel.
  Await<Result<std::optional<AnswerPiece>>> Next();
  void Cancel();

  const AnswerRequest& request() const { return request_; }
  // What is known so far; complete when Next has returned nullopt.
  const AnswerEnd& end() const { return end_; }
  std::uint32_t slot() const { return end_.slot; }
  // The sequence, for snapshots. It belongs to the slot.
  SequenceHandle sequence() const;

 private:
  Answer(Tenant& tenant, AnswerRequest request);
  friend class AnswerMaker;

  Tenant& tenant_;
  AnswerRequest request_;
  SlotLease lease_;
  std::unique_ptr<GenerationStream> stream_;
  AnswerEnd end_;
};

// Whether an error says that a prompt exceeds the context, and the numbers.
struct TooLong {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t context_tokens = 0;
};

}  // namespace kvd::http
