// The daemon's parser of each verb's payload, as its handlers call it. A switch without a default:
// a verb that is added does not compile here before it has its row.
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

inline ParsedPayload BytesOf(const Result<std::string>& text) {
  if (!text) return {std::unexpected(text.error()), {}};
  const auto bytes = std::as_bytes(std::span(*text));
  return {{}, {bytes.begin(), bytes.end()}};
}

inline ParsedPayload BytesOf(const Result<std::string_view>& text) {
  if (!text) return {std::unexpected(text.error()), {}};
  const auto bytes = std::as_bytes(std::span(*text));
  return {{}, {bytes.begin(), bytes.end()}};
}

inline ParsedPayload BytesOf(const Result<std::vector<TokenId>>& tokens) {
  if (!tokens) return {std::unexpected(tokens.error()), {}};
  const auto bytes = std::as_bytes(std::span(*tokens));
  return {{}, {bytes.begin(), bytes.end()}};
}

inline ParsedPayload BytesOf(const Result<std::vector<wire::OwnedChatTurn>>& owned) {
  if (!owned) return {std::unexpected(owned.error()), {}};
  std::vector<wire::ChatTurn> turns;
  for (const wire::OwnedChatTurn& turn : *owned) turns.push_back({turn.role, turn.content});
  ParsedPayload parsed{{}, std::vector<std::byte>(wire::ChatBytes(turns))};
  wire::EncodeChat(turns, parsed.bytes);
  return parsed;
}

inline ParsedPayload BytesOf(const Result<wire::GenerateRequest>& request) {
  if (!request) return {std::unexpected(request.error()), {}};
  const std::vector<std::string_view> stops(request->stops.begin(), request->stops.end());
  const wire::GenerateView view{request->params, request->tokens, request->biases, stops};
  ParsedPayload parsed{{}, std::vector<std::byte>(wire::GenerateBytes(view))};
  wire::EncodeGenerate(view, parsed.bytes);
  return parsed;
}

// Verbs without a parser of their own give the bytes back.
inline ParsedPayload ParsePayload(wire::Verb verb, std::span<const std::byte> payload,
                                  std::uint32_t vocab_size) {
  using wire::Verb;
  switch (verb) {
    case Verb::kGenerate: return BytesOf(wire::ParseGenerate(payload, vocab_size));
    case Verb::kDecode:
    case Verb::kDetokenize:
    case Verb::kEmbed:
    case Verb::kEncode: return BytesOf(wire::ParseTokens(payload, vocab_size));
    case Verb::kChat: return BytesOf(wire::ParseChat(payload));
    case Verb::kTokenize: return BytesOf(wire::ParseText(payload));
    case Verb::kPublish:
    case Verb::kUnpublish:
    case Verb::kAttach:
    case Verb::kSave:
    case Verb::kSaveAll:
    case Verb::kLoad:
    case Verb::kRemoveSaved: return BytesOf(wire::ParseName(payload));
    case Verb::kPing:
    case Verb::kInfo:
    case Verb::kCreate:
    case Verb::kFork:
    case Verb::kDrop:
    case Verb::kCopyRange:
    case Verb::kRemoveRange:
    case Verb::kKeep:
    case Verb::kClear:
    case Verb::kAdd:
    case Verb::kDivide:
    case Verb::kQuery:
    case Verb::kCancel:
    case Verb::kReadTokens:
    case Verb::kReadText:
    case Verb::kList:
    case Verb::kSnapshots:
    case Verb::kDefrag:
    case Verb::kRetain:
    case Verb::kPin:
    case Verb::kDropRetained:
    case Verb::kSaved:
    case Verb::kExportState:
    case Verb::kUploadState:
    case Verb::kImportState:
    case Verb::kCache:
    case Verb::kProfile: break;
  }
  return {{}, {payload.begin(), payload.end()}};
}

}  // namespace kvd::test
