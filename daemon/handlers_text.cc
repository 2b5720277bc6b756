// The handlers of the verbs on text, which convert text to tokens and back. Work that grows with
// the text runs on workers, which use only thread-safe objects: the vocabulary and the memory's
// queries. Workers also parse the payloads; the io thread only checks the sizes that bound the
// work.
#include <cstring>
#include <string>
#include <utility>

#include "daemon/service.h"
#include "engine/vocabulary/chat_template.h"
#include "engine/vocabulary/vocabulary.h"
#include "shm/payload_codec.h"

namespace kvd {
namespace {

Result<wire::TokenizeReply> TokenizeText(const Vocabulary& vocabulary,
                                         std::span<const std::byte> payload,
                                         TokenizeOptions options, WorkControl& work) {
  KVD_TRY(const std::string_view text, wire::ParseText(payload));
  KVD_TRY(std::vector<TokenId> tokens, vocabulary.Tokenize(text, options, work));
  return wire::TokenizeReply{.count = tokens.size(), .tokens = std::move(tokens)};
}

Result<wire::TextReply> DetokenizeTokens(const Vocabulary& vocabulary,
                                         std::span<const TokenId> tokens, bool special,
                                         WorkControl& work) {
  wire::TextReply reply;
  KVD_CHECK_OK(vocabulary.DetokenizeTo(tokens, {.unparse_special = special}, work, &reply.text));
  return reply;
}

Result<wire::TextReply> ApplyTemplate(const Vocabulary& vocabulary, std::vector<std::byte>& payload,
                                      bool add_assistant, WorkControl& work) {
  KVD_TRY(std::vector<wire::OwnedChatTurn> turns, wire::ParseChat(payload));
  payload = {};
  KVD_CHECK_OK(work.Continue());
  std::vector<ChatMessage> messages;
  for (wire::OwnedChatTurn& turn : turns) {
    messages.push_back({std::move(turn.role), std::move(turn.content)});
  }
  std::string eos_text = "</s>";
  if (vocabulary.eos() >= 0) {
    if (const auto text = vocabulary.TokenText(vocabulary.eos())) eos_text = *text;
  }
  KVD_TRY(const std::string text,
          ApplyChatTemplateText(vocabulary.chat_template(), messages, add_assistant, eos_text));
  const auto bytes = std::as_bytes(std::span(text));
  return wire::TextReply{.text = {bytes.begin(), bytes.end()}};
}

// Requests of at most kSmallBytes bytes are answered at once, because passing them to a worker
// costs more time than the answer.
constexpr std::size_t kSmallBytes = 2048;

// Answers a request with a payload of `byte_count` bytes at once or on a worker. `call(work)`
// returns a Result of a reply.
template <class Call>
Outcome NowOrLater(std::size_t byte_count, Call call) {
  auto answer = [call = std::move(call)](WorkControl& work) mutable { return ReplyOf(call(work)); };
  WorkCall work{.call = std::move(answer)};
  if (byte_count <= kSmallBytes) return work.call(Uncontrolled());
  return work;
}

}  // namespace

Result<Outcome> Service::Do(const Call<wire::TokenizeArgs>& call) {
  const TokenizeOptions options{.add_special = call.has(wire::kFlagAddSpecial),
                                .parse_special = call.has(wire::kFlagParseSpecial)};
  const std::size_t text_bytes = call.payload.size();
  return NowOrLater(text_bytes, [&vocabulary = engine_.vocabulary(), options, share = call.share,
                                 payload = call.TakePayload()](WorkControl& work) {
    return TokenizeText(vocabulary, payload, options, work);
  });
}

Result<Outcome> Service::Do(const Call<wire::DetokenizeArgs>& call) {
  const std::size_t payload_bytes = call.payload.size();
  return NowOrLater(payload_bytes,
                    [&vocabulary = engine_.vocabulary(), special = call.has(wire::kFlagSpecial),
                     share = call.share, payload = call.TakePayload()](
                        WorkControl& work) mutable -> Result<wire::TextReply> {
                      KVD_TRY(const std::vector<TokenId> tokens,
                              wire::ParseTokens(payload, vocabulary.vocab_size()));
                      payload = {};
                      return DetokenizeTokens(vocabulary, tokens, special, work);
                    });
}

Result<Outcome> Service::Do(const Call<wire::ChatArgs>& call) {
  KVD_CHECK_OK(wire::CheckChatCount(call.payload));
  if (engine_.vocabulary().kind() == Vocabulary::Kind::kNone) {
    return Fail(Code::kNoTokenizer, std::string(engine_.vocabulary().no_tokenizer_reason()));
  }
  const std::size_t payload_bytes = call.payload.size();
  return NowOrLater(
      payload_bytes,
      [&vocabulary = engine_.vocabulary(), add_assistant = call.has(wire::kFlagAddAssistant),
       share = call.share, payload = call.TakePayload()](WorkControl& work) mutable {
        return ApplyTemplate(vocabulary, payload, add_assistant, work);
      });
}

Result<Outcome> Service::Do(const Call<wire::ReadTextArgs>& call) {
  const bool special = call.has(wire::kFlagSpecial);
  return NowOrLater(
      call.sequence.cell_count * sizeof(TokenId),
      [&memory = memory_, &vocabulary = engine_.vocabulary(), sequence = call.args.sequence,
       cells = call.sequence.cell_count,
       special](WorkControl& work) -> Result<wire::ReadTextReply> {
        std::vector<TokenId> tokens;
        std::vector<Pos> positions;
        KVD_CHECK_OK(memory.holds().ReadCells(sequence, 0, cells, &tokens, &positions));
        positions = {};
        KVD_TRY(wire::TextReply text, DetokenizeTokens(vocabulary, tokens, special, work));
        return wire::ReadTextReply{.sequence = sequence, .text = std::move(text.text)};
      });
}

}  // namespace kvd
