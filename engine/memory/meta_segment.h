// MetaSegment: the mapping of `meta`, and typed access to its parts.
//
// MemorySegments owns the mapping, then the memory that takes ownership of the segments. `MetaView`
// does not own the bytes and is valid as long as the mapping exists. MetaSegment does not commit
// changes; CommitLog commits them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "base/ids.h"
#include "base/unique_fd.h"
#include "engine/memory/geometry.h"
#include "shm/segment_layout.h"
#include "shm/shared_memory.h"

namespace kvd {

// The parts of a `meta` with validated offsets. Byte is std::byte or const std::byte.
template <class Byte>
class BasicMetaView {
  template <class T>
  using Like = std::conditional_t<std::is_const_v<Byte>, const T, T>;

 public:
  BasicMetaView() = default;
  // REQUIRES: `base` is the start of offsets.total_bytes bytes, 64-byte aligned.
  BasicMetaView(Byte* base, const MetaOffsets& offsets, const layout::MetaGeometry& geometry)
      : base_(base), offsets_(offsets), geometry_(geometry) {}

  Like<layout::MetaHeader>& header() const { return *At<layout::MetaHeader>(0); }
  const layout::MetaGeometry& geometry() const { return geometry_; }
  const MetaOffsets& offsets() const { return offsets_; }
  std::span<Byte> bytes() const { return {base_, offsets_.total_bytes}; }

  std::span<Like<layout::SequenceRecord>> sequences() const {
    return {At<layout::SequenceRecord>(offsets_.sequences), geometry_.sequence_capacity};
  }
  std::span<Like<layout::SnapshotRecord>> snapshots() const {
    return {At<layout::SnapshotRecord>(offsets_.snapshots), geometry_.snapshot_capacity};
  }
  std::span<Like<layout::SessionRecord>> sessions() const {
    return {At<layout::SessionRecord>(offsets_.sessions), geometry_.session_capacity};
  }
  // The ring of the last edits of a sequence.
  std::span<Like<layout::EditRecord>> history(std::uint32_t index) const {
    return {At<layout::EditRecord>(history_offset(index)), layout::kEditsKept};
  }
  std::uint64_t history_offset(std::uint32_t index) const {
    return offsets_.histories +
           std::uint64_t{index} * layout::kEditsKept * sizeof(layout::EditRecord);
  }
  std::uint64_t session_offset(std::uint32_t index) const {
    return offsets_.sessions + std::uint64_t{index} * sizeof(layout::SessionRecord);
  }
  std::uint64_t sequence_offset(std::uint32_t index) const {
    return offsets_.sequences + std::uint64_t{index} * sizeof(layout::SequenceRecord);
  }
  std::uint64_t snapshot_offset(std::uint32_t index) const {
    return offsets_.snapshots + std::uint64_t{index} * sizeof(layout::SnapshotRecord);
  }
  // The first entry of a list. REQUIRES: first_unit < list_unit_count.
  Like<layout::Extent>* list(std::uint32_t first_unit) const {
    return At<layout::Extent>(offsets_.lists + std::uint64_t{first_unit} * layout::kListUnitBytes);
  }
  // The committed entries of a list.
  std::span<Like<layout::Extent>> entries(const layout::ListRoot& root) const {
    if (root.entry_count == 0) return {};
    return {list(root.first_unit), root.entry_count};
  }
  // The committed entries of a list of checkpoints.
  std::span<Like<layout::Checkpoint>> checkpoints(const layout::ListRoot& root) const {
    if (root.entry_count == 0) return {};
    return {checkpoint_list(root.first_unit), root.entry_count};
  }
  // The tokens of a list of tokens.
  std::span<Like<TokenId>> tokens(const layout::ListRoot& root) const {
    if (root.entry_count == 0) return {};
    return {token_list(root.first_unit), root.entry_count};
  }
  Like<TokenId>* token_list(std::uint32_t first_unit) const {
    return At<TokenId>(offsets_.lists + std::uint64_t{first_unit} * layout::kListUnitBytes);
  }
  Like<layout::Checkpoint>* checkpoint_list(std::uint32_t first_unit) const {
    return At<layout::Checkpoint>(offsets_.lists +
                                  std::uint64_t{first_unit} * layout::kListUnitBytes);
  }
  // The records of the cells of one block. The records of all blocks of a group form one array
  // [block][kBlockCells], which begins with block 0.
  Like<layout::CellRecord>* cells(std::uint32_t group, std::uint32_t block) const {
    return At<layout::CellRecord>(offsets_.cells[group]) + std::size_t{block} * layout::kBlockCells;
  }

 private:
  template <class T>
  Like<T>* At(std::uint64_t offset) const {
    return reinterpret_cast<Like<T>*>(base_ + offset);
  }

  Byte* base_ = nullptr;
  MetaOffsets offsets_;
  layout::MetaGeometry geometry_ = {};
};

using MetaView = BasicMetaView<std::byte>;
using ConstMetaView = BasicMetaView<const std::byte>;

inline constexpr layout::ListRoot kEmptyList{layout::kNoSlot, 0, 0, 0};

// The checksum of a cell's record. The checksum covers the record's values and the place of the
// cell.
std::uint32_t CellCheck(std::int32_t token, std::int32_t stored_pos, std::uint32_t group,
                        std::uint32_t block, std::uint32_t cell, std::uint32_t key_form);

using FingerprintBytes = std::array<std::uint8_t, 32>;

// What a new `meta` says about itself, beside its geometry.
struct MetaIdentity {
  FingerprintBytes model_fingerprint{};
  std::string model_name{};
  std::uint64_t pool_number = 0;
  std::uint32_t first_generation = 1;  // layout::MetaHeader::first_generation
};

class MetaSegment {
 public:
  // Sizes, reserves and maps `descriptor` and writes an empty meta into it: no sequences; the
  // generation of every record is first_generation. Errors: kNoSpace (the bytes needed), kIo.
  static Result<MetaSegment> Create(UniqueFd descriptor, const MemoryGeometry& geometry,
                                    const MetaIdentity& identity);
  // Maps a meta that an earlier process left, if its header is valid and belongs to this layout;
  // the geometry and the model may be any. Errors, naming the field: kPermission (not a regular
  // file of the daemon's own), kCorrupt, kVersionMismatch (another layout), kNoSpace, kIo.
  static Result<MetaSegment> Open(UniqueFd descriptor);
  // Checks that the system has not been booted since the meta was made. Error: kConflict.
  Status CheckBoot() const;

  MetaView view() const { return view_; }

 private:
  MetaSegment() = default;

  UniqueFd descriptor_;
  Mapping<kReadWrite> mapping_;
  MetaView view_;
};

}  // namespace kvd
