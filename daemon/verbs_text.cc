// Text: tokens from text and back. Work that grows with the text is a call for the worker thread,
// which touches only what may be used from any thread: the vocabulary and the memory's queries.
#include <cstring>
#include <string>
#include <utility>

#include "daemon/service.h"
#include "engine/vocabulary/chat_template.h"
#include "engine/vocabulary/vocabulary.h"
#include "shm/payload_codec.h"

namespace kvd {
namespace {

Result<Reply> TokenizeText(const Vocabulary& vocabulary, std::string_view text,
                           TokenizeOptions options) {
  KVD_TRY(const std::vector<TokenId> tokens, vocabulary.Tokenize(text, options));
  Reply reply;
  reply.value0 = static_cast<std::int64_t>(tokens.size());
  const auto bytes = std::as_bytes(std::span(tokens));
  reply.output.assign(bytes.begin(), bytes.end());
  return reply;
}

Result<Reply> DetokenizeTokens(const Vocabulary& vocabulary, std::span<const TokenId> tokens,
                               bool special) {
  KVD_TRY(const std::string text, vocabulary.Detokenize(tokens, {.unparse_special = special}));
  Reply reply;
  reply.AppendText(text);
  return reply;
}

// What is small is done at once: a turn through the worker costs more.
constexpr std::size_t kSmallBytes = 2048;

template <class Call>
Outcome NowOrLater(std::size_t byte_count, Call call) {
  if (byte_count <= kSmallBytes) return call();
  return std::function<Reply()>(std::move(call));
}

Reply ReplyOf(Result<Reply> result) {
  if (!result) return ErrorReply(result.error());
  return std::move(*result);
}

}  // namespace

Result<Outcome> Service::Tokenize(const Request& request) {
  KVD_TRY(std::string text, wire::ParseText(request.payload));
  const TokenizeOptions options{.add_special = request.has(wire::kFlagAddSpecial),
                                .parse_special = request.has(wire::kFlagParseSpecial)};
  const std::size_t text_bytes = text.size();
  return NowOrLater(text_bytes,
                    [&vocabulary = engine_.vocabulary(), text = std::move(text), options] {
                      return ReplyOf(TokenizeText(vocabulary, text, options));
                    });
}

Result<Outcome> Service::Detokenize(const Request& request) {
  const Vocabulary& vocabulary = engine_.vocabulary();
  if (request.payload.empty()) return Reply{};
  KVD_TRY(std::vector<TokenId> tokens, wire::ParseTokens(request.payload, vocabulary.vocab_size()));
  const bool special = request.has(wire::kFlagSpecial);
  return NowOrLater(request.payload.size(), [&vocabulary, tokens = std::move(tokens), special] {
    return ReplyOf(DetokenizeTokens(vocabulary, tokens, special));
  });
}

Result<Outcome> Service::Chat(const Request& request) {
  KVD_TRY(std::vector<wire::OwnedChatTurn> turns, wire::ParseChat(request.payload));
  const bool add_assistant = request.has(wire::kFlagAddAssistant);
  if (engine_.vocabulary().kind() == Vocabulary::Kind::kNone) {
    return Fail(Code::kNoTokenizer, std::string(engine_.vocabulary().no_tokenizer_reason()));
  }
  return NowOrLater(
      request.payload.size(),
      [&vocabulary = engine_.vocabulary(), turns = std::move(turns), add_assistant]() -> Reply {
        std::vector<ChatMessage> messages;
        for (const wire::OwnedChatTurn& turn : turns) messages.push_back({turn.role, turn.content});
        std::string eos_text = "</s>";
        if (vocabulary.eos() >= 0) {
          if (const auto text = vocabulary.TokenText(vocabulary.eos())) eos_text = *text;
        }
        const Result<std::string> text =
            ApplyChatTemplateText(vocabulary.chat_template(), messages, add_assistant, eos_text);
        if (!text) return ErrorReply(text.error());
        Reply reply;
        reply.AppendText(*text);
        return reply;
      });
}

Result<Outcome> Service::ReadText(const Request& request) {
  KVD_TRY(const SequenceInfo info, FindReadable(request, "sequence", request.sequence()));
  const bool special = request.has(wire::kFlagSpecial);
  return NowOrLater(info.cell_count * sizeof(TokenId),
                    [&memory = std::as_const(memory_), &vocabulary = engine_.vocabulary(), info,
                     special]() -> Reply {
                      std::vector<TokenId> tokens;
                      std::vector<Pos> positions;
                      if (const Status read = memory.ReadCells(info.handle, 0, info.cell_count,
                                                               &tokens, &positions);
                          !read) {
                        return ErrorReply(read.error());
                      }
                      Reply reply = ReplyOf(DetokenizeTokens(vocabulary, tokens, special));
                      reply.sequence = info.handle;
                      if (reply.code == Code::kOk) reply.unit_bytes = 1;
                      return reply;
                    });
}

}  // namespace kvd
