// Arguments and replies of the verbs that compute, and of what ends them. Answers of decode and
// generate come in pieces.
#pragma once

#include "shm/prefix_reuse.h"
#include "shm/verb_slots.h"

namespace kvd::wire {

enum class LogitsWanted : std::int64_t { kNone = 0, kLast = 1, kAll = 2 };

// Payload: the tokens. kFlagNoPrefix.
struct DecodeArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  Pos pos{};  // of the first token; must be the sequence's next
  LogitsWanted logits = LogitsWanted::kNone;
  static constexpr auto Slots() {
    return std::tuple{Handle("sequence", &DecodeArgs::sequence, Access::kEdit),
                      Position("pos", &DecodeArgs::pos, 0),
                      Number("logits", &DecodeArgs::logits, ArgumentSlot::kArgument, 0, 2)};
  }
};
// Of each piece. Output: f32 logits[rows][vocab], read where it lies.
struct DecodeReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint64_t cells = 0;      // computed by now
  std::uint64_t row_first = 0;  // of the rows wanted, the piece's first
  std::int64_t reuse = 0;       // PackReuse
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kSequence, &DecodeReply::sequence),
                      At(ReplySlot::kValue0, &DecodeReply::cells),
                      At(ReplySlot::kValue1, &DecodeReply::row_first),
                      At(ReplySlot::kValue2, &DecodeReply::reuse)};
  }
};

// Payload: GenerateParams and its lists (shm/wire_generate.h), pieces: GeneratePiece. kFlagNoPrefix.
struct GenerateArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::optional<Pos> pos{};  // of the first token; none: the sequence's next
  static constexpr auto Slots() {
    return std::tuple{Handle("sequence", &GenerateArgs::sequence, Access::kEdit),
                      Position("pos", &GenerateArgs::pos, -1)};
  }
};

struct CancelArgs {
  RequestId request{};  // of this session; ends kCancelled
  static constexpr auto Slots() {
    return std::tuple{
        Number("request", &CancelArgs::request, ArgumentSlot::kArgument, kInt64Min, kInt64Max)};
  }
};
struct CancelReply {
  bool was_found = false;
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kValue0, &CancelReply::was_found)};
  }
};

// Payload: the tokens of a text. kFlagNormalize: rows of length 1.
struct EmbedArgs {};
struct EmbedReply {
  std::uint64_t rows = 0;
  std::uint64_t width = 0;
  std::vector<float> values{};  // [rows, width]
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kValue0, &EmbedReply::rows),
                      At(ReplySlot::kValue1, &EmbedReply::width)};
  }
  static constexpr auto Output() { return &EmbedReply::values; }
};

// Payload: the tokens of the text that the sequence's decoder attends to.
struct EncodeArgs {
  SequenceHandle sequence = SequenceHandle::kNone;  // without cells
  static constexpr auto Slots() {
    return std::tuple{Handle("sequence", &EncodeArgs::sequence, Access::kEdit)};
  }
};
struct EncodeReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint64_t tokens = 0;              // read
  std::optional<TokenId> start_token{};  // that decoding starts with, where the model names one
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kSequence, &EncodeReply::sequence),
                      At(ReplySlot::kValue0, &EncodeReply::tokens),
                      At(ReplySlot::kValue1, &EncodeReply::start_token)};
  }
  static Result<EncodeReply> Again(const EncodeArgs&, const Remembered& done) {
    EncodeReply reply{.sequence = done.sequence, .tokens = done.cells};
    if (done.start_token >= 0) reply.start_token = done.start_token;
    return reply;
  }
};

}  // namespace kvd::wire
