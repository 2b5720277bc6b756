// The handlers of the verbs on saved states: files of the store, exports and imports.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "daemon/stores/load_states.h"
#include "daemon/stores/saved_states.h"
#include "daemon/verbs/service.h"
#include "engine/memory/geometry.h"
#include "engine/model/model_config.h"
#include "engine/saved_state/describe_model.h"
#include "engine/saved_state/save_sequences.h"
#include "shm/payload_codec.h"
#include "shm/wire_check.h"

namespace kvd {

// The handlers of the verbs on saved states. The handlers check which sequences the caller may save
// and determine the owner of loaded sequences; SavedStates reads and writes the files on workers.

namespace {

SaveProfile ProfileOf(std::int64_t bits) {
  SaveProfile profile{.with_logits = (bits & wire::kSaveNoLogits) == 0,
                      .tokens_only = (bits & wire::kSaveTokensOnly) != 0,
                      .packed = (bits & wire::kSaveUnpacked) == 0};
  if ((bits & wire::kSaveQ8Rows) != 0) profile.k_type = profile.v_type = kernels::DataType::kQ8_0;
  return profile;
}

}  // namespace

Result<SavedStates*> Service::FindStore() const {
  if (surroundings_.saved_states != nullptr) return surroundings_.saved_states;
  return Fail(Code::kUnsupported,
              "this daemon was started without --store, so it cannot save or load states");
}

FileAttempt Service::AttemptOf(const VerbRequest& request) {
  return {.applied = request.applied(), .is_again = request.is_again()};
}

Result<Outcome> Service::SaveSequences(const VerbRequest& request, std::int64_t bits,
                                       Result<std::vector<SequenceHandle>> sequences) {
  if (!sequences && !request.is_again()) return std::unexpected(sequences.error());
  KVD_TRY(SavedStates* const store, FindStore());
  SavedStates::SaveCall call{.attempt = AttemptOf(request),
                             .owner = request.caller.owner,
                             .account = request.session->account(),
                             .sequences = {},
                             .readable = {},
                             .profile = ProfileOf(bits),
                             .name = {},
                             .replace = request.has(wire::kFlagForce),
                             .samplers = &samplers_};
  if (sequences) {
    call.sequences = std::move(*sequences);
  } else {
    call.readable = std::unexpected(sequences.error());
  }
  if ((bits & wire::kSaveSizeOnly) == 0) {
    KVD_TRY(call.name, wire::ParseName(request.payload));
  }
  return WorkCall{.call = [store, call = std::move(call)](WorkControl& work) {
    return ReplyOf(store->Save(call, work));
  }};
}

Result<Outcome> Service::Do(const Call<wire::SaveArgs>& call) {
  if (!call.found) return SaveSequences(call, call.args.bits, std::unexpected(call.found.error()));
  return SaveSequences(call, call.args.bits, std::vector{call.args.sequence});
}

Result<Outcome> Service::Do(const Call<wire::SaveAllArgs>& call) {
  std::vector<SequenceHandle> sequences;
  for (const SequenceInfo& info : memory_.sequences().ListOf(call.caller.session)) {
    const bool is_published = (info.flags & layout::kSequencePublished) != 0;
    if (!is_published) sequences.push_back(info.handle);
  }
  if (!sequences.empty()) return SaveSequences(call, call.args.bits, std::move(sequences));
  return SaveSequences(call, call.args.bits,
                       Fail(Code::kNotFound, "this session has no sequences to save"));
}

Result<Outcome> Service::Do(const Call<wire::LoadArgs>& call) {
  KVD_TRY(SavedStates* const store, FindStore());
  KVD_TRY(std::string name, wire::ParseName(call.payload));
  // If the session ends during the load, the daemon releases the loaded sequences.
  return WorkCall{.call =
                      [this, store, owner = OwnerFor(call.caller), name = std::move(name),
                       attempt = AttemptOf(call)](WorkControl& work) {
                        return ReplyOf(store->Load(owner, name, &samplers_, attempt, work));
                      },
                  .abandoned = [this, session = call.caller.session] { Abandoned(session); }};
}

Result<Outcome> Service::Do(const Call<wire::SavedArgs>& call) {
  KVD_TRY(SavedStates* const store, FindStore());
  return WorkCall{.call = [store, owner = call.caller.owner](WorkControl& work) {
    return ReplyOf(store->List(owner, work));
  }};
}

Result<Outcome> Service::Do(const Call<wire::RemoveSavedArgs>& call) {
  KVD_TRY(SavedStates* const store, FindStore());
  KVD_TRY(std::string name, wire::ParseName(call.payload));
  return WorkCall{.call = [store, owner = call.caller.owner, name = std::move(name),
                           attempt = AttemptOf(call)](WorkControl&) {
    return ReplyOf(store->Remove(owner, name, attempt));
  }};
}

// Exports and imports saved states over the connection. The answer of kExportState is sent in
// pieces. A client uploads a state in pieces. Service keeps the pieces until the client sends
// kImportState; then worker threads load the state as they load a file in the --store directory.
// The daemon opens no file for the verbs kExportState, kUploadState and kImportState. Clients, not
// the daemon, convert files of other formats.

namespace {

// The largest export or upload of an owner other than the daemon's own uid, in bytes. The limit of
// the daemon's own uid is the size of a state with all cells of the pool.
constexpr std::uint64_t kOthersBytesMax = 64ull << 20;
// Upper bounds of the bytes of a state that are not rows: kHeaderBytesMax per state and
// kCellBytesMax per cell.
constexpr std::uint64_t kHeaderBytesMax = 64ull << 20;
constexpr std::uint64_t kCellBytesMax = 64;
// The bytes of a cell in an export in addition to its rows: its token and its position.
constexpr std::uint64_t kCellBytesMin = 8;

// Returns the size of a state with all cells of the pool, stored as 32-bit floats.
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
  return Fail(Code::kNoSpace, what, ": ", bytes, " bytes, limit ", bytes_max);
}

Result<std::optional<kernels::DataType>> TypeFrom(const char* field, std::uint8_t number) {
  if (number == wire::kPoolType) return std::optional<kernels::DataType>{};
  if (kernels::IsDataType(number)) return std::optional(static_cast<kernels::DataType>(number));
  return Fail(Code::kInvalidArgument, field, ": ", number, " is not a data type");
}

struct ExportWanted {
  SaveProfile profile;
  StateContent parts = StateContent::kAll;
};

Result<ExportWanted> WantedFrom(const wire::ExportStateParams& params) {
  if ((params.flags & ~wire::kExportStateFlagsAll) != 0) {
    return Fail(Code::kInvalidArgument, "export_state.flags: ", params.flags,
                ", some of them unknown");
  }
  if (params.reserved != 0) {
    return Fail(Code::kInvalidArgument, "export_state.reserved: ", params.reserved, ", not 0");
  }
  ExportWanted wanted;
  wanted.profile = {.with_logits = (params.flags & wire::kStateNoLogits) == 0,
                    .packed = false,
                    .with_checkpoints = (params.flags & wire::kStateNoCheckpoints) == 0};
  KVD_TRY(wanted.profile.k_type, TypeFrom("export_state.k_type", params.k_type));
  KVD_TRY(wanted.profile.v_type, TypeFrom("export_state.v_type", params.v_type));
  if ((params.flags & wire::kStateOutline) != 0) wanted.parts = StateContent::kOutline;
  return wanted;
}

Result<WireReply> Export(Engine& engine, std::span<const SequenceHandle> handles, OwnerId reader,
                         const ExportWanted& wanted, std::uint64_t bytes_max,
                         const std::shared_ptr<OwnerAccount>& account, WorkControl& work) {
  std::vector<SequenceExport> exports;
  exports.reserve(handles.size());
  for (const SequenceHandle handle : handles) {
    KVD_CHECK_OK(work.Continue());
    KVD_TRY(SequenceExport opened, SequenceExport::Open(engine, handle, reader));
    exports.push_back(std::move(opened));
  }
  std::vector<SaveItem> items;
  for (const SequenceExport& opened : exports) items.push_back({.sequence = &opened});
  KVD_TRY(std::vector<state_file::SectionEntry> sections, PlanSections(items, wanted.profile));
  wire::ExportStateReply reply{.whole_bytes = UnpackedFileBytes(sections)};
  const std::uint64_t bytes = StateBytes(sections, wanted.parts);
  KVD_CHECK_OK(CheckBytes("export", bytes, bytes_max));
  Share share(account, Resource::kHeldBytes);
  KVD_CHECK_OK(share.Grow(bytes));
  try {
    reply.state.resize(bytes);
  } catch (const std::bad_alloc&) {
    return Fail(Code::kNoSpace, "export: no memory for ", bytes, " bytes");
  }
  KVD_CHECK_OK(WriteState(engine, items, wanted.profile, std::move(sections), wanted.parts,
                          reply.state, work));
  WireReply answer = MakeReply(std::move(reply));
  answer.share = std::make_shared<const Share>(std::move(share));
  return answer;
}

}  // namespace

