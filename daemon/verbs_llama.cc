// State files of llama.cpp over the wire. An export is an answer in pieces; an import is sent in
// pieces, kept here until it is whole, and then read by workers. The daemon opens no file.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "daemon/service.h"
#include "engine/cell_layout.h"
#include "engine/model_config.h"
#include "engine/saved_state/llama_export.h"
#include "engine/saved_state/llama_import.h"
#include "engine/saved_state/llama_sequence.h"
#include "shm/wire_check.h"

namespace kvd {
namespace {

// What an export or an upload of another uid than the daemon's may have; the own one may have as
// much as the pool holds.
constexpr std::uint64_t kOthersBytesMax = 64ull << 20;
// Of a file that is not rows: what it says of itself and of each cell.
constexpr std::uint64_t kHeaderBytesMax = 64ull << 20;
constexpr std::uint64_t kCellBytesMax = 64;
// Of each cell of an export, beside its rows: its token, and its position with its sequences.
constexpr std::uint64_t kCellBytesMin = 12;

// Everything that the pool can hold, in the widest type.
std::uint64_t BytesMax(const Engine& engine, std::uint64_t pool_cells, bool is_own) {
  if (!is_own) return kOthersBytesMax;
  std::uint64_t floats = 0;
  for (const CachePlane& plane : CachePlanesOf(engine.config(), engine.cell_layout())) {
    floats += std::uint64_t{plane.head_count} * plane.dim;
  }
  return kHeaderBytesMax + pool_cells * (floats * sizeof(float) + kCellBytesMax) +
         std::uint64_t{engine.options().state_slots} * engine.state_bytes();
}

Status CheckBytes(const char* what, std::uint64_t bytes, std::uint64_t bytes_max) {
  if (bytes <= bytes_max) return {};
  return Fail(Code::kNoSpace, std::string(what) + ": " + std::to_string(bytes) + " bytes, limit " +
                                  std::to_string(bytes_max));
}

Result<std::optional<kernels::DataType>> TypeFrom(const char* field, std::uint8_t number) {
  if (number == wire::kPoolType) return std::optional<kernels::DataType>{};
  if (kernels::IsDataType(number)) return std::optional(static_cast<kernels::DataType>(number));
  return Fail(Code::kInvalidArgument,
              std::string(field) + ": " + std::to_string(number) + " is no type");
}

Result<LlamaExportOptions> OptionsFrom(const wire::LlamaExportParams& params) {
  if ((params.flags & ~wire::kLlamaExportFlagsAll) != 0) {
    return Fail(Code::kInvalidArgument, "llama_export.flags: " + std::to_string(params.flags) +
                                            ", of which some are not known");
  }
  LlamaExportOptions options;
  options.kind = (params.flags & wire::kLlamaSession) != 0 ? LlamaFileKind::kSession
                                                           : LlamaFileKind::kSequence;
  options.layout = (params.flags & wire::kLlamaLayout2026) != 0 ? LlamaLayout::kAugust2026
                                                                : LlamaLayout::kFebruary2025;
  options.is_v_transposed = (params.flags & wire::kLlamaTransposed) != 0;
  options.is_unrotated = (params.flags & wire::kLlamaExportUnrotated) != 0;
  if (params.streams != 0) options.streams = params.streams;
  KVD_TRY(options.k_type, TypeFrom("llama_export.k_type", params.k_type));
  KVD_TRY(options.v_type, TypeFrom("llama_export.v_type", params.v_type));
  return options;
}

Result<Reply> Export(Engine& engine, std::span<const SequenceHandle> handles,
                     const LlamaExportOptions& options, bool is_size_only, std::uint64_t bytes_max,
                     const std::shared_ptr<HeldAccount>& account, WorkControl& work) {
  KVD_TRY(const auto opened, LlamaExport::Open(engine, handles, options, work));
  KVD_CHECK_OK(CheckBytes("export", opened->bytes(), bytes_max));
  wire::LlamaExportReply reply{.bytes = opened->bytes(), .tokens = opened->token_count()};
  if (is_size_only) return MakeReply(std::move(reply));
  HeldCharge charge(account);
  KVD_CHECK_OK(charge.Grow(opened->bytes()));
  try {
    reply.file.resize(opened->bytes());
  } catch (const std::bad_alloc&) {
    return Fail(Code::kNoSpace,
                "export: no memory for " + std::to_string(opened->bytes()) + " bytes");
  }
  KVD_CHECK_OK(opened->Write(reply.file));
  Reply answer = MakeReply(std::move(reply));
  answer.charge = std::make_shared<const HeldCharge>(std::move(charge));
  return answer;
}

// The sequences wanted of a file. Errors: kInvalidArgument.
Result<std::vector<std::int32_t>> IdsOf(const LlamaSequenceIndex& index, std::int32_t wanted) {
  if (wanted != wire::kLlamaEverySequence) return std::vector<std::int32_t>{wanted};
  std::vector<std::int32_t> ids = index.ids();
  if (ids.empty()) return Fail(Code::kInvalidArgument, "llama.cpp state: no cells");
  return ids;
}

}  // namespace

// Sequences of a session that have cells, oldest first.
std::vector<SequenceHandle> Service::SequencesOf(SessionId session) const {
  std::vector<SequenceInfo> own;
  for (const SequenceInfo& info : memory_.sequences().ListOf(session)) {
    const bool is_private =
        (info.flags & (layout::kSequencePublished | layout::kSequenceRetained)) == 0;
    if (is_private && info.cell_count != 0) own.push_back(info);
  }
  std::ranges::stable_sort(own, {}, &SequenceInfo::created_unix_ms);
  std::vector<SequenceHandle> handles;
  for (const SequenceInfo& info : own) handles.push_back(info.handle);
  return handles;
}

Result<Outcome> Service::Do(const Call<wire::LlamaExportArgs>& call) {
  wire::LlamaExportParams params;
  std::memcpy(&params, call.payload.data(), sizeof params);
  KVD_TRY(const LlamaExportOptions options, OptionsFrom(params));
  const auto named = call.payload.subspan(sizeof params);
  std::vector<SequenceHandle> handles(named.size() / sizeof(SequenceHandle));
  if (!named.empty()) std::memcpy(handles.data(), named.data(), named.size());
  if (handles.empty()) handles = SequencesOf(call.caller.session);
  if (handles.size() > wire::kLlamaHandlesMax) {
    return Fail(Code::kInvalidArgument, "handles: " + std::to_string(handles.size()) +
                                            " sequences, limit " +
                                            std::to_string(wire::kLlamaHandlesMax));
  }
  // Before anything is read: the same handle may be named many times.
  const std::uint64_t bytes_max = LlamaBytesMax(call.caller.uid);
  std::uint64_t cells = 0;
  for (const SequenceHandle handle : handles) {
    KVD_TRY(const SequenceInfo info,
            Find(call, {.name = "handle", .access = wire::Access::kRead}, handle));
    cells += info.cell_count;
  }
  KVD_CHECK_OK(CheckBytes("export", cells * kCellBytesMin, bytes_max));
  return WorkCall{.call = [&engine = engine_, handles = std::move(handles), options, bytes_max,
                           is_size_only = (params.flags & wire::kLlamaSizeOnly) != 0,
                           account = held_.AccountOf(call.caller.uid)](WorkControl& work) {
    return ReplyOf(Export(engine, handles, options, is_size_only, bytes_max, account, work));
  }};
}

std::uint64_t Service::LlamaBytesMax(std::uint32_t uid) const {
  const std::uint64_t pool_cells =
      std::uint64_t{memory_.Usage().total_blocks} * layout::kBlockCells;
  return BytesMax(engine_, pool_cells, quotas_.is_own(uid));
}

Result<wire::LlamaUploadReply> Service::Do(const Call<wire::LlamaUploadArgs>& call) {
  const SessionId session = call.caller.session;
  const std::uint64_t offset = call.args.offset;
  const std::uint64_t piece_bytes = call.payload.size();
  if (offset == 0) uploads_.erase(session);
  const auto known = uploads_.find(session);
  const std::uint64_t held_bytes = known == uploads_.end() ? 0 : known->second.byte_count();
  const bool had_come = offset != 0 && call.is_again() && offset + piece_bytes == held_bytes;
  if (had_come) return wire::LlamaUploadReply{.bytes = held_bytes};
  if (offset != held_bytes) {
    return Fail(Code::kConflict, "llama_upload.offset: " + std::to_string(offset) + ", but " +
                                     std::to_string(held_bytes) + " bytes are here");
  }
  const std::uint64_t bytes = offset + piece_bytes;
  Status kept = CheckBytes("upload", bytes, LlamaBytesMax(call.caller.uid));
  if (kept) {
    LlamaUpload& upload =
        known != uploads_.end()
            ? known->second
            : uploads_.emplace(session, HeldCharge(held_.AccountOf(call.caller.uid))).first->second;
    try {
      kept = upload.Append(call.TakePayload());
    } catch (const std::bad_alloc&) {
      kept = Fail(Code::kNoSpace, "upload: no memory for " + std::to_string(bytes) + " bytes");
    }
  }
  if (!kept) {
    uploads_.erase(session);
    return std::unexpected(kept.error());
  }
  return wire::LlamaUploadReply{.bytes = bytes};
}

Result<Outcome> Service::Do(const Call<wire::LlamaImportArgs>& call) {
  wire::LlamaImportParams params;
  std::memcpy(&params, call.payload.data(), sizeof params);
  if ((params.flags & ~wire::kLlamaImportFlagsAll) != 0 ||
      params.sequence_id < wire::kLlamaEverySequence) {
    return Fail(Code::kInvalidArgument, "llama_import: sequence " +
                                            std::to_string(params.sequence_id) + ", flags " +
                                            std::to_string(params.flags));
  }
  auto known = uploads_.extract(call.caller.session);
  auto upload = std::make_shared<LlamaUpload>();
  if (!known.empty()) *upload = std::move(known.mapped());
  // Also without a file: what an earlier attempt has made goes. That attempt is over by then, as it is
  // work of the same session.
  return WorkCall{.call = [this, session = call.session, owner = OwnerFor(call.caller),
                           applied = call.applied(), params, upload](WorkControl& work) {
    return ReplyOf(ImportUploaded(*session, owner, applied, params, *upload, work));
  }};
}

// In work. A session that is gone by the end takes what was made with it: either it is seen
// here, or its end finds the sequences. An import that is sent again finds no upload: the client
// sends that again too, as it does where the daemon was lost between the two.
Result<wire::LlamaImportReply> Service::ImportUploaded(const Session& session,
                                                       const SequenceOwner& owner,
                                                       const RequestTag& applied,
                                                       const wire::LlamaImportParams& params,
                                                       LlamaUpload& upload, WorkControl& work) {
  for (const SequenceHandle handle :
       memory_.sessions().CreatedBy(applied.session, applied.request)) {
    (void)memory_.sequences().Drop(handle);
  }
  if (upload.byte_count() == 0) {
    return Fail(Code::kConflict, "llama_import: no file was uploaded");
  }
  KVD_TRY(const std::vector<std::byte> bytes, upload.Join(work));
  KVD_TRY(const LlamaStateFile file, ReadLlamaStateFile(bytes, work));
  KVD_TRY(const LlamaSequenceIndex index, LlamaSequenceIndex::Create(file, work));
  KVD_TRY(const std::vector<std::int32_t> ids, IdsOf(index, params.sequence_id));
  wire::LlamaImportReply reply;
  std::vector<SequenceHandle> made;
  RequestTag part = applied;
  part.completes = false;
  const auto import = [&]() -> Status {
    for (const std::int32_t id : ids) {
      KVD_TRY(const SequenceHandle handle, memory_.sequences().Create(owner, part));
      made.push_back(handle);
      const LlamaImportOptions options{
          .sequence_id = id,
          .is_unrotated = (params.flags & wire::kLlamaUnrotated) != 0,
      };
      KVD_TRY(const LlamaImported imported,
              ImportLlamaSequence(engine_, bytes, index, handle, options, work));
      reply.entries.push_back({.handle = static_cast<std::uint64_t>(handle),
                               .cell_count = imported.cell_count,
                               .tokens_left_out = imported.tokens_left_out,
                               .cells_left_out = imported.cells_left_out,
                               .is_converted = imported.is_converted ? 1u : 0u});
      reply.cells += imported.cell_count;
    }
    if (session.closed()) return Fail(Code::kDisconnected, "the session has ended");
    return {};
  };
  if (const Status imported = import(); !imported) {
    for (const SequenceHandle handle : made) (void)memory_.sequences().Drop(handle);
    return std::unexpected(imported.error());
  }
  return reply;
}

}  // namespace kvd
