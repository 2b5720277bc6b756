// Payloads of requests, both ways: the client encodes straight into the arena, the daemon parses
// its private copy.
//
// Parsers read what a peer wrote: each returns an Error (kInvalidArgument) that names the field,
// the number found and the limit. Encoders REQUIRE lists within the limits of wire_messages.h; the
// client runs the validators on its own arguments first, so that a user's mistake is an error too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shm/error.h"
#include "shm/ids.h"
#include "shm/verb_table.h"

namespace kvd::wire {

// Every number of GenerateParams in its range; NaN is in none. List counts within their limits.
Status ValidateGenerateParams(const GenerateParams& params);
// Bias in [-kBiasMax, kBiasMax] or -infinity, token in [0, vocab_size).
Status ValidateLogitBias(const LogitBias& bias, std::uint32_t vocab_size);
// 1..kStopBytesMax bytes of valid UTF-8.
Status ValidateStop(std::string_view stop);

// What kGenerate carries, as views for encoding. Counts in `params` are filled in from the lists.
struct GenerateView {
  GenerateParams params{};
  std::span<const TokenId> tokens;
  std::span<const LogitBias> biases;
  std::span<const std::string_view> stops;
};
std::size_t GenerateBytes(const GenerateView& generate);
// REQUIRES: out.size() == GenerateBytes(generate).
void EncodeGenerate(const GenerateView& generate, std::span<std::byte> out);

// The same, owned, as the daemon keeps it.
struct GenerateRequest {
  GenerateParams params{};
  std::vector<TokenId> tokens;
  std::vector<LogitBias> biases;
  std::vector<std::string> stops;
};
Result<GenerateRequest> ParseGenerate(std::span<const std::byte> payload, std::uint32_t vocab_size);

// i32 tokens[]: at least one, each in [0, vocab_size).
Result<std::vector<TokenId>> ParseTokens(std::span<const std::byte> payload,
                                         std::uint32_t vocab_size);

// ChatMessage records: 1 to kChatMessagesMax; roles are names, contents valid UTF-8.
struct ChatTurn {
  std::string_view role;
  std::string_view content;
};
std::size_t ChatBytes(std::span<const ChatTurn> turns);
void EncodeChat(std::span<const ChatTurn> turns, std::span<std::byte> out);
struct OwnedChatTurn {
  std::string role;
  std::string content;
};
Result<std::vector<OwnedChatTurn>> ParseChat(std::span<const std::byte> payload);
// Whether it has at most kChatMessagesMax records, as far as their lengths say; looks at no more.
Status CheckChatCount(std::span<const std::byte> payload);

// A snapshot's name (ValidateName).
Result<std::string> ParseName(std::span<const std::byte> payload);
// Text to tokenize: valid UTF-8, may be empty. A view into the payload.
Result<std::string_view> ParseText(std::span<const std::byte> payload);

}  // namespace kvd::wire
