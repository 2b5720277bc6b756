// The probabilities of drawn tokens and of the most likely ones, as llama-server and OpenAI show
// them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "http/answer/answer_request.h"
#include "http/answer/served_model.h"
#include "http/api/reply_fields.h"
#include "http/backend/daemon_session.h"
#include "http/loop/await.h"
#include "text/value.h"

namespace kvd::http {

// One drawn token, with the most likely ones at its place.
struct DrawnToken {
  struct Choice {
    TokenId token = 0;
    double number = 0;  // a logarithm, or a probability with has_sampled_probs
  };
  Choice drawn;
  std::vector<Choice> top;
};

// Notes in `reply` how many tokens are shown, and asks for more where probabilities after the
// samplers are wanted, which need all candidates.
void PrepareProbs(const ServedModel& model, AnswerRequest& request, ReplyFields& reply);

// Reads the records of a piece: for each token its own, then `logprob_count` of the most likely
// ones. With `is_sampled`, the numbers are probabilities after the samplers, of which the `top_max`
// largest are kept.
std::vector<DrawnToken> ReadDrawnTokens(std::span<const wire::TokenLogprob> records,
                                        const AnswerRequest& request, bool is_sampled,
                                        std::uint32_t top_max);

// The probabilities after the samplers that reduce the set of tokens, and after the temperature, of
// candidates by descending logarithm. The samplers that need other tokens than these (penalties,
// top_n_sigma) or a random number (XTC) are left out; tokens that cannot be drawn are removed.
std::vector<DrawnToken::Choice> SampledProbs(std::vector<DrawnToken::Choice> candidates,
                                             const SamplingParams& sampling);

// Makes JSON of drawn tokens. Each token's text is looked up once.
class TokenProbs {
 public:
  TokenProbs(std::shared_ptr<DaemonSession> session, bool is_sampled)
      : session_(std::move(session)), is_sampled_(is_sampled) {}

  // Adds one object for each token to `objects`: {id, token, bytes, logprob, top_logprobs}, with
  // is_sampled {..., prob, top_probs}. Errors: those of the session.
  Await<Status> Append(std::vector<DrawnToken> tokens, std::vector<Value>& objects);

 private:
  Value Entry(const DrawnToken::Choice& choice, const std::vector<DrawnToken::Choice>* top) const;

  std::shared_ptr<DaemonSession> session_;
  bool is_sampled_;
  std::map<TokenId, std::string> pieces_;
};

}  // namespace kvd::http
