// Arguments and replies of the computing verbs and of cancel. The daemon answers decode and
// generate requests in pieces.
#pragma once

#include "shm/prefix_reuse.h"
#include "shm/verb_slots.h"

namespace kvd::wire {

enum class LogitsWanted : std::int64_t { kNone = 0, kLast = 1, kAll = 2 };

// The payload is the tokens to append. Flag: kFlagNoPrefix.
struct DecodeArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  Pos pos{};  // position of the first token; must be the sequence's next position
  LogitsWanted logits = LogitsWanted::kNone;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &DecodeArgs::sequence, Access::kEdit),
                   Position("pos", &DecodeArgs::pos, 0),
                   Number("logits", &DecodeArgs::logits, ArgumentSlot::kArgument, 0, 2));
  }
};
// The reply of one piece of a decode. The output of a DecodeReply is f32 logits[rows][vocab], which
// the client reads in place.
struct DecodeReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint64_t cells = 0;      // number of cells of the sequence after the piece
  std::uint64_t row_first = 0;  // index of the piece's first row among the requested rows
  std::int64_t reuse = 0;       // the prompt's PrefixReuse as a number (PackReuse)
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kSequence, &DecodeReply::sequence),
                   At(ReplySlot::kValue0, &DecodeReply::cells),
                   At(ReplySlot::kValue1, &DecodeReply::row_first),
                   At(ReplySlot::kValue2, &DecodeReply::reuse));
  }
};

// The payload is a GenerateParams and its lists (shm/wire_generate.h). The pieces of the answer are
// GeneratePiece. Flag: kFlagNoPrefix.
struct GenerateArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::optional<Pos> pos{};  // position of the first token; nullopt: the sequence's next position
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &GenerateArgs::sequence, Access::kEdit),
                   Position("pos", &GenerateArgs::pos, -1));
  }
};

// Cancels a request of the same session; that request ends with kCancelled.
struct CancelArgs {
  RequestId request{};
  static constexpr auto Slots() {
    return Slotted(
        Number("request", &CancelArgs::request, ArgumentSlot::kArgument, kInt64Min, kInt64Max));
  }
};
struct CancelReply {
  bool was_found = false;  // true: the request that was to be cancelled was in flight
  static constexpr auto Slots() { return Slotted(At(ReplySlot::kValue0, &CancelReply::was_found)); }
};

// How the rows of a text's tokens become its embedding. The numbers are those of the pooling_type
// of model files.
enum class PoolingChoice : std::int64_t { kNone = 0, kMean = 1, kCls = 2, kLast = 3, kRank = 4 };

// The payload is the tokens of texts (ParseTokenLists). kFlagNormalize scales each row to length 1,
// but not the scores of PoolingChoice::kRank.
struct EmbedArgs {
  std::optional<PoolingChoice> pooling{};  // nullopt: the pooling that the model's file declares
  static constexpr auto Slots() {
    return Slotted(Number("pooling", &EmbedArgs::pooling, ArgumentSlot::kArgument, -1, 4));
  }
};
struct EmbedReply {
  // Rows of all texts, one after the other: one row for each text, or with PoolingChoice::kNone one
  // for each token.
  std::uint64_t rows = 0;
  std::uint64_t width = 0;
  std::uint64_t is_normalised = 0;  // 1: the rows have length 1; scores are never scaled
  std::vector<float> values{};      // [rows, width]
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kValue0, &EmbedReply::rows),
                   At(ReplySlot::kValue1, &EmbedReply::width),
                   At(ReplySlot::kValue2, &EmbedReply::is_normalised));
  }
  static constexpr auto Output() { return &EmbedReply::values; }
};

// The payload is a query and documents (ParseTexts).
struct RankArgs {};
struct RankReply {
  std::uint64_t tokens = 0;     // tokens that were computed for all documents
  std::vector<float> scores{};  // [documents], in their order; a higher score is a better match
  static constexpr auto Slots() { return Slotted(At(ReplySlot::kValue0, &RankReply::tokens)); }
  static constexpr auto Output() { return &RankReply::scores; }
};

// The payload is the tokens of the text that the sequence's decoder attends to.
struct EncodeArgs {
  SequenceHandle sequence = SequenceHandle::kNone;  // handle of a sequence that has no cells
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &EncodeArgs::sequence, Access::kEdit));
  }
};
struct EncodeReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint64_t tokens = 0;  // number of encoded tokens
  // The token with which decoding starts, if the model names such a token.
  std::optional<TokenId> start_token{};
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kSequence, &EncodeReply::sequence),
                   At(ReplySlot::kValue0, &EncodeReply::tokens),
                   At(ReplySlot::kValue1, &EncodeReply::start_token));
  }
  static Result<EncodeReply> Again(const EncodeArgs&, const Remembered& done) {
    EncodeReply reply{.sequence = done.sequence, .tokens = done.cells};
    if (done.start_token >= 0) reply.start_token = done.start_token;
    return reply;
  }
};

}  // namespace kvd::wire
