// AnswerRequest: everything that decides one answer of the model, without the format in which a
// client asked for it or reads it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "client/types.h"
#include "http/answer/piece_source.h"
#include "http/options/settings.h"
#include "text/tool_calls/tool_grammar.h"

namespace kvd::http {

class AnswerJournal;
class ForkContext;
struct EndedStream;

struct AnswerRequest {
  // The whole prompt, from the first token of the sequence. At least one token.
  std::vector<TokenId> prompt;
  // The prompt begins with the tokens of this context, whose cells it shares with the other answers
  // of the request (fork_from); null: none.
  std::shared_ptr<ForkContext> fork;

  std::int32_t predict_max = -1;  // 0: only the prompt; -1: until an end token
  SamplingParams sampling = kDefaultSampling;
  std::uint32_t seed = kRandomSeed;
  bool ignores_eos = false;
  std::vector<wire::LogitBias> biases;
  std::vector<std::string> stops;
  std::optional<std::vector<std::string>> breakers;  // DRY's; nullopt: the default ones
  std::uint32_t logprob_count = 0;                   // most likely tokens with each token
  bool wants_logprobs = false;                       // also with a logprob_count of 0
  std::string grammar;                               // GBNF; empty: none
  std::vector<GrammarStart> triggers;                // a lazy grammar begins with one of them

  std::optional<ReasoningLimit> reasoning_limit;  // nullopt: none

  std::optional<std::uint32_t> slot;  // id_slot; nullopt: any
  bool caches_prompt = true;          // false: no prefix of another sequence is reused
  std::int32_t keep = 0;              // tokens that a context shift keeps; -1: the prompt
  bool shifts_context = false;
  bool shows_special = false;  // the text shows special tokens (for parsers of calls)
  // The answer's sequence holds the last token too (for a snapshot); else the last token may be
  // left out, which saves a forward pass.
  bool computes_last = false;
  bool wants_progress = false;
  // How long the answer waits for room in the daemon's pool (wire::GenerateParams).
  std::int32_t room_wait_ms = 0;
  // Limit of the time from the first token on; nullopt: none.
  std::optional<std::chrono::milliseconds> predict_time_max;
  // JournalOf(responder): the answer is logged, or continues where an earlier process logged it.
  // null: neither.
  std::shared_ptr<AnswerJournal> journal;
  std::uint32_t number = 0;  // of the first answer in the journal
  // EndedStreamOf(responder): what answer 0 fills when it ends; null: nothing.
  std::shared_ptr<EndedStream> conversation;
};

}  // namespace kvd::http
