// ScriptedAnswer: what the scripted daemon answers to a generation, and how the answer is cut into
// pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "shm/payload_codec.h"
#include "shm/wire_generate.h"

namespace kvd::test {

struct ScriptedAnswer {
  std::string text = "ok";         // valid UTF-8
  std::vector<std::uint8_t> cuts;  // tokens of the pieces, by turns; none: one piece
  bool is_slow = false;            // each piece waits for a step of the daemon
  bool ends_by_limit = false;      // without an end token
  bool ends_by_grammar = false;    // if the request has a grammar
  bool ends_always = false;        // whatever the request says
};

struct ScriptedPiece {
  std::vector<TokenId> tokens;
  std::string text;
  std::vector<wire::TokenLogprob> logprobs;
};

// All that the daemon sends for one generation. A stop text ends the answer as in the real daemon:
// the text ends before it. A character is in the text of the piece with its last byte.
struct ScriptedGeneration {
  std::vector<ScriptedPiece> pieces;
  wire::GenerateResult result{};
  std::size_t at = 0;  // the next piece

  std::size_t token_count() const;
};
ScriptedGeneration Generated(const ScriptedAnswer& answer, const wire::GenerateRequest& request,
                             std::size_t room);

}  // namespace kvd::test
