// A parser first checks the counts in a payload against their limits, then the payload's length
// against the counts (in 64 bits). The parser reads further bytes and allocates memory only after
// both checks. A payload with bytes after its last field is an error.
#include "shm/payload_codec.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/siphash.h"
#include "base/text.h"
#include "base/utf8.h"
#include "shm/payload_bytes.h"
#include "shm/wire_check.h"

namespace kvd::wire {
namespace {

// Returns whether `value` is in [low, high]; returns false for NaN.
bool IsWithin(float value, float low, float high) { return value >= low && value <= high; }

Status CheckFloat(std::string_view field, float value, bool is_good, std::string_view wanted) {
  if (is_good) return {};
  return BadField(field, Concat(value, ", ", wanted, " wanted"));
}

Status CheckCount(std::string_view field, std::int64_t found, std::int64_t low, std::int64_t high) {
  if (found >= low && found <= high) return {};
  return BadField(field, Concat(found, " is not in [", low, ", ", high, "]"));
}

Status CheckToken(std::string_view field, std::size_t index, TokenId token,
                  std::uint32_t vocab_size) {
  if (token >= 0 && static_cast<std::uint32_t>(token) < vocab_size) return {};
  return BadField(field,
                  Concat("number ", index, " is ", token, ", the vocabulary has ", vocab_size));
}

// Returns how many bytes the texts take if the length of each is written before it.
std::size_t LengthPrefixedBytes(std::span<const std::string_view> texts) {
  std::size_t byte_count = 0;
  for (const std::string_view text : texts) byte_count += sizeof(std::uint32_t) + text.size();
  return byte_count;
}

std::size_t TriggerBytes(std::span<const TriggerView> triggers) {
  std::size_t byte_count = 0;
  for (const TriggerView& trigger : triggers) {
    byte_count += sizeof(TokenId) + sizeof(std::uint32_t) + trigger.text.size();
  }
  return byte_count;
}

Result<std::vector<GenerateRequest::Trigger>> ParseTriggers(PayloadReader reader,
                                                            std::uint32_t count,
                                                            std::uint32_t vocab_size) {
  std::vector<GenerateRequest::Trigger> triggers;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (reader.Left() < sizeof(TokenId) + sizeof(std::uint32_t)) {
      return BadField("generate.trigger_bytes", Concat("end inside trigger ", i));
    }
    const auto token = reader.Take<TokenId>();
    const auto byte_count = reader.Take<std::uint32_t>();
    if (byte_count > reader.Left()) {
      return BadField("generate.trigger", Concat("number ", i, " has ", byte_count, " bytes, ",
                                                 reader.Left(), " are left"));
    }
    const TriggerView view{.token = token, .text = reader.TakeText(byte_count)};
    KVD_CHECK_OK(ValidateTrigger(view, vocab_size));
    triggers.push_back({.token = token, .text = std::string(view.text)});
  }
  if (reader.Left() != 0) {
    return BadField("generate.trigger_bytes",
                    Concat(reader.Left(), " more than the triggers have"));
  }
  return triggers;
}

// The hash of the rest of the payload, triggers and grammar; 0 without a grammar.
std::uint64_t HashOfGrammar(PayloadReader rest, std::uint32_t grammar_bytes) {
  if (grammar_bytes == 0) return 0;
  const std::uint64_t hash = SipHash24(0x6b766420, 0x6772616d6d617221, rest.TakeText(rest.Left()));
  return hash != 0 ? hash : 1;
}

// Parses `count` texts. The length of each is written before it, and `validate` must accept each.
// `field`: the name of one text. The texts end where the reader ends.
Result<std::vector<std::string>> ParseShortTexts(PayloadReader reader, std::uint32_t count,
                                                 const std::string& field,
                                                 Status (*validate)(std::string_view)) {
  std::vector<std::string> texts;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (reader.Left() < sizeof(std::uint32_t)) {
      return BadField(field + "_bytes", Concat("end inside string ", i));
    }
    const auto byte_count = reader.Take<std::uint32_t>();
    if (byte_count > reader.Left()) {
      return BadField(
          field, Concat("number ", i, " has ", byte_count, " bytes, ", reader.Left(), " are left"));
    }
    const std::string_view text = reader.TakeText(byte_count);
    KVD_CHECK_OK(validate(text));
    texts.emplace_back(text);
  }
  if (reader.Left() != 0) {
    return BadField(field + "_bytes", Concat(reader.Left(), " more than the strings have"));
  }
  return texts;
}

