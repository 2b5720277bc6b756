// Arguments and replies of the verbs on text.
#pragma once

#include "shm/verb_slots.h"

namespace kvd::wire {

// The payload is the text to tokenize. Flags: kFlagAddSpecial, kFlagParseSpecial.
struct TokenizeArgs {};
struct TokenizeReply {
  std::uint64_t count = 0;
  std::vector<TokenId> tokens{};
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kValue0, &TokenizeReply::count)};
  }
  static constexpr auto Output() { return &TokenizeReply::tokens; }
};

// The payload is the tokens. With kFlagSpecial the text shows special tokens.
struct DetokenizeArgs {};

// The payload of kChat is a sequence of records {ChatMessage, role bytes, content bytes} without
// padding.
struct ChatMessage {
  std::uint32_t role_bytes;
  std::uint32_t content_bytes;
};
static_assert(sizeof(ChatMessage) == 8);

// The payload is ChatMessage records. Flag: kFlagAddAssistant. The reply is the text that the
// model's chat template makes of the messages; tokenize this text with kFlagParseSpecial.
struct ChatArgs {};

// Reads the text of all tokens of a sequence; the answer comes in pieces. With kFlagSpecial the
// text shows special tokens.
struct ReadTextArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() {
    return std::tuple{Handle("sequence", &ReadTextArgs::sequence, Access::kRead)};
  }
};
struct ReadTextReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::vector<std::byte> text{};  // UTF-8
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kSequence, &ReadTextReply::sequence)};
  }
  static constexpr auto Output() { return &ReadTextReply::text; }
};

}  // namespace kvd::wire
