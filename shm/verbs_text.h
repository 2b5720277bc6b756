// Arguments and replies of the verbs on text.
#pragma once

#include "shm/verb_slots.h"

namespace kvd::wire {

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

}  // namespace kvd::wire
