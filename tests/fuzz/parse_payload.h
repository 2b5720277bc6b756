// Calls the daemon's parser for each kind of payload, as the daemon's handlers do. The switch has
// no default case, so that a new kind of payload does not compile until this switch has a case for
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shm/payload_codec.h"

namespace kvd::test {

// The result of a parser: its status, and the parsed payload encoded again.
struct ParsedPayload {
  Status status;
  std::vector<std::byte> bytes;
};

inline ParsedPayload Reencoded(const Result<std::string>& text) {
  if (!text) return {std::unexpected(text.error()), {}};
  const auto bytes = std::as_bytes(std::span(*text));
  return {{}, {bytes.begin(), bytes.end()}};
}

inline ParsedPayload Reencoded(const Result<std::string_view>& text) {
  if (!text) return {std::unexpected(text.error()), {}};
  const auto bytes = std::as_bytes(std::span(*text));
  return {{}, {bytes.begin(), bytes.end()}};
}

inline ParsedPayload Reencoded(const Result<std::vector<TokenId>>& tokens) {
  if (!tokens) return {std::unexpected(tokens.error()), {}};
  const auto bytes = std::as_bytes(std::span(*tokens));
  return {{}, {bytes.begin(), bytes.end()}};
}

inline ParsedPayload Reencoded(const Result<wire::GenerateRequest>& request) {
  if (!request) return {std::unexpected(request.error()), {}};
  const std::vector<std::string_view> stops(request->stops.begin(), request->stops.end());
  const std::vector<std::string_view> breakers(request->breakers.begin(), request->breakers.end());
  std::vector<wire::TriggerView> triggers;
  for (const auto& trigger : request->triggers) triggers.push_back({trigger.token, trigger.text});
  const wire::GenerateView view{request->params, request->tokens, request->biases, stops,
                                breakers,        triggers,        request->grammar};
  ParsedPayload parsed{{}, std::vector<std::byte>(wire::GenerateBytes(view))};
  wire::EncodeGenerate(view, parsed.bytes);
  return parsed;
}

inline ParsedPayload Reencoded(const Result<wire::TokenLists>& lists) {
  if (!lists) return {std::unexpected(lists.error()), {}};
  const std::vector<std::span<const TokenId>> views(lists->begin(), lists->end());
  ParsedPayload parsed{{}, std::vector<std::byte>(wire::TokenListsBytes(views))};
  wire::EncodeTokenLists(views, parsed.bytes);
  return parsed;
}

inline ParsedPayload Reencoded(const Result<std::vector<std::string_view>>& texts) {
  if (!texts) return {std::unexpected(texts.error()), {}};
  ParsedPayload parsed{{}, std::vector<std::byte>(wire::TextsBytes(*texts))};
  wire::EncodeTexts(*texts, parsed.bytes);
  return parsed;
}

// Parses and encodes the payload. Payloads of kinds without a parser are returned unchanged.
inline ParsedPayload ParsePayload(wire::PayloadKind kind, std::span<const std::byte> payload,
                                  std::uint32_t vocab_size) {
  using wire::PayloadKind;
  switch (kind) {
    case PayloadKind::kGenerate: return Reencoded(wire::ParseGenerate(payload, vocab_size));
    case PayloadKind::kTokens: return Reencoded(wire::ParseTokens(payload, vocab_size));
    case PayloadKind::kText: return Reencoded(wire::ParseText(payload));
    case PayloadKind::kTokenLists: return Reencoded(wire::ParseTokenLists(payload, vocab_size));
    case PayloadKind::kTexts: return Reencoded(wire::ParseTexts(payload));
    case PayloadKind::kSnapshotName:
    case PayloadKind::kSavedName: return Reencoded(wire::ParseName(payload));
    case PayloadKind::kNone:
    case PayloadKind::kBytes:
    case PayloadKind::kExportState: break;
  }
  return {{}, {payload.begin(), payload.end()}};
}

}  // namespace kvd::test