Status ValidateShortText(std::string_view field, std::string_view text, std::uint32_t bytes_max) {
  KVD_CHECK_OK(
      CheckCount(Concat(field, " bytes"), static_cast<std::int64_t>(text.size()), 1, bytes_max));
  if (!IsValidUtf8(text)) return BadField(field, "not valid UTF-8");
  return {};
}

}  // namespace

Status ValidateGenerateParams(const GenerateParams& params) {
  const bool continues = (params.flags & kContinue) != 0;
  KVD_CHECK_OK(CheckCount("generate.token_count", params.token_count, continues ? 0 : 1,
                          continues ? 0 : INT32_MAX));
  KVD_CHECK_OK(CheckCount("generate.predict_max", params.predict_max, -1, INT32_MAX));
  KVD_CHECK_OK(ValidateSampling(params.sampling, "generate."));
  KVD_CHECK_OK(CheckCount("generate.logprob_count", params.logprob_count, 0, kLogprobsMax));
  if ((params.flags & ~kGenerateFlagsAll) != 0) {
    return BadField("generate.flags", Concat(params.flags, " has unknown bits"));
  }
  KVD_CHECK_OK(CheckCount("generate.bias_count", params.bias_count, 0, kBiasesMax));
  KVD_CHECK_OK(CheckCount("generate.stop_count", params.stop_count, 0, kStopsMax));
  const bool has_own = (params.flags & kOwnBreakers) != 0;
  KVD_CHECK_OK(
      CheckCount("generate.breaker_count", params.breaker_count, 0, has_own ? kBreakersMax : 0));
  KVD_CHECK_OK(CheckCount("generate.room_wait_ms", params.room_wait_ms, -1, INT32_MAX));
  KVD_CHECK_OK(CheckCount("generate.reserved", params.reserved, 0, 0));
  KVD_CHECK_OK(CheckCount("generate.grammar_bytes", params.grammar_bytes, 0, kGrammarBytesMax));
  return CheckCount("generate.trigger_count", params.trigger_count, 0,
                    params.grammar_bytes != 0 ? kTriggersMax : 0);
}

Status ValidateLogitBias(const LogitBias& bias, std::uint32_t vocab_size) {
  if (bias.token < 0 || static_cast<std::uint32_t>(bias.token) >= vocab_size) {
    return BadField("generate.bias",
                    Concat("token ", bias.token, ", the vocabulary has ", vocab_size));
  }
  const bool is_forbidden = std::isinf(bias.bias) && bias.bias < 0;
  return CheckFloat("generate.bias", bias.bias,
                    is_forbidden || IsWithin(bias.bias, -kBiasMax, kBiasMax),
                    "[-1000, 1000] or -infinity");
}

Status ValidateStop(std::string_view stop) {
  return ValidateShortText("generate.stop", stop, kStopBytesMax);
}

Status ValidateBreaker(std::string_view breaker) {
  return ValidateShortText("generate.breaker", breaker, kBreakerBytesMax);
}

Status ValidateTrigger(const TriggerView& trigger, std::uint32_t vocab_size) {
  if (trigger.token == kNoToken) {
    return ValidateShortText("generate.trigger", trigger.text, kTriggerBytesMax);
  }
  if (trigger.token < 0 || static_cast<std::uint32_t>(trigger.token) >= vocab_size) {
    return BadField("generate.trigger",
                    Concat("token ", trigger.token, ", the vocabulary has ", vocab_size));
  }
  if (trigger.text.empty()) return {};
  return BadField("generate.trigger", Concat("token ", trigger.token, " and a text"));
}

