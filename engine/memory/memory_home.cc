// The earlier state is examined in this order: first what makes it unusable whatever the options
// are, then what the options exclude, then its size.
#include "engine/memory/memory_home.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "engine/memory/commit_log.h"
#include "engine/memory/resize.h"
#include "kernels/data_type.h"

namespace kvd {
namespace {

// Room that a new memory should find beside the files that are kept aside.
constexpr std::uint64_t kFirstPoolBytes = 128ull << 20;

std::string TypesText(const layout::MetaGeometry& geometry) {
  const auto name = [](std::uint8_t type) {
    return kernels::DataTypeName(static_cast<kernels::DataType>(type));
  };
  return Concat("K of ", name(geometry.k_type), " and V of ", name(geometry.v_type));
}

std::uint64_t CellsOf(const layout::MetaGeometry& geometry) {
  return std::uint64_t{geometry.block_count[0]} * layout::kBlockCells;
}

class Opening {
 public:
  Opening(const MemoryHome& home, const MemoryGeometry& geometry,
          const FingerprintBytes& model_fingerprint, const CellLimits& limits)
      : home_(home),
        geometry_(geometry),
        model_fingerprint_(model_fingerprint),
        limits_(limits),
        files_(home.directory, home.probe) {}

  Result<OpenedMemory> Run() {
    OpenedMemory opened;
    KVD_TRY(opened.memory, Attach());
    if (opened.memory == nullptr) {
      KVD_TRY(opened.memory, CreateNew());
    } else {
      start_.is_warm = true;
      start_.CountServed(*opened.memory);
    }
    start_.aside_bytes = files_.AsideBytes();
    opened.start = std::move(start_);
    return opened;
  }

 private:
  using Attached = Result<std::unique_ptr<Memory>>;

  // Attaches to the earlier state. Null: it cannot be used, and why_cold says why. An error refuses
  // the start.
  Attached Attach();
  Attached Cold(const Error& error);
  // Decides about a state that the options exclude.
  Attached Exclude(ConstMetaView meta, const std::string& why);
  Result<MetaSegment> OpenMeta() const;
  Status CheckForm(const layout::MetaHeader& header) const;
  std::string DifferenceTo(const layout::MetaHeader& header) const;
  void RaiseCapacity(ConstMetaView meta);
  // The sessions whose clients may return.
  std::function<bool(std::uint64_t session)> Returns(ConstMetaView meta) const;
  // Gives the stored memory the wanted size and opens it again.
  Result<MemorySegments> Resize(MemorySegments stored);
  Status WriteResized(Memory& memory);
  void ReleaseOrphans(Memory& memory) const;
  Attached CreateNew();
  Result<MemorySegments> CreateFiles(const std::string& aside);