// Returns the private sequences of a session that have cells, oldest first.
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

Result<Outcome> Service::Do(const Call<wire::ExportStateArgs>& call) {
  wire::ExportStateParams params;
  std::memcpy(&params, call.payload.data(), sizeof params);
  KVD_TRY(const ExportWanted wanted, WantedFrom(params));
  const auto named = call.payload.subspan(sizeof params);
  std::vector<SequenceHandle> handles(named.size() / sizeof(SequenceHandle));
  if (!named.empty()) std::memcpy(handles.data(), named.data(), named.size());
  if ((params.flags & wire::kStateModel) != 0) {
    if (!handles.empty()) {
      return Fail(Code::kInvalidArgument, "export_state.handles: ", handles.size(),
                  " sequences, but the model flag allows none");
    }
    return MakeReply(wire::ExportStateReply{.state = EncodeStateModel(DescribeModel(engine_))});
  }
  if (handles.empty()) handles = SequencesOf(call.caller.session);
  if (handles.empty()) {
    return Fail(Code::kInvalidArgument, "export_state.handles: no sequences");
  }
  if (handles.size() > wire::kStateHandlesMax) {
    return Fail(Code::kInvalidArgument, "export_state.handles: ", handles.size(),
                " sequences, limit ", wire::kStateHandlesMax);
  }
  // The size of the export is checked before any state is read, because a request may name the same
  // handle many times.
  const std::uint64_t bytes_max = StateBytesMax(call.caller.owner);
  std::uint64_t cells = 0;
  for (const SequenceHandle handle : handles) {
    KVD_TRY(const SequenceInfo info,
            Find(call, {.name = "handle", .access = wire::Access::kRead}, handle));
    cells += info.cell_count;
  }
  KVD_CHECK_OK(CheckBytes("export", cells * kCellBytesMin, bytes_max));
  return WorkCall{.call = [&engine = engine_, handles = std::move(handles), wanted, bytes_max,
                           reader = call.caller.owner,
                           account = call.session->account()](WorkControl& work) {
    return ReplyOf(Export(engine, handles, reader, wanted, bytes_max, account, work));
  }};
}