std::size_t GenerateBytes(const GenerateView& generate) {
  return sizeof(GenerateParams) + generate.tokens.size_bytes() + generate.biases.size_bytes() +
         LengthPrefixedBytes(generate.stops) + LengthPrefixedBytes(generate.breakers) +
         TriggerBytes(generate.triggers) + generate.grammar.size();
}

void EncodeGenerate(const GenerateView& generate, std::span<std::byte> out) {
  GenerateParams params = generate.params;
  params.token_count = static_cast<std::uint32_t>(generate.tokens.size());
  params.bias_count = static_cast<std::uint32_t>(generate.biases.size());
  params.stop_count = static_cast<std::uint32_t>(generate.stops.size());
  params.stop_bytes = static_cast<std::uint32_t>(LengthPrefixedBytes(generate.stops));
  params.breaker_count = static_cast<std::uint32_t>(generate.breakers.size());
  params.breaker_bytes = static_cast<std::uint32_t>(LengthPrefixedBytes(generate.breakers));
  params.grammar_bytes = static_cast<std::uint32_t>(generate.grammar.size());
  params.trigger_count = static_cast<std::uint32_t>(generate.triggers.size());
  params.trigger_bytes = static_cast<std::uint32_t>(TriggerBytes(generate.triggers));
  PayloadWriter writer(out);
  writer.PutValue(params);
  writer.Put(generate.tokens.data(), generate.tokens.size_bytes());
  writer.Put(generate.biases.data(), generate.biases.size_bytes());
  for (const auto texts : {generate.stops, generate.breakers}) {
    for (const std::string_view text : texts) {
      writer.PutValue(static_cast<std::uint32_t>(text.size()));
      writer.Put(text.data(), text.size());
    }
  }
  for (const TriggerView& trigger : generate.triggers) {
    writer.PutValue(trigger.token);
    writer.PutValue(static_cast<std::uint32_t>(trigger.text.size()));
    writer.Put(trigger.text.data(), trigger.text.size());
  }
  writer.Put(generate.grammar.data(), generate.grammar.size());
}

Result<GenerateRequest> ParseGenerate(std::span<const std::byte> payload,
                                      std::uint32_t vocab_size) {
  PayloadReader reader(payload);
  if (reader.Left() < sizeof(GenerateParams)) {
    return BadField("generate",
                    Concat(payload.size(), " bytes, at least ", sizeof(GenerateParams), " wanted"));
  }
  GenerateRequest request;
  request.params = reader.Take<GenerateParams>();
  const GenerateParams& params = request.params;
  KVD_CHECK_OK(ValidateGenerateParams(params));
  const std::uint64_t wanted_bytes = std::uint64_t{params.token_count} * sizeof(TokenId) +
                                     std::uint64_t{params.bias_count} * sizeof(LogitBias) +
                                     params.stop_bytes + std::uint64_t{params.breaker_bytes} +
                                     params.trigger_bytes + std::uint64_t{params.grammar_bytes};
  if (wanted_bytes != reader.Left()) {
    return BadField("generate",
                    Concat("lists of ", reader.Left(), " bytes, the counts say ", wanted_bytes));
  }
  if ((params.flags & kContinue) == 0) {
    KVD_TRY(request.tokens,
            ParseTokens(reader.TakeSpan(params.token_count * sizeof(TokenId)), vocab_size));
  }
  request.biases.resize(params.bias_count);
  for (LogitBias& bias : request.biases) {
    bias = reader.Take<LogitBias>();
    KVD_CHECK_OK(ValidateLogitBias(bias, vocab_size));
  }
  KVD_TRY(request.stops, ParseShortTexts(PayloadReader(reader.TakeSpan(params.stop_bytes)),
                                         params.stop_count, "generate.stop", ValidateStop));
  KVD_TRY(request.breakers,
          ParseShortTexts(PayloadReader(reader.TakeSpan(params.breaker_bytes)),
                          params.breaker_count, "generate.breaker", ValidateBreaker));
  request.grammar_hash = HashOfGrammar(reader, params.grammar_bytes);
  KVD_TRY(request.triggers, ParseTriggers(PayloadReader(reader.TakeSpan(params.trigger_bytes)),
                                          params.trigger_count, vocab_size));
  request.grammar = reader.TakeText(params.grammar_bytes);
  if (!IsValidUtf8(request.grammar)) return BadField("generate.grammar", "not valid UTF-8");
  return request;
}

