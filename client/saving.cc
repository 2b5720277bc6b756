// The functions of Client for saved states.
#include <cstring>
#include <utility>

#include "base/text.h"
#include "client/client.h"

namespace kvd {
namespace {

std::int64_t BitsOf(const SaveOptions& options) {
  std::int64_t bits = 0;
  if (!options.with_logits) bits |= wire::kSaveNoLogits;
  if (options.tokens_only) bits |= wire::kSaveTokensOnly;
  if (!options.is_packed) bits |= wire::kSaveUnpacked;
  if (options.q8_rows) bits |= wire::kSaveQ8Rows;
  return bits;
}

std::uint16_t FlagsOf(const SaveOptions& options) {
  return FlagIf(options.replaces, wire::kFlagForce);
}

SaveInfo InfoOf(const wire::SaveReply& reply) {
  return {.file_bytes = reply.file_bytes,
          .unpacked_bytes = reply.unpacked_bytes,
          .cell_count = reply.cells};
}

std::string NameOf(const char* text, std::size_t bytes_max) {
  return {text, ::strnlen(text, bytes_max)};
}

std::unexpected<Error> BadLoadAnswer(const std::string& what) {
  return Fail(Code::kCorrupt, "answer to load: ", what);
}

}  // namespace

Result<SaveInfo> Client::Save(SequenceHandle sequence, std::string_view name,
                              const SaveOptions& options) const {
  const auto payload = std::as_bytes(std::span(name));
  KVD_TRY(const auto reply, Call(wire::SaveArgs{.sequence = sequence, .bits = BitsOf(options)},
                                 PayloadOf(payload), FlagsOf(options)));
  return InfoOf(reply);
}

Result<SaveInfo> Client::SaveAll(std::string_view name, const SaveOptions& options) const {
  const auto payload = std::as_bytes(std::span(name));
  KVD_TRY(const auto reply,
          Call(wire::SaveAllArgs{.bits = BitsOf(options)}, PayloadOf(payload), FlagsOf(options)));
  return InfoOf(reply);
}

Result<SaveInfo> Client::SaveSize(SequenceHandle sequence, const SaveOptions& options) const {
  KVD_TRY(const auto reply,
          Call(wire::SaveArgs{.sequence = sequence, .bits = BitsOf(options) | wire::kSaveSizeOnly},
               {}, FlagsOf(options)));
  return InfoOf(reply);
}

Result<LoadedFile> ReadLoaded(const wire::LoadReply& reply) {
  const std::vector<std::byte>& output = reply.entries;
  const auto count = static_cast<std::uint64_t>(reply.count);
  if (reply.count < 0 || count > output.size() / sizeof(wire::LoadedEntry)) {
    return BadLoadAnswer(Concat(reply.count, " sequences in ", output.size(), " bytes"));
  }
  std::vector<wire::LoadedEntry> entries(count);
  if (count != 0) std::memcpy(entries.data(), output.data(), count * sizeof(wire::LoadedEntry));
  std::span<const std::byte> rest = std::span(output).subspan(count * sizeof(wire::LoadedEntry));
  LoadedFile loaded;
  for (const wire::LoadedEntry& entry : entries) {
    LoadedSequence sequence{.handle = static_cast<SequenceHandle>(entry.handle),
                            .cell_count = std::uint64_t{entry.cell_count} + entry.token_count,
                            .is_converted = (entry.flags & wire::kLoadedConverted) != 0,
                            .is_computed = entry.token_count != 0,
                            .k_type = NameOf(entry.k_type, sizeof entry.k_type),
                            .v_type = NameOf(entry.v_type, sizeof entry.v_type),
                            .has_sampler = (entry.flags & wire::kLoadedSampler) != 0};
    const std::size_t token_bytes = std::size_t{entry.token_count} * sizeof(TokenId);
    if (token_bytes > rest.size()) return BadLoadAnswer("tokens are missing");
    std::vector<TokenId> tokens(entry.token_count);
    if (token_bytes != 0) std::memcpy(tokens.data(), rest.data(), token_bytes);
    rest = rest.subspan(token_bytes);
    loaded.sequences.push_back(std::move(sequence));
    loaded.tokens.push_back(std::move(tokens));
  }
  return loaded;
}

Result<std::vector<LoadedSequence>> Client::Load(std::string_view name) const {
  const auto payload = std::as_bytes(std::span(name));
  KVD_TRY(const auto reply, Call(wire::LoadArgs{}, PayloadOf(payload)));
  KVD_TRY(LoadedFile loaded, ReadLoaded(reply));
  for (std::size_t i = 0; i < loaded.sequences.size(); ++i) {
    if (loaded.tokens[i].empty()) continue;
    KVD_TRY(Decoding decoding, StartDecode(loaded.sequences[i].handle, loaded.tokens[i], Pos{0},
                                           wire::LogitsWanted::kNone));
    for (bool has_more = true; has_more;) {
      KVD_TRY(const Logits piece, decoding.Next());
      has_more = piece.has_more();
    }
  }
  return std::move(loaded.sequences);
}

Result<std::vector<wire::SavedEntry>> Client::Saved() const {
  KVD_TRY(auto reply, Call(wire::SavedArgs{}));
  return std::move(reply.entries);
}

Status Client::RemoveSaved(std::string_view name) const {
  const auto payload = std::as_bytes(std::span(name));
  return CallForNothing(wire::RemoveSavedArgs{}, PayloadOf(payload));
}

}  // namespace kvd
