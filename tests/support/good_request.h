// Makes a valid request for any row of the verb table. The request is derived from the row, so that
// tests cover a new verb without a change of this file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shm/payload_codec.h"
#include "shm/verb_table.h"

namespace kvd::test {

// The objects that the arguments of a request name. Tests of validators and parsers use the
// defaults.
struct Named {
  SequenceHandle sequence = MakeHandle(3, 1);
  SequenceHandle sequence2 = MakeHandle(4, 1);
  std::int32_t next_pos = 3;  // next position of `sequence`
  std::string name = "notebook";
  std::vector<TokenId> tokens = {1, 2, 3};
  std::vector<std::byte> bytes = std::vector<std::byte>(8, std::byte{7});
};

struct GoodRequest {
  wire::Submission submission{};
  std::vector<std::byte> payload;
};

template <class T>
std::vector<std::byte> BytesOf(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}
inline std::vector<std::byte> BytesOf(std::string_view text) { return BytesOf(std::span(text)); }

inline std::vector<std::byte> GoodPayload(const wire::PayloadRule& rule, const Named& named) {
  using wire::PayloadKind;
  switch (rule.kind) {
    case PayloadKind::kNone: return {};
    case PayloadKind::kBytes: return named.bytes;
    case PayloadKind::kSnapshotName:
    case PayloadKind::kSavedName: return BytesOf(named.name);
    case PayloadKind::kText: return BytesOf("Where is the kite? \u00e9");
    case PayloadKind::kTokens: return BytesOf(std::span<const TokenId>(named.tokens));
    case PayloadKind::kTokenLists: {
      const std::span<const TokenId> lists[] = {named.tokens, named.tokens};
      std::vector<std::byte> bytes(wire::TokenListsBytes(lists));
      wire::EncodeTokenLists(lists, bytes);
      return bytes;
    }
    case PayloadKind::kTexts: {
      constexpr std::string_view kTexts[] = {"Where is the kite?", "The kite is red. \u00e9", ""};
      std::vector<std::byte> bytes(wire::TextsBytes(kTexts));
      wire::EncodeTexts(kTexts, bytes);
      return bytes;
    }
    case PayloadKind::kGenerate: {
      wire::GenerateView view;
      view.params.predict_max = 1;
      view.params.sampling = DefaultSamplingAt(0);
      view.tokens = named.tokens;
      std::vector<std::byte> bytes(wire::GenerateBytes(view));
      wire::EncodeGenerate(view, bytes);
      return bytes;
    }
    case PayloadKind::kExportState: {
      const wire::ExportStateParams params{
          .flags = 0, .k_type = wire::kPoolType, .v_type = wire::kPoolType, .reserved = 0};
      std::vector<std::byte> bytes = BytesOf(std::span(&params, 1));
      const auto handle = BytesOf(std::span(&named.sequence, 1));
      bytes.insert(bytes.end(), handle.begin(), handle.end());
      return bytes;
    }
  }
  return {};
}

inline GoodRequest MakeGoodRequest(const wire::VerbRow& row, const Named& named = {}) {
  GoodRequest request;
  wire::Submission& submission = request.submission;
  submission.verb = static_cast<std::uint16_t>(row.verb);
  for (std::size_t i = 0; i < wire::kArgumentSlots; ++i) {
    const auto slot = static_cast<wire::ArgumentSlot>(i);
    const wire::SlotRule& rule = row.slot(slot);
    switch (rule.kind) {
      case wire::SlotKind::kUnused:
      case wire::SlotKind::kRangeBegin: break;
      case wire::SlotKind::kRangeEnd: wire::SetSlot(&submission, slot, -1); break;
      case wire::SlotKind::kHandle:
        wire::SetSlot(
            &submission, slot,
            static_cast<std::int64_t>(slot == wire::ArgumentSlot::kSequence ? named.sequence
                                                                            : named.sequence2));
        break;
      case wire::SlotKind::kNumber:
        // A number in p0 is a count of cells. The number of cells in p0 is 0, because the sequence
        // may have no cells.
        wire::SetSlot(
            &submission, slot,
            std::clamp<std::int64_t>(slot == wire::ArgumentSlot::kP0 ? 0 : 1, rule.min, rule.max));
        break;
      case wire::SlotKind::kPosition: wire::SetSlot(&submission, slot, named.next_pos); break;
    }
  }
  request.payload = GoodPayload(row.payload, named);
  submission.payload_bytes = static_cast<std::uint32_t>(request.payload.size());
  return request;
}

}  // namespace kvd::test
