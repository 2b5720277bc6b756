// The verbs on text, and the verb that explains how much of a prompt could be reused.
#pragma once

#include "shm/prefix_reuse.h"
#include "shm/verb_slots.h"

namespace kvd::wire {

// Arguments and replies of the verbs on text.

// The payload is the text to tokenize. Flags: kFlagAddSpecial, kFlagParseSpecial.
struct TokenizeArgs {};
struct TokenizeReply {
  std::uint64_t count = 0;
  std::vector<TokenId> tokens{};
  static constexpr auto Slots() { return Slotted(At(ReplySlot::kValue0, &TokenizeReply::count)); }
  static constexpr auto Output() { return &TokenizeReply::tokens; }
};

// The payload is the tokens. With kFlagSpecial the text shows special tokens.
struct DetokenizeArgs {};

// Returns the texts of the model's file that a client needs to format a chat (text/chat): the chat
// templates and the special tokens.
struct ChatTemplatesArgs {};

enum class ChatTextKind : std::uint32_t {
  // A chat template, a Jinja program. The name is empty for tokenizer.chat_template, and NAME for
  // tokenizer.chat_template.NAME.
  kTemplate = 1,
  kToken = 2,  // a special token: "bos", "eos", "unk", "sep", "pad" or "mask", and its text
};
// The output of kChatTemplates is a sequence of records {ChatText, name bytes, text bytes} without
// padding, with at most kTextBytesMax bytes.
struct ChatText {
  std::uint32_t kind;  // ChatTextKind
  std::uint32_t name_bytes;
  std::uint32_t text_bytes;
};
static_assert(sizeof(ChatText) == 12);

struct ChatTemplatesReply {
  std::vector<std::byte> records{};
  static constexpr auto Output() { return &ChatTemplatesReply::records; }
};

// Reads the text of all tokens of a sequence; the answer comes in pieces. With kFlagSpecial the
// text shows special tokens.
struct ReadTextArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &ReadTextArgs::sequence, Access::kRead));
  }
};
struct ReadTextReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::vector<std::byte> text{};  // UTF-8
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kSequence, &ReadTextReply::sequence));
  }
  static constexpr auto Output() { return &ReadTextReply::text; }
};

// Arguments and reply of the verb that explains how much of a prompt could be reused.

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