std::uint64_t Service::StateBytesMax(OwnerId owner) const {
  const std::uint64_t pool_cells =
      std::uint64_t{memory_.Usage().total_blocks} * layout::kBlockCells;
  return BytesMax(engine_, pool_cells, shares_.is_own(owner));
}

Result<wire::UploadStateReply> Service::Do(const Call<wire::UploadStateArgs>& call) {
  const SessionId session = call.caller.session;
  const std::uint64_t offset = call.args.offset;
  const std::uint64_t piece_bytes = call.payload.size();
  if (offset == 0) uploads_.erase(session);
  const auto known = uploads_.find(session);
  const std::uint64_t held_bytes = known == uploads_.end() ? 0 : known->second.byte_count();
  const bool had_come = offset != 0 && call.is_again() && offset + piece_bytes == held_bytes;
  if (had_come) return wire::UploadStateReply{.bytes = held_bytes};
  if (offset != held_bytes) {
    return Fail(Code::kConflict, "upload_state.offset: ", offset, ", but ", held_bytes,
                " bytes were received");
  }
  const std::uint64_t bytes = offset + piece_bytes;
  Status kept = CheckBytes("upload", bytes, StateBytesMax(call.caller.owner));
  if (kept) {
    StateUpload& upload =
        known != uploads_.end()
            ? known->second
            : uploads_.emplace(session, Share(call.session->account(), Resource::kHeldBytes))
                  .first->second;
    try {
      kept = upload.Append(call.TakePayload());
    } catch (const std::bad_alloc&) {
      kept = Fail(Code::kNoSpace, "upload: no memory for ", bytes, " bytes");
    }
  }
  if (!kept) {
    uploads_.erase(session);
    return std::unexpected(kept.error());
  }
  return wire::UploadStateReply{.bytes = bytes};
}

Result<Outcome> Service::Do(const Call<wire::ImportStateArgs>& call) {
  auto known = uploads_.extract(call.caller.session);
  auto upload = std::make_shared<StateUpload>();
  if (!known.empty()) *upload = std::move(known.mapped());
  // The import's call is queued even without an uploaded state, because the call also drops the
  // sequences that an earlier attempt has created. An earlier attempt of the import has ended when
  // the call runs, because workers run the calls of a session in order.
  return WorkCall{.call = [this, session = call.session, owner = OwnerFor(call.caller),
                           applied = call.applied(), upload](WorkControl& work) {
    return ReplyOf(ImportUploaded(*session, owner, applied, *upload, work));
  }};
}

// ImportUploaded runs on a worker. If the session ends before the import is complete, the loaded
// sequences are removed: either `complete` finds the session closed, or the end of the session
// releases the sequences. A retry of an import finds no upload, because the earlier attempt has
// taken the upload. A client whose retried import finds no upload must upload the state again; the
// same is true if the daemon was lost between upload and import.
Result<wire::LoadReply> Service::ImportUploaded(const Session& session, const SequenceOwner& owner,
                                                const RequestTag& applied, StateUpload& upload,
                                                WorkControl& work) {
  for (const SequenceHandle handle :
       memory_.sessions().CreatedBy(applied.session, applied.request)) {
    (void)memory_.sequences().Drop(handle);
  }
  if (upload.byte_count() == 0) {
    return Fail(Code::kConflict, "import_state: no state was uploaded");
  }
  KVD_TRY(const std::vector<std::byte> bytes, upload.Join(work));
  KVD_TRY(const StateFileReader file, StateFileReader::FromBytes(bytes, work));
  RequestTag part = applied;
  part.completes = false;
  const auto complete = [&]() -> Status {
    if (session.closed()) return Fail(Code::kDisconnected, "the session has ended");
    return {};
  };
  return LoadStates({.engine = engine_,
                     .samplers = &samplers_,
                     .owner = owner,
                     .part = part,
                     .origin = StateOrigin::kClient,
                     .complete = complete},
                    file, work);
}

}  // namespace kvd