Result<std::vector<TokenId>> ParseTokens(std::span<const std::byte> payload,
                                         std::uint32_t vocab_size) {
  if (payload.empty() || payload.size() % sizeof(TokenId) != 0) {
    return BadField("tokens", Concat(payload.size(), " bytes, a positive multiple of 4 wanted"));
  }
  std::vector<TokenId> tokens(payload.size() / sizeof(TokenId));
  std::memcpy(tokens.data(), payload.data(), payload.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    KVD_CHECK_OK(CheckToken("tokens", i, tokens[i], vocab_size));
  }
  return tokens;
}

std::size_t TokenListsBytes(std::span<const std::span<const TokenId>> lists) {
  std::size_t byte_count = sizeof(std::uint32_t);
  for (const auto list : lists) byte_count += sizeof(std::uint32_t) + list.size_bytes();
  return byte_count;
}

void EncodeTokenLists(std::span<const std::span<const TokenId>> lists, std::span<std::byte> out) {
  PayloadWriter writer(out);
  writer.PutValue(static_cast<std::uint32_t>(lists.size()));
  for (const auto list : lists) writer.PutValue(static_cast<std::uint32_t>(list.size()));
  for (const auto list : lists) writer.Put(list.data(), list.size_bytes());
}

Result<TokenLists> ParseTokenLists(std::span<const std::byte> payload, std::uint32_t vocab_size) {
  PayloadReader reader(payload);
  if (reader.Left() < sizeof(std::uint32_t)) return BadField("texts", "the payload has no count");
  const auto list_count = reader.Take<std::uint32_t>();
  KVD_CHECK_OK(CheckCount("texts", list_count, 1, kEmbedTextsMax));
  if (reader.Left() < list_count * sizeof(std::uint32_t)) {
    return BadField("texts",
                    Concat("the payload ends inside the lengths of ", list_count, " texts"));
  }
  TokenLists lists(list_count);
  std::vector<std::uint32_t> lengths(list_count);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = reader.Take<std::uint32_t>();
    if (lengths[i] == 0) return BadField(Concat("text ", i), "no tokens");
    total += lengths[i];
  }
  KVD_CHECK_OK(
      CheckCount("tokens of all texts", static_cast<std::int64_t>(total), 1, kEmbedTokensMax));
  if (total * sizeof(TokenId) != reader.Left()) {
    return BadField("texts", Concat("tokens of ", reader.Left(), " bytes, the lengths say ",
                                    total * sizeof(TokenId)));
  }
  for (std::size_t i = 0; i < lists.size(); ++i) {
    auto tokens = ParseTokens(reader.TakeSpan(lengths[i] * sizeof(TokenId)), vocab_size);
    if (!tokens) return BadField(Concat("text ", i), tokens.error().message);
    lists[i] = std::move(*tokens);
  }
  return lists;
}

std::size_t TextsBytes(std::span<const std::string_view> texts) {
  return LengthPrefixedBytes(texts);
}

void EncodeTexts(std::span<const std::string_view> texts, std::span<std::byte> out) {
  PayloadWriter writer(out);
  for (const std::string_view text : texts) {
    writer.PutValue(static_cast<std::uint32_t>(text.size()));
    writer.Put(text.data(), text.size());
  }
}

