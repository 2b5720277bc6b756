// Arguments and replies of the verbs on text.
#pragma once

#include "shm/verb_slots.h"

namespace kvd::wire {

// Payload: the text. kFlagAddSpecial, kFlagParseSpecial.
struct TokenizeArgs {};
struct TokenizeReply {
  std::uint64_t count = 0;
  std::vector<TokenId> tokens{};
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kValue0, &TokenizeReply::count)};
  }
  static constexpr auto Output() { return &TokenizeReply::tokens; }
};

// Payload: the tokens. kFlagSpecial: special tokens are shown.
struct DetokenizeArgs {};

// Payload of kChat: records {ChatMessage, role bytes, content bytes}, unpadded, back to back.
struct ChatMessage {
  std::uint32_t role_bytes;
  std::uint32_t content_bytes;
};
static_assert(sizeof(ChatMessage) == 8);

// Payload: ChatMessage records. kFlagAddAssistant. The reply is text by the model's template, to be
// tokenized with kFlagParseSpecial.
struct ChatArgs {};

// The text of all its tokens, in pieces. kFlagSpecial: special tokens are shown.
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