  const MemoryHome& home_;
  MemoryGeometry geometry_;
  const FingerprintBytes& model_fingerprint_;
  const CellLimits& limits_;
  const StateFiles files_;
  MemoryStart start_;
  bool keeps_aside_ = true;
};

Opening::Attached Opening::Cold(const Error& error) {
  // A lack of room or a failed call says nothing about the state.
  if (error.code == Code::kNoSpace || error.code == Code::kIo || error.code == Code::kInternal) {
    return std::unexpected(error);
  }
  if (error.code != Code::kNotFound) start_.why_cold = error.message;
  start_.resized_from = 0;
  return nullptr;
}

Opening::Attached Opening::Exclude(ConstMetaView meta, const std::string& why) {
  const HeldCounts held = CountHeld(meta, Returns(meta));
  if (held.sequences() != 0) {
    return Fail(Code::kConflict, "the stored state cannot be used: ", why, ". It holds ",
                HeldText(held),
                ". Start with the earlier options, with --cold to begin without it, or remove it "
                "with --forget");
  }
  // What only was retained is not worth its room.
  keeps_aside_ = false;
  start_.why_cold = why;
  return nullptr;
}

Result<MetaSegment> Opening::OpenMeta() const {
  KVD_TRY(UniqueFd file, files_.Open("meta"));
  return MetaSegment::Open(std::move(file));
}

// The difference between the stored state and the caller's options; empty: none but the size.
std::string Opening::DifferenceTo(const layout::MetaHeader& header) const {
  if (std::memcmp(header.model_fingerprint, model_fingerprint_.data(), model_fingerprint_.size()) !=
      0) {
    return Concat("meta: model_fingerprint: belongs to another model (", header.model_name, ")");
  }
  const layout::MetaGeometry &found = header.geometry, &wanted = geometry_.meta;
  if (IsResized(found, wanted)) return "";
  if (found.k_type != wanted.k_type || found.v_type != wanted.v_type) {
    return Concat("meta: geometry: cell types: ", TypesText(found),
                  "; this daemon: ", TypesText(wanted));
  }
  if (found.group_count != wanted.group_count) {
    return Concat("meta: geometry: --swa-full: ", found.group_count,
                  " groups of layers; this daemon: ", wanted.group_count);
  }
  return "meta: geometry: of another configuration";
}

std::function<bool(std::uint64_t session)> Opening::Returns(ConstMetaView meta) const {
  std::set<std::uint64_t> returning;
  for (const layout::SessionRecord& record : meta.sessions()) {
    if (record.session == 0) continue;
    SessionEntry entry{.id = static_cast<SessionId>(record.session),
                       .owner = OwnerId{record.owner}};
    std::ranges::copy(record.note, entry.note.begin());
    if (!home_.may_return || home_.may_return(entry)) returning.insert(record.session);
  }
  return [returning = std::move(returning)](std::uint64_t session) {
    return returning.contains(session);
  };
}

void Opening::RaiseCapacity(ConstMetaView meta) {
  const layout::MetaGeometry& found = meta.geometry();
  const std::uint32_t wanted = geometry_.meta.sequence_capacity;
  if (!home_.may_raise_capacity || found.sequence_capacity <= wanted) return;
  const auto behind = meta.sequences().subspan(wanted);
  const auto is_held = [](const layout::SequenceRecord& record) {
    return (record.flags & layout::kSequenceLive) != 0;
  };
  if (std::ranges::none_of(behind, is_held)) return;
  layout::MetaGeometry raised = geometry_.meta;
  raised.sequence_capacity = found.sequence_capacity;
  raised.list_unit_count = std::max(found.list_unit_count, raised.list_unit_count);
  Result<MemoryGeometry> geometry = WithCounts(geometry_, raised);
  if (geometry) geometry_ = std::move(*geometry);
}

Status Opening::CheckForm(const layout::MetaHeader& header) const {
  const auto found = static_cast<NumericForm>(header.numeric_form);
  if (MayUse(home_.numeric_form, found)) return {};
  return Fail(Code::kConflict, "meta: numeric_form: ", NumericFormText(found),
              "; this daemon uses, with --deterministic, ", NumericFormText(home_.numeric_form));
}

Opening::Attached Opening::Attach() {
  Result<MetaSegment> meta = OpenMeta();
  if (!meta) return Cold(meta.error());
  layout::MetaHeader& header = meta->view().header();
  if (home_.checks_boot) {
    if (const Status same = meta->CheckBoot(); !same) return Cold(same.error());
  }
  if (const auto replayed = CommitLog::Replay(meta->view()); !replayed) {
    return Cold(replayed.error());
  }
  const ConstMetaView view(meta->view().bytes().data(), meta->view().offsets(),
                           meta->view().geometry());
  if (home_.starts_cold) {
    start_.why_cold = "--cold: the state is not used";
    return nullptr;
  }
  if (const std::string difference = DifferenceTo(header); !difference.empty()) {
    return Exclude(view, difference);
  }
  if (const Status form = CheckForm(header); !form) {
    const bool is_chosen =
        home_.has_chosen_form || header.numeric_form == std::uint32_t{0};  // kFree
    return is_chosen ? Exclude(view, form.error().message) : Cold(form.error());
  }
  RaiseCapacity(view);
  const Result<MemoryGeometry> stored_geometry = WithCounts(geometry_, view.geometry());
  if (!stored_geometry) return Cold(stored_geometry.error());
  Result<MemorySegments> segments =
      MemorySegments::Open(files_, std::move(*meta), *stored_geometry, home_.slab_bytes);
  if (segments && !(stored_geometry->meta == geometry_.meta)) {
    segments = Resize(std::move(*segments));
    // A resize refuses the start, and only damage makes it cold.
    if (!segments && segments.error().code == Code::kConflict) {
      return std::unexpected(std::move(segments).error());
    }
  }
  if (!segments) return Cold(segments.error());
  const std::uint64_t pool_number = segments->meta.view().header().pool_number;
  segments->meta.view().header().numeric_form = static_cast<std::uint32_t>(home_.numeric_form);
  Attached memory = Memory::Attach(std::move(*segments), limits_, &start_.lost);
  if (!memory) return Cold(memory.error());
  start_.removed_asides = files_.Sweep(pool_number);
  return memory;
}

// ---- another size

void Opening::ReleaseOrphans(Memory& memory) const {
  const std::vector<SessionEntry> sessions = memory.sessions().List();
  for (const SequenceInfo& sequence : memory.sequences().List()) {
    if ((sequence.flags & (layout::kSequencePublished | layout::kSequenceRetained)) != 0) continue;
    const auto session = std::ranges::find(sessions, sequence.owner.session, &SessionEntry::id);
    const bool returns =
        session != sessions.end() && (!home_.may_return || home_.may_return(*session));
    if (!returns) (void)memory.prefixes().Retain(sequence.handle);
  }
}

Status Opening::WriteResized(Memory& memory) {
  Resizing resizing(memory, geometry_);
  if (!resizing.CheckHeld()) ReleaseOrphans(memory);
  KVD_CHECK_OK(resizing.CheckHeld());
  KVD_TRY(start_.evicted, resizing.Evict());
  KVD_CHECK_OK(resizing.CopyBehindEnd(files_));
  KVD_CHECK_OK(resizing.GrowFiles(files_));
  return resizing.WriteMeta(files_);
}

Result<MemorySegments> Opening::Resize(MemorySegments stored) {
  const layout::MetaGeometry found = stored.geometry.meta;
  start_.resized_from = CellsOf(found);
  {
    KVD_TRY(const std::unique_ptr<Memory> memory,
            Memory::Attach(std::move(stored), limits_, &start_.lost));
    Status written = WriteResized(*memory);
    if (written) written = files_.Publish();
    if (!written) {
      files_.Discard();
      const Error& error = written.error();
      return Fail(error.code, "the stored memory of ", CellsOf(found), " cells cannot have ",
                  CellsOf(geometry_.meta), ": ", error.message, ". Start with -c ", CellsOf(found),
                  ", or with --cold to begin without it");
    }
  }
  // The parts of the pool are cut when they are opened.
  KVD_TRY(MetaSegment meta, OpenMeta());
  return MemorySegments::Open(files_, std::move(meta), geometry_, home_.slab_bytes);
}

// ---- a new memory

Result<MemorySegments> Opening::CreateFiles(const std::string& aside) {
  const MetaIdentity identity{.model_fingerprint = model_fingerprint_,
                              .model_name = home_.model_name,
                              .pool_number = files_.NewPoolNumber()};
  Result<MemorySegments> created =
      MemorySegments::Create(files_, geometry_, identity, home_.slab_bytes);
  if (created || created.error().code != Code::kNoSpace || start_.why_cold.empty()) return created;
  // The state that cannot be used has the room.
  files_.RemovePresent(aside);
  start_.kept_aside.clear();
  return MemorySegments::Create(files_, geometry_, identity, home_.slab_bytes);
}

Opening::Attached Opening::CreateNew() {
  const std::uint64_t needed_bytes =
      geometry_.offsets.total_bytes + std::min(geometry_.pool.total, kFirstPoolBytes);
  start_.removed_asides = files_.MakeRoom(needed_bytes);
  std::string aside;
  if (!start_.why_cold.empty() && keeps_aside_ && files_.HasRoom(needed_bytes)) {
    KVD_TRY(aside, files_.KeepAside());
    start_.kept_aside = aside;
  }
  Result<MemorySegments> segments = CreateFiles(aside);
  Status made = segments ? files_.Publish() : Status(std::unexpected(segments.error()));
  if (!made) {
    files_.Discard();
    return std::unexpected(std::move(made).error());
  }
  layout::MetaHeader& header = segments->meta.view().header();
  header.numeric_form = static_cast<std::uint32_t>(home_.numeric_form);
  for (std::string& name : files_.Sweep(header.pool_number)) {
    start_.removed_asides.push_back(std::move(name));
  }
  return Memory::Create(std::move(*segments));
}

}  // namespace

void MemoryStart::CountServed(const Memory& memory) {
  sequences = memory.Usage().live_sequences;
  snapshots = static_cast<std::uint32_t>(memory.snapshots().List().size());
}

Result<OpenedMemory> OpenMemory(const MemoryHome& home, const MemoryGeometry& geometry,
                                const FingerprintBytes& model_fingerprint,
                                const CellLimits& limits) {
  if (home.directory >= 0) return Opening(home, geometry, model_fingerprint, limits).Run();
  const MetaIdentity identity{.model_fingerprint = model_fingerprint,
                              .model_name = home.model_name};
  KVD_TRY(MemorySegments segments,
          MemorySegments::CreateAnonymous(geometry, identity, home.slab_bytes));
  segments.meta.view().header().numeric_form = static_cast<std::uint32_t>(home.numeric_form);
  OpenedMemory opened;
  opened.memory = Memory::Create(std::move(segments));
  return opened;
}

}  // namespace kvd
