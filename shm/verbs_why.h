// Arguments and reply of the verb that tells what of a prompt could be reused.
#pragma once

#include "shm/prefix_reuse.h"
#include "shm/verb_slots.h"

namespace kvd::wire {

// Payload: the tokens of a prompt for an empty sequence of this session. What is told, and looked at,
// is what such a prompt may take from: sequences of the uid and the session's salt, and snapshots
// that the uid may see.
struct WhyArgs {};

inline constexpr std::size_t kWhyTextBytes = 64;

struct WhyRecord {
  std::uint64_t source;   // what could be reused comes from it; 0: nothing could
  std::uint64_t nearest;  // has the most tokens in common with the prompt; 0: none has any
  std::uint32_t prompt_tokens;
  std::uint32_t reused;   // tokens; all but the last at most, which is computed for its logits
  std::uint32_t common;   // with the nearest
  std::uint32_t on_disk;  // tokens that the prompt cache has, where it has more than `reused`
  // The first that differ, behind `common` tokens. -1: the prompt, or the nearest, ends there.
  std::int32_t prompt_token;
  std::int32_t cached_token;
  std::uint8_t origin;  // PrefixOrigin
  std::uint8_t limit;   // PrefixLimit: why not more
  std::uint16_t reserved0;
  std::uint32_t reserved1;
  // Their texts, zero terminated, cut at a character; bytes that are no character as <0xE2>. Empty
  // without a tokenizer.
  char prompt_text[kWhyTextBytes];
  char cached_text[kWhyTextBytes];
};
static_assert(sizeof(WhyRecord) == 176 && std::is_standard_layout_v<WhyRecord>);

}  // namespace kvd::wire
