// The verbs of saved states.
#include <cstring>
#include <utility>

#include "client/client.h"

namespace kvd {
namespace {

using wire::Verb;

wire::Submission SaveRequest(Verb verb, SequenceHandle sequence, const SaveOptions& options) {
  wire::Submission submission{};
  submission.verb = static_cast<std::uint16_t>(verb);
  submission.sequence = static_cast<std::uint64_t>(sequence);
  submission.flags = options.replaces ? wire::kFlagForce : 0;
  if (!options.with_logits) submission.argument |= wire::kSaveNoLogits;
  if (options.tokens_only) submission.argument |= wire::kSaveTokensOnly;
  if (!options.is_packed) submission.argument |= wire::kSaveUnpacked;
  if (options.q8_rows) submission.argument |= wire::kSaveQ8Rows;
  return submission;
}

SaveInfo InfoOf(const wire::Completion& completion) {
  return {.file_bytes = static_cast<std::uint64_t>(completion.value0),
          .unpacked_bytes = static_cast<std::uint64_t>(completion.value1),
          .cell_count = static_cast<std::uint64_t>(completion.value2)};
}

std::string NameOf(const char* text, std::size_t bytes_max) {
  return {text, ::strnlen(text, bytes_max)};
}

std::unexpected<Error> BadAnswer(const std::string& what) {
  return Fail(Code::kCorrupt, "answer to load: " + what);
}

}  // namespace

Result<SaveInfo> Client::Save(SequenceHandle sequence, std::string_view name,
                              const SaveOptions& options) const {
  const auto payload = std::as_bytes(std::span(name));
  KVD_TRY(const auto completion, connection_->Call(SaveRequest(Verb::kSave, sequence, options),
                                                   PayloadOf(payload), nullptr));
  return InfoOf(completion);
}

Result<SaveInfo> Client::SaveAll(std::string_view name, const SaveOptions& options) const {
  const auto payload = std::as_bytes(std::span(name));
  KVD_TRY(const auto completion,
          connection_->Call(SaveRequest(Verb::kSaveAll, SequenceHandle::kNone, options),
                            PayloadOf(payload), nullptr));
  return InfoOf(completion);
}

Result<SaveInfo> Client::SaveSize(SequenceHandle sequence, const SaveOptions& options) const {
  wire::Submission submission = SaveRequest(Verb::kSave, sequence, options);
  submission.argument |= wire::kSaveSizeOnly;
  KVD_TRY(const auto completion, connection_->Call(submission, {}, nullptr));
  return InfoOf(completion);
}

Result<std::vector<LoadedSequence>> Client::Load(std::string_view name) const {
  wire::Submission submission{};
  submission.verb = static_cast<std::uint16_t>(Verb::kLoad);
  const auto payload = std::as_bytes(std::span(name));
  std::vector<std::byte> output;
  KVD_TRY(const auto completion, connection_->Call(submission, PayloadOf(payload), &output));
  const auto count = static_cast<std::uint64_t>(completion.value0);
  if (completion.value0 < 0 || count > output.size() / sizeof(wire::LoadedEntry)) {
    return BadAnswer(std::to_string(completion.value0) + " sequences in " +
                     std::to_string(output.size()) + " bytes");
  }
  std::vector<wire::LoadedEntry> entries(count);
  if (count != 0) std::memcpy(entries.data(), output.data(), count * sizeof(wire::LoadedEntry));
  std::span<const std::byte> rest = std::span(output).subspan(count * sizeof(wire::LoadedEntry));
  std::vector<LoadedSequence> loaded;
  for (const wire::LoadedEntry& entry : entries) {
    LoadedSequence sequence{.handle = static_cast<SequenceHandle>(entry.handle),
                            .cell_count = std::uint64_t{entry.cell_count} + entry.token_count,
                            .is_converted = (entry.flags & wire::kLoadedConverted) != 0,
                            .is_computed = entry.token_count != 0,
                            .k_type = NameOf(entry.k_type, sizeof entry.k_type),
                            .v_type = NameOf(entry.v_type, sizeof entry.v_type),
                            .has_sampler = (entry.flags & wire::kLoadedSampler) != 0};
    const std::size_t token_bytes = std::size_t{entry.token_count} * sizeof(TokenId);
    if (token_bytes > rest.size()) return BadAnswer("tokens are missing");
    std::vector<TokenId> tokens(entry.token_count);
    if (token_bytes != 0) std::memcpy(tokens.data(), rest.data(), token_bytes);
    rest = rest.subspan(token_bytes);
    if (!tokens.empty()) {
      KVD_TRY(Decoding decoding,
              StartDecode(sequence.handle, tokens, Pos{0}, wire::LogitsWanted::kNone));
      for (bool has_more = true; has_more;) {
        KVD_TRY(const Logits piece, decoding.Next());
        has_more = piece.has_more();
      }
    }
    loaded.push_back(std::move(sequence));
  }
  return loaded;
}

Result<std::vector<wire::SavedEntry>> Client::Saved() const {
  wire::Submission submission{};
  submission.verb = static_cast<std::uint16_t>(Verb::kSaved);
  std::vector<std::byte> output;
  KVD_TRY([[maybe_unused]] const auto completion, connection_->Call(submission, {}, &output));
  if (output.size() % sizeof(wire::SavedEntry) != 0) {
    return Fail(Code::kCorrupt, "answer to saved: " + std::to_string(output.size()) + " bytes");
  }
  std::vector<wire::SavedEntry> entries(output.size() / sizeof(wire::SavedEntry));
  if (!output.empty()) std::memcpy(entries.data(), output.data(), output.size());
  return entries;
}

Status Client::RemoveSaved(std::string_view name) const {
  wire::Submission submission{};
  submission.verb = static_cast<std::uint16_t>(Verb::kRemoveSaved);
  const auto payload = std::as_bytes(std::span(name));
  KVD_TRY([[maybe_unused]] const auto completion,
          connection_->Call(submission, PayloadOf(payload), nullptr));
  return {};
}

}  // namespace kvd
