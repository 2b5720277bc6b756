// The functions of Client for state files of llama.cpp. The daemon exports and imports saved states
// (state_layout/state_layout.h); this file converts between saved states and state files, in the
// process of the caller.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/text.h"
#include "client/client.h"
#include "llama_files/llama_export.h"
#include "llama_files/llama_import.h"
#include "llama_files/state_image.h"

namespace kvd {
namespace {

// The largest number of attempts of an import. If the daemon is restarted, the uploaded pieces are
// lost, and the new daemon may have another model, so the whole import is repeated.
constexpr int kImportAttempts = 16;

std::unexpected<Error> BadStateAnswer(const std::string& what) {
  return Fail(Code::kCorrupt, "answer to a state verb: ", what);
}

template <class Body>
auto Repeated(const Body& body) {
  for (int attempt = 1;; ++attempt) {
    auto result = body();
    const bool is_lost = !result && result.error().code == Code::kConflict;
    if (!is_lost || attempt == kImportAttempts) return result;
  }
}

Result<std::optional<kernels::DataType>> TypeFrom(const char* field, std::uint8_t number) {
  if (number == wire::kPoolType) return std::optional<kernels::DataType>{};
  if (kernels::IsDataType(number)) return std::optional(static_cast<kernels::DataType>(number));
  return Fail(Code::kInvalidArgument, field, ": ", number, " is not a type");
}

Result<LlamaExportOptions> OptionsFrom(const LlamaFileOptions& options) {
  LlamaExportOptions wanted{
      .kind = options.is_session ? LlamaFileKind::kSession : LlamaFileKind::kSequence,
      .layout = options.layout == LlamaFileLayout::k2026 ? LlamaLayout::kAugust2026
                                                         : LlamaLayout::kFebruary2025,
      .is_v_transposed = options.is_v_transposed,
      .streams = options.streams,
      .is_unrotated = options.is_unrotated};
  KVD_TRY(wanted.k_type, TypeFrom("k_type", options.k_type));
  KVD_TRY(wanted.v_type, TypeFrom("v_type", options.v_type));
  return wanted;
}

std::vector<std::byte> ExportPayload(const wire::ExportStateParams& params,
                                     std::span<const SequenceHandle> sequences) {
  std::vector<std::byte> payload(sizeof params + sequences.size_bytes());
  std::memcpy(payload.data(), &params, sizeof params);
  if (!sequences.empty()) {
    std::memcpy(payload.data() + sizeof params, sequences.data(), sequences.size_bytes());
  }
  return payload;
}

std::uint8_t NumberOf(std::optional<kernels::DataType> type) {
  return type ? static_cast<std::uint8_t>(*type) : wire::kPoolType;
}

struct GrowingSink final : LlamaSink {
  Status Begin(std::uint64_t file_bytes) override {
    file.clear();
    file.reserve(file_bytes);
    return {};
  }
  Status Write(std::span<const std::byte> bytes) override {
    file.insert(file.end(), bytes.begin(), bytes.end());
    return {};
  }

  std::vector<std::byte> file;
};

// Collects added bytes into pieces and uploads each full piece.
class Upload {
 public:
  Upload(const Client& client, std::size_t piece_bytes) : client_(client) {
    piece_.reserve(piece_bytes);
  }

  Status Add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), piece_.capacity() - piece_.size());
      const auto part = bytes.first(count);
      piece_.insert(piece_.end(), part.begin(), part.end());
      bytes = bytes.subspan(count);
      if (piece_.size() == piece_.capacity()) KVD_CHECK_OK(Send());
    }
    return {};
  }
  Status Send() {
    if (piece_.empty()) return {};
    const std::span<const std::byte> sent(piece_);
    KVD_CHECK_OK(client_.Call(wire::UploadStateArgs{.offset = sent_bytes_}, PayloadOf(sent)));
    sent_bytes_ += piece_.size();
    piece_.clear();
    return {};
  }

 private:
  const Client& client_;
  std::vector<std::byte> piece_;
  std::uint64_t sent_bytes_ = 0;
};

// Returns the properties of the daemon's model that converters need.
Result<StateModel> FetchModel(const Client& client) {
  const std::vector<std::byte> payload = ExportPayload({.flags = wire::kStateModel,
                                                        .k_type = wire::kPoolType,
                                                        .v_type = wire::kPoolType,
                                                        .reserved = 0},
                                                       {});
  const std::span<const std::byte> sent(payload);
  KVD_TRY(const auto reply, client.Call(wire::ExportStateArgs{}, PayloadOf(sent)));
  return ParseStateModel(reply.state);
}

// Asks the daemon to export the sequences as a saved state, or as the outline of a saved state
// (without rows), for a state file with these options.
Result<std::vector<std::byte>> ExportState(const Client& client,
                                           std::span<const SequenceHandle> sequences,
                                           const StateModel& model,
                                           const LlamaExportOptions& options, StateContent parts) {
  const LlamaRowTypes types = RowTypesFor(model, options);
  const bool has_logits =
      options.kind == LlamaFileKind::kSession && options.layout == LlamaLayout::kFebruary2025;
  std::uint32_t flags = wire::kStateNoCheckpoints;
  if (!has_logits) flags |= wire::kStateNoLogits;
  if (parts == StateContent::kOutline) flags |= wire::kStateOutline;
  const std::vector<std::byte> payload = ExportPayload(
      {.flags = flags, .k_type = NumberOf(types.k), .v_type = NumberOf(types.v), .reserved = 0},
      sequences);
  const std::span<const std::byte> sent(payload);
  KVD_TRY(auto reply, client.Call(wire::ExportStateArgs{}, PayloadOf(sent)));
  return std::move(reply.state);
}

