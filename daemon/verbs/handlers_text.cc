// The handlers of the verbs on text, which convert text to tokens and back. Work that grows with
// the text runs on workers, which use only thread-safe objects: the vocabulary and the memory's
// queries. Workers also parse the payloads; the io thread only checks the sizes that bound the
// work.
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/verbs/service.h"
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

// Numbers of the vocabulary as decimal texts, by the names "#fim_pre", ... No special token has
// such a name.
using VocabularyNumbers = std::vector<std::pair<std::string_view, std::string>>;

VocabularyNumbers NumbersOf(const Vocabulary& vocabulary) {
  const SpecialTokens& special = vocabulary.special();
  const std::pair<std::string_view, TokenId> tokens[] = {{"#fim_pre", special.fim_pre},
                                                         {"#fim_suf", special.fim_suf},
                                                         {"#fim_mid", special.fim_mid},
                                                         {"#fim_rep", special.fim_rep},
                                                         {"#fim_sep", special.fim_sep}};
  VocabularyNumbers numbers = {
      {"#vocabulary_kind", std::to_string(static_cast<int>(vocabulary.kind()))}};
  for (const auto& [name, token] : tokens) {
    if (token != kNoToken) numbers.emplace_back(name, std::to_string(token));
  }
  return numbers;
}

// The texts of the model's file that clients need to format a chat: templates, then special tokens,
// then numbers. `numbers` must outlive the texts.
std::vector<wire::ChatTextView> ChatTextsOf(const Vocabulary& vocabulary,
                                            const VocabularyNumbers& numbers) {
  std::vector<wire::ChatTextView> texts;
  for (const NamedTemplate& one : vocabulary.chat_templates()) {
    texts.push_back({wire::ChatTextKind::kTemplate, one.name, one.text});
  }
  const SpecialTokens& special = vocabulary.special();
  const std::pair<std::string_view, TokenId> tokens[] = {
      {"bos", special.bos}, {"eos", special.eos}, {"unk", special.unk},
      {"sep", special.sep}, {"pad", special.pad}, {"mask", special.mask}};
  for (const auto& [name, token] : tokens) {
    const auto text = vocabulary.Piece(token, true);
    if (text) texts.push_back({wire::ChatTextKind::kToken, name, *text});
  }
  for (const auto& [name, text] : numbers) {
    texts.push_back({wire::ChatTextKind::kToken, name, text});
  }
  return texts;
}

// Requests about at most kSmallBytes bytes are answered at once, because passing them to a worker
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

Result<Outcome> Service::Do(const Call<wire::ChatTemplatesArgs>&) {
  const Vocabulary& vocabulary = engine_.vocabulary();
  if (vocabulary.kind() == Vocabulary::Kind::kNone) {
    return Fail(Code::kNoTokenizer, std::string(vocabulary.no_tokenizer_reason()));
  }
  const VocabularyNumbers numbers = NumbersOf(vocabulary);
  const std::size_t byte_count = wire::ChatTextsBytes(ChatTextsOf(vocabulary, numbers));
  if (byte_count > wire::kTextBytesMax) {
    return Fail(Code::kUnsupported, "tokenizer.chat_template: templates and special tokens of ",
                byte_count, " bytes, at most ", wire::kTextBytesMax, " are supported");
  }
  return NowOrLater(
      byte_count,
      [&vocabulary, numbers, byte_count](WorkControl&) -> Result<wire::ChatTemplatesReply> {
        wire::ChatTemplatesReply reply{.records = std::vector<std::byte>(byte_count)};
        wire::EncodeChatTexts(ChatTextsOf(vocabulary, numbers), reply.records);
        return reply;
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
