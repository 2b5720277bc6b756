// Encoders and parsers of request payloads: the client encodes directly into the arena, the daemon
// parses its private copy.
//
// Parsers read untrusted bytes: each returns an Error (kInvalidArgument) that names the field, the
// number found and the limit. Encoders require that lists are within the limits of wire_messages.h;
// the client validates its caller's arguments before it encodes them, so that a caller's mistake is
// returned as an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "shm/verb_table.h"

namespace kvd::wire {

// Checks that every number is in its range (NaN is in no range) and that every list's count is
// within the list's limit.
Status ValidateGenerateParams(const GenerateParams& params);
// Checks that the bias is in [-kBiasMax, kBiasMax] or -infinity and that the token is in [0,
// vocab_size).
Status ValidateLogitBias(const LogitBias& bias, std::uint32_t vocab_size);
// Check that a stop string has 1..kStopBytesMax bytes, or a breaker 1..kBreakerBytesMax bytes, of
// valid UTF-8.
Status ValidateStop(std::string_view stop);
Status ValidateBreaker(std::string_view breaker);

// Starts a lazy grammar: a token, or a text if `token` is kNoToken. The trigger itself is read by
// the grammar.
struct TriggerView {
  TokenId token = kNoToken;
  std::string_view text{};
};
// Checks that a trigger is either a token in [0, vocab_size) or a text of 1..kTriggerBytesMax
// bytes of valid UTF-8.
Status ValidateTrigger(const TriggerView& trigger, std::uint32_t vocab_size);

// The payload of kGenerate as views, from which EncodeGenerate writes the payload's bytes.
// EncodeGenerate sets the counts in `params`.
struct GenerateView {
  GenerateParams params{};
  std::span<const TokenId> tokens;
  std::span<const LogitBias> biases;
  std::span<const std::string_view> stops;
  std::span<const std::string_view> breakers{};  // none without kOwnBreakers
  std::span<const TriggerView> triggers{};       // none without a grammar
  std::string_view grammar{};
};
std::size_t GenerateBytes(const GenerateView& generate);
// REQUIRES: out.size() == GenerateBytes(generate).
void EncodeGenerate(const GenerateView& generate, std::span<std::byte> out);

// The payload of kGenerate as owned data, for the daemon.
struct GenerateRequest {
  GenerateParams params{};
  std::vector<TokenId> tokens;
  std::vector<LogitBias> biases;
  std::vector<std::string> stops;
  std::vector<std::string> breakers;
  struct Trigger {
    TokenId token = kNoToken;  // kNoToken: the trigger is a text
    std::string text{};
  };
  std::vector<Trigger> triggers{};
  std::string grammar{};
  // Identifies the grammar with its triggers: SipHash-2-4 under a fixed key. Never 0 for a grammar;
  // 0 without one.
  std::uint64_t grammar_hash = 0;
};
Result<GenerateRequest> ParseGenerate(std::span<const std::byte> payload, std::uint32_t vocab_size);

// Parses i32 tokens[]: at least one token, each in [0, vocab_size). Errors: kInvalidArgument.
Result<std::vector<TokenId>> ParseTokens(std::span<const std::byte> payload,
                                         std::uint32_t vocab_size);

// The payload of kEmbed: u32 list_count | u32 token_count[list_count] | i32 tokens[], the tokens of
// all lists. 1 to kEmbedTextsMax lists of at least one token, at most kEmbedTokensMax tokens.
using TokenLists = std::vector<std::vector<TokenId>>;
std::size_t TokenListsBytes(std::span<const std::span<const TokenId>> lists);
// REQUIRES: out.size() == TokenListsBytes(lists).
void EncodeTokenLists(std::span<const std::span<const TokenId>> lists, std::span<std::byte> out);
Result<TokenLists> ParseTokenLists(std::span<const std::byte> payload, std::uint32_t vocab_size);

// The payload of kRank: a query and 1 to kRankDocumentsMax documents, each as u32 byte_count and
// the bytes of a text of valid UTF-8, unpadded, at most kRankTextBytesMax bytes.
std::size_t TextsBytes(std::span<const std::string_view> texts);
void EncodeTexts(std::span<const std::string_view> texts, std::span<std::byte> out);
// Returns views into the payload. SplitTexts checks only the counts and lengths, so that its cost
// does not depend on the lengths of the texts; ParseTexts also checks the bytes.
Result<std::vector<std::string_view>> SplitTexts(std::span<const std::byte> payload);
Result<std::vector<std::string_view>> ParseTexts(std::span<const std::byte> payload);

// The texts in the output of kChatTemplates. Names and texts are views into the output.
struct ChatTextView {
  ChatTextKind kind = ChatTextKind::kTemplate;
  std::string_view name;
  std::string_view text;
};
std::size_t ChatTextsBytes(std::span<const ChatTextView> texts);
void EncodeChatTexts(std::span<const ChatTextView> texts, std::span<std::byte> out);
// Errors: kInvalidArgument, which names the record. Texts are any bytes, as in the model's file.
Result<std::vector<ChatTextView>> ParseChatTexts(std::span<const std::byte> output);

// Parses the name of a snapshot or saved state (ValidateName).
Result<std::string> ParseName(std::span<const std::byte> payload);
// Parses a text to tokenize, which is valid UTF-8 and may be empty. ParseText returns a view into
// the payload.
Result<std::string_view> ParseText(std::span<const std::byte> payload);

}  // namespace kvd::wire
