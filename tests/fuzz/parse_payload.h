// The daemon's parser of each kind of payload, as its handlers call it. A switch without a default:
// a kind that is added does not compile here before it has its case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shm/payload_codec.h"

namespace kvd::test {

// What a parser made of a payload, written back as bytes.
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

inline ParsedPayload Reencoded(const Result<std::vector<wire::OwnedChatTurn>>& owned) {
  if (!owned) return {std::unexpected(owned.error()), {}};
  std::vector<wire::ChatTurn> turns;
  for (const wire::OwnedChatTurn& turn : *owned) turns.push_back({turn.role, turn.content});
  ParsedPayload parsed{{}, std::vector<std::byte>(wire::ChatBytes(turns))};
  wire::EncodeChat(turns, parsed.bytes);
  return parsed;
}

inline ParsedPayload Reencoded(const Result<wire::GenerateRequest>& request) {
  if (!request) return {std::unexpected(request.error()), {}};
  const std::vector<std::string_view> stops(request->stops.begin(), request->stops.end());
  const wire::GenerateView view{request->params, request->tokens, request->biases, stops};
  ParsedPayload parsed{{}, std::vector<std::byte>(wire::GenerateBytes(view))};
  wire::EncodeGenerate(view, parsed.bytes);
  return parsed;
}

// Kinds without a parser of their own give the bytes back.
inline ParsedPayload ParsePayload(wire::PayloadKind kind, std::span<const std::byte> payload,
                                  std::uint32_t vocab_size) {
  using wire::PayloadKind;
  switch (kind) {
    case PayloadKind::kGenerate: return Reencoded(wire::ParseGenerate(payload, vocab_size));
    case PayloadKind::kTokens: return Reencoded(wire::ParseTokens(payload, vocab_size));
    case PayloadKind::kChat: return Reencoded(wire::ParseChat(payload));
    case PayloadKind::kText: return Reencoded(wire::ParseText(payload));
    case PayloadKind::kSnapshotName:
    case PayloadKind::kSavedName: return Reencoded(wire::ParseName(payload));
    case PayloadKind::kNone:
    case PayloadKind::kBytes:
    case PayloadKind::kExportState: break;
  }
  return {{}, {payload.begin(), payload.end()}};
}

}  // namespace kvd::test