// Uploads the saved state of `import`, has the daemon load it, and returns the handles of the
// sequences that the daemon has created. Errors: kConflict (the daemon has lost the uploaded
// bytes).
Result<std::vector<SequenceHandle>> UploadAndImport(const Client& client, LlamaImport& import) {
  Upload upload(client, std::min<std::size_t>(client.connection()->request_arena_bytes() / 4,
                                              wire::kUploadPieceBytesMax));
  KVD_CHECK_OK(upload.Add(import.Head()));
  for (std::size_t number = 0; number < import.section_count(); ++number) {
    KVD_CHECK_OK(upload.Add(import.Section(number)));
  }
  KVD_CHECK_OK(upload.Send());
  KVD_TRY(const auto reply, client.Call(wire::ImportStateArgs{}));
  const std::vector<std::byte>& output = reply.entries;
  const std::size_t wanted = import.sequences().size();
  if (reply.count != static_cast<std::int64_t>(wanted) ||
      output.size() != wanted * sizeof(wire::LoadedEntry)) {
    return BadStateAnswer(Concat(reply.count, " sequences in ", output.size(), " bytes"));
  }
  std::vector<wire::LoadedEntry> entries(wanted);
  std::memcpy(entries.data(), output.data(), output.size());
  std::vector<SequenceHandle> handles;
  for (const wire::LoadedEntry& entry : entries) {
    handles.push_back(static_cast<SequenceHandle>(entry.handle));
  }
  return handles;
}

}  // namespace

Result<std::uint64_t> Client::ExportLlama(std::span<const SequenceHandle> sequences,
                                          const LlamaFileOptions& options, LlamaSink& sink) const {
  KVD_TRY(const LlamaExportOptions wanted, OptionsFrom(options));
  return Repeated([&]() -> Result<std::uint64_t> {
    KVD_TRY(const StateModel model, FetchModel(*this));
    KVD_CHECK_OK(CheckLlamaExport(model, wanted));
    KVD_TRY(const auto state, ExportState(*this, sequences, model, wanted, StateContent::kAll));
    KVD_TRY(const StateImage image, StateImage::Open(model, state, StateContent::kAll));
    KVD_TRY(const auto file, LlamaExport::Open(model, image, wanted));
    KVD_CHECK_OK(file->Write(sink));
    return file->bytes();
  });
}

Result<std::vector<std::byte>> Client::ExportLlama(std::span<const SequenceHandle> sequences,
                                                   const LlamaFileOptions& options) const {
  GrowingSink sink;
  KVD_TRY([[maybe_unused]] const std::uint64_t bytes, ExportLlama(sequences, options, sink));
  return std::move(sink.file);
}

Result<std::uint64_t> Client::LlamaBytes(std::span<const SequenceHandle> sequences,
                                         const LlamaFileOptions& options) const {
  KVD_TRY(const LlamaExportOptions wanted, OptionsFrom(options));
  return Repeated([&]() -> Result<std::uint64_t> {
    KVD_TRY(const StateModel model, FetchModel(*this));
    KVD_CHECK_OK(CheckLlamaExport(model, wanted));
    KVD_TRY(const auto outline,
            ExportState(*this, sequences, model, wanted, StateContent::kOutline));
    KVD_TRY(const StateImage image, StateImage::Open(model, outline, StateContent::kOutline));
    KVD_TRY(const auto file, LlamaExport::Open(model, image, wanted));
    return file->bytes();
  });
}

Result<std::vector<ImportedSequence>> Client::ImportLlama(std::span<const std::byte> file,
                                                          const LlamaReadOptions& options) const {
  if (file.empty()) return Fail(Code::kInvalidArgument, "file: no bytes");
  if (options.sequence_id < LlamaReadOptions::kEverySequence) {
    return Fail(Code::kInvalidArgument, "sequence_id: ", options.sequence_id);
  }
  KVD_TRY(const LlamaStateFile read, ReadLlamaStateFile(file));
  KVD_TRY(const LlamaSequenceIndex index, LlamaSequenceIndex::Create(read));
  LlamaImportOptions wanted{.sequence_id = options.sequence_id,
                            .is_unrotated = options.is_unrotated};
  if (options.sequence_id == LlamaReadOptions::kEverySequence) wanted.sequence_id.reset();
  return Repeated([&]() -> Result<std::vector<ImportedSequence>> {
    KVD_TRY(const StateModel model, FetchModel(*this));
    KVD_TRY(const auto import, LlamaImport::Open(file, index, model, wanted));
    KVD_TRY(const std::vector<SequenceHandle> handles, UploadAndImport(*this, *import));
    std::vector<ImportedSequence> imported;
    for (std::size_t number = 0; number < handles.size(); ++number) {
      const LlamaImported& from = import->sequences()[number];
      imported.push_back({.handle = handles[number],
                          .cell_count = from.cell_count,
                          .tokens_left_out = from.tokens_left_out,
                          .cells_left_out = from.cells_left_out,
                          .is_converted = from.is_converted});
    }
    return imported;
  });
}

}  // namespace kvd
