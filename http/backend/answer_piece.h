// AnswerPiece: what the next tokens of an answer have made certain, with its own memory.
//
// All sources of pieces hand on this one struct, from the daemon's output to the reply.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "shm/wire_generate.h"

namespace kvd::http {

struct AnswerPiece {
  std::vector<TokenId> tokens;  // empty: progress, or text that was held back for stop texts
  std::string text;             // valid UTF-8, cut between characters
  // For each token the record of the token itself, then those of the request's most likely tokens.
  // Empty unless the request wants them.
  std::vector<wire::TokenLogprob> logprobs;
  // Only with is_progress: the number of prompt tokens computed so far, and of all.
  bool is_progress = false;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
};

}  // namespace kvd::http
