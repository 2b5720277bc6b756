// Text: tokens from text and back. Work that grows with the text is a call for workers, which touches
// only what may be used from any thread: the vocabulary and the memory's queries. Payloads are taken
// apart there too; before that only what bounds the work is looked at.
#include <cstring>
#include <string>
#include <utility>

#include "daemon/service.h"
#include "engine/vocabulary/chat_template.h"
#include "engine/vocabulary/vocabulary.h"
#include "shm/payload_codec.h"

namespace kvd {
namespace {

Result<Reply> TokenizeText(const Vocabulary& vocabulary, std::span<const std::byte> payload,
                           TokenizeOptions options, WorkControl& work) {
  KVD_TRY(const std::string_view text, wire::ParseText(payload));
  KVD_TRY(const std::vector<TokenId> tokens, vocabulary.Tokenize(text, options, work));
  Reply reply;
  reply.value0 = static_cast<std::int64_t>(tokens.size());
  reply.AppendBytes(std::as_bytes(std::span(tokens)));
  return reply;
}

Result<Reply> DetokenizeTokens(const Vocabulary& vocabulary, std::span<const TokenId> tokens,
                               bool special, WorkControl& work) {
  Reply reply;
  KVD_CHECK_OK(vocabulary.DetokenizeTo(tokens, {.unparse_special = special}, work, &reply.output));
  return reply;
}

Result<Reply> ApplyTemplate(const Vocabulary& vocabulary, std::vector<std::byte>& payload,
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
  Reply reply;
  reply.AppendText(text);
  return reply;
}

// What is small is done at once: a turn through workers costs more.
constexpr std::size_t kSmallBytes = 2048;

// call(work) -> Result<Reply>.
template <class Call>
Outcome NowOrLater(std::size_t byte_count, Call call) {
  auto answer = [call = std::move(call)](WorkControl& work) mutable { return ReplyOf(call(work)); };
  WorkCall work{.call = std::move(answer)};
  if (byte_count <= kSmallBytes) return work.call(Uncontrolled());
  return work;
}

}  // namespace

Result<Outcome> Service::Tokenize(const Request& request) {
  const TokenizeOptions options{.add_special = request.has(wire::kFlagAddSpecial),
                                .parse_special = request.has(wire::kFlagParseSpecial)};
  const std::size_t text_bytes = request.payload.size();
  return NowOrLater(text_bytes,
                    [&vocabulary = engine_.vocabulary(), options, charge = request.charge,
                     payload = request.TakePayload()](WorkControl& work) {
                      return TokenizeText(vocabulary, payload, options, work);
                    });
}

Result<Outcome> Service::Detokenize(const Request& request) {
  if (request.payload.empty()) return Reply{};
  const std::size_t payload_bytes = request.payload.size();
  return NowOrLater(payload_bytes,
                    [&vocabulary = engine_.vocabulary(), special = request.has(wire::kFlagSpecial),
                     charge = request.charge,
                     payload = request.TakePayload()](WorkControl& work) mutable -> Result<Reply> {
                      KVD_TRY(const std::vector<TokenId> tokens,
                              wire::ParseTokens(payload, vocabulary.vocab_size()));
                      payload = {};
                      return DetokenizeTokens(vocabulary, tokens, special, work);
                    });
}

Result<Outcome> Service::Chat(const Request& request) {
  KVD_CHECK_OK(wire::CheckChatCount(request.payload));
  if (engine_.vocabulary().kind() == Vocabulary::Kind::kNone) {
    return Fail(Code::kNoTokenizer, std::string(engine_.vocabulary().no_tokenizer_reason()));
  }
  const std::size_t payload_bytes = request.payload.size();
  return NowOrLater(
      payload_bytes,
      [&vocabulary = engine_.vocabulary(), add_assistant = request.has(wire::kFlagAddAssistant),
       charge = request.charge, payload = request.TakePayload()](WorkControl& work) mutable {
        return ApplyTemplate(vocabulary, payload, add_assistant, work);
      });
}

Result<Outcome> Service::ReadText(const Request& request) {
  KVD_TRY(const SequenceInfo info, FindReadable(request, "sequence", request.sequence()));
  const bool special = request.has(wire::kFlagSpecial);
  return NowOrLater(info.cell_count * sizeof(TokenId),
                    [&memory = memory_, &vocabulary = engine_.vocabulary(), info,
                     special](WorkControl& work) -> Result<Reply> {
                      std::vector<TokenId> tokens;
                      std::vector<Pos> positions;
                      KVD_CHECK_OK(memory.holds().ReadCells(info.handle, 0, info.cell_count,
                                                            &tokens, &positions));
                      positions = {};
                      KVD_TRY(Reply reply, DetokenizeTokens(vocabulary, tokens, special, work));
                      reply.sequence = info.handle;
                      reply.unit_bytes = 1;
                      return reply;
                    });
}

}  // namespace kvd