namespace {

std::string RankField(std::size_t text) {
  return text == 0 ? std::string("query") : Concat("document ", text - 1);
}

}  // namespace

Result<std::vector<std::string_view>> SplitTexts(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  std::vector<std::string_view> texts;
  while (reader.Left() != 0) {
    if (texts.size() == kRankDocumentsMax + 1) {
      return BadField("documents", Concat("more than ", kRankDocumentsMax, ", the limit"));
    }
    const std::string field = RankField(texts.size());
    if (reader.Left() < sizeof(std::uint32_t)) return BadField(field, "the payload ends inside it");
    const auto byte_count = reader.Take<std::uint32_t>();
    if (byte_count > kRankTextBytesMax) {
      return BadField(field,
                      Concat(byte_count, " bytes, at most ", kRankTextBytesMax, " are allowed"));
    }
    if (byte_count > reader.Left()) {
      return BadField(field, Concat(byte_count, " bytes, ", reader.Left(), " are left"));
    }
    texts.push_back(reader.TakeText(byte_count));
  }
  if (texts.size() < 2) return BadField("documents", "none given");
  return texts;
}

Result<std::vector<std::string_view>> ParseTexts(std::span<const std::byte> payload) {
  KVD_TRY(std::vector<std::string_view> texts, SplitTexts(payload));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!IsValidUtf8(texts[i])) return BadField(RankField(i), "not valid UTF-8");
  }
  return texts;
}

std::size_t ChatTextsBytes(std::span<const ChatTextView> texts) {
  std::size_t byte_count = 0;
  for (const ChatTextView& text : texts) {
    byte_count += sizeof(ChatText) + text.name.size() + text.text.size();
  }
  return byte_count;
}

void EncodeChatTexts(std::span<const ChatTextView> texts, std::span<std::byte> out) {
  PayloadWriter writer(out);
  for (const ChatTextView& text : texts) {
    writer.PutValue(ChatText{static_cast<std::uint32_t>(text.kind),
                             static_cast<std::uint32_t>(text.name.size()),
                             static_cast<std::uint32_t>(text.text.size())});
    writer.Put(text.name.data(), text.name.size());
    writer.Put(text.text.data(), text.text.size());
  }
}

Result<std::vector<ChatTextView>> ParseChatTexts(std::span<const std::byte> output) {
  PayloadReader reader(output);
  std::vector<ChatTextView> texts;
  while (reader.Left() != 0) {
    const std::string field = Concat("chat text ", texts.size());
    if (reader.Left() < sizeof(ChatText)) return BadField(field, "the output ends inside it");
    const auto record = reader.Take<ChatText>();
    const auto kind = static_cast<ChatTextKind>(record.kind);
    if (kind != ChatTextKind::kTemplate && kind != ChatTextKind::kToken) {
      return BadField(field, Concat("the unknown kind ", record.kind));
    }
    const std::uint64_t wanted_bytes =
        std::uint64_t{record.name_bytes} + std::uint64_t{record.text_bytes};
    if (wanted_bytes > reader.Left()) {
      return BadField(
          field, Concat("name and text of ", wanted_bytes, " bytes, ", reader.Left(), " are left"));
    }
    const std::string_view name = reader.TakeText(record.name_bytes);
    texts.push_back({kind, name, reader.TakeText(record.text_bytes)});
  }
  return texts;
}

Result<std::string> ParseName(std::span<const std::byte> payload) {
  std::string name(reinterpret_cast<const char*>(payload.data()), payload.size());
  KVD_CHECK_OK(ValidateName(name));
  return name;
}

Result<std::string_view> ParseText(std::span<const std::byte> payload) {
  const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
  if (!IsValidUtf8(text)) return BadField("text", "not valid UTF-8");
  return text;
}

}  // namespace kvd::wire
