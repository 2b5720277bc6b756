// Arguments and reply of the verb that explains how much of a prompt could be reused.
#pragma once

#include "shm/prefix_reuse.h"
#include "shm/verb_slots.h"

namespace kvd::wire {

// The payload is the tokens of a prompt for an empty sequence of this session. The reply considers
// only sequences that such a prompt may reuse: those of the uid with the session's salt, and
// snapshots that the uid may see.
struct WhyArgs {};

inline constexpr std::size_t kWhyTextBytes = 64;

struct WhyRecord {
  std::uint64_t source;   // the sequence whose tokens could be reused; 0: none
  std::uint64_t nearest;  // the sequence with the longest common prefix; 0: none
  std::uint32_t prompt_tokens;
  // Number of reusable tokens of the prompt; the prompt's last token is never reused, because its
  // logits are computed.
  std::uint32_t reused;
  std::uint32_t common;   // length of the common prefix with `nearest`
  std::uint32_t on_disk;  // tokens of the prompt in the prompt cache, if more than `reused`; else 0
  // The token of the prompt and the token of `nearest` after the `common` first tokens. -1: the
  // prompt, or `nearest`, has no more tokens.
  std::int32_t prompt_token;
  std::int32_t cached_token;
  std::uint8_t origin;  // PrefixOrigin
  std::uint8_t limit;   // PrefixLimit: the reason why no more tokens are reusable
  std::uint16_t reserved0;
  std::uint32_t reserved1;
  // Texts of prompt_token and cached_token and of the tokens after them, as far as they fit, zero
  // terminated, cut at a character boundary.
  // Invalid bytes of the texts appear as, for example, <0xE2>. Both texts are empty if the model
  // has no tokenizer.
  char prompt_text[kWhyTextBytes];
  char cached_text[kWhyTextBytes];
};
static_assert(sizeof(WhyRecord) == 176 && std::is_standard_layout_v<WhyRecord>);

}  // namespace kvd::wire
