// Saved states over the wire. An export is an answer in pieces; an import is sent in pieces, kept
// here until it is whole, and then loaded by workers as a file of --store is. The daemon opens no
// file, and other forms are the client's to convert from and to.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "daemon/load_states.h"
#include "daemon/service.h"
#include "engine/cell_layout.h"
#include "engine/model_config.h"
#include "engine/saved_state/describe_model.h"
#include "engine/saved_state/save_sequences.h"
#include "shm/wire_check.h"

namespace kvd {
namespace {

// What an export or an upload of another uid than the daemon's may have; the own one may have as
// much as the pool holds.
constexpr std::uint64_t kOthersBytesMax = 64ull << 20;
// Of a state that is not rows: what it says of itself and of each cell.
constexpr std::uint64_t kHeaderBytesMax = 64ull << 20;
constexpr std::uint64_t kCellBytesMax = 64;
// Of each cell of an export, beside its rows: its token and its position.
constexpr std::uint64_t kCellBytesMin = 8;

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

struct ExportWanted {
  SaveProfile profile;
  StateParts parts = StateParts::kAll;
};

Result<ExportWanted> WantedFrom(const wire::ExportStateParams& params) {
  if ((params.flags & ~wire::kExportStateFlagsAll) != 0) {
    return Fail(Code::kInvalidArgument, "export_state.flags: " + std::to_string(params.flags) +
                                            ", of which some are not known");
  }
  if (params.reserved != 0) {
    return Fail(Code::kInvalidArgument,
                "export_state.reserved: " + std::to_string(params.reserved) + ", not 0");
  }
  ExportWanted wanted;
  wanted.profile = {.with_logits = (params.flags & wire::kStateNoLogits) == 0,
                    .packed = false,
                    .with_checkpoints = (params.flags & wire::kStateNoCheckpoints) == 0};
  KVD_TRY(wanted.profile.k_type, TypeFrom("export_state.k_type", params.k_type));
  KVD_TRY(wanted.profile.v_type, TypeFrom("export_state.v_type", params.v_type));
  if ((params.flags & wire::kStateOutline) != 0) wanted.parts = StateParts::kOutline;
  return wanted;
}

Result<Reply> Export(Engine& engine, std::span<const SequenceHandle> handles,
                     const ExportWanted& wanted, std::uint64_t bytes_max,
                     const std::shared_ptr<OwnerAccount>& account, WorkControl& work) {
  std::vector<SequenceExport> exports;
  exports.reserve(handles.size());
  for (const SequenceHandle handle : handles) {
    KVD_CHECK_OK(work.Continue());
    KVD_TRY(SequenceExport opened, SequenceExport::Open(engine, handle));
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
    return Fail(Code::kNoSpace, "export: no memory for " + std::to_string(bytes) + " bytes");
  }
  KVD_CHECK_OK(WriteState(engine, items, wanted.profile, std::move(sections), wanted.parts,
                          reply.state, work));
  Reply answer = MakeReply(std::move(reply));
  answer.share = std::make_shared<const Share>(std::move(share));
  return answer;
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

Result<Outcome> Service::Do(const Call<wire::ExportStateArgs>& call) {
  wire::ExportStateParams params;
  std::memcpy(&params, call.payload.data(), sizeof params);
  KVD_TRY(const ExportWanted wanted, WantedFrom(params));
  const auto named = call.payload.subspan(sizeof params);
  std::vector<SequenceHandle> handles(named.size() / sizeof(SequenceHandle));
  if (!named.empty()) std::memcpy(handles.data(), named.data(), named.size());
  if ((params.flags & wire::kStateModel) != 0) {
    if (!handles.empty()) {
      return Fail(Code::kInvalidArgument,
                  "export_state.handles: " + std::to_string(handles.size()) +
                      " sequences, and of the model alone");
    }
    return MakeReply(wire::ExportStateReply{.state = EncodeStateModel(DescribeModel(engine_))});
  }
  if (handles.empty()) handles = SequencesOf(call.caller.session);
  if (handles.empty()) {
    return Fail(Code::kInvalidArgument, "export_state.handles: no sequences");
  }
  if (handles.size() > wire::kStateHandlesMax) {
    return Fail(Code::kInvalidArgument, "export_state.handles: " + std::to_string(handles.size()) +
                                            " sequences, limit " +
                                            std::to_string(wire::kStateHandlesMax));
  }
  // Before anything is read: the same handle may be named many times.
  const std::uint64_t bytes_max = StateBytesMax(call.caller.uid);
  std::uint64_t cells = 0;
  for (const SequenceHandle handle : handles) {
    KVD_TRY(const SequenceInfo info,
            Find(call, {.name = "handle", .access = wire::Access::kRead}, handle));
    cells += info.cell_count;
  }
  KVD_CHECK_OK(CheckBytes("export", cells * kCellBytesMin, bytes_max));
  return WorkCall{.call = [&engine = engine_, handles = std::move(handles), wanted, bytes_max,
                           account = call.session->account()](WorkControl& work) {
    return ReplyOf(Export(engine, handles, wanted, bytes_max, account, work));
  }};
}

std::uint64_t Service::StateBytesMax(std::uint32_t uid) const {
  const std::uint64_t pool_cells =
      std::uint64_t{memory_.Usage().total_blocks} * layout::kBlockCells;
  return BytesMax(engine_, pool_cells, shares_.is_own(OwnerOf(uid)));
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
    return Fail(Code::kConflict, "upload_state.offset: " + std::to_string(offset) + ", but " +
                                     std::to_string(held_bytes) + " bytes are here");
  }
  const std::uint64_t bytes = offset + piece_bytes;
  Status kept = CheckBytes("upload", bytes, StateBytesMax(call.caller.uid));
  if (kept) {
    StateUpload& upload =
        known != uploads_.end()
            ? known->second
            : uploads_.emplace(session, Share(call.session->account(), Resource::kHeldBytes))
                  .first->second;
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
  return wire::UploadStateReply{.bytes = bytes};
}

Result<Outcome> Service::Do(const Call<wire::ImportStateArgs>& call) {
  auto known = uploads_.extract(call.caller.session);
  auto upload = std::make_shared<StateUpload>();
  if (!known.empty()) *upload = std::move(known.mapped());
  // Also without a state: what an earlier attempt has made goes. That attempt is over by then, as
  // it is work of the same session.
  return WorkCall{.call = [this, session = call.session, owner = OwnerFor(call.caller),
                           applied = call.applied(), upload](WorkControl& work) {
    return ReplyOf(ImportUploaded(*session, owner, applied, *upload, work));
  }};
}

// In work. A session that is gone by the end takes what was made with it: either it is seen
// here, or its end finds the sequences. An import that is sent again finds no upload: the client
// sends that again too, as it does where the daemon was lost between the two.
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
