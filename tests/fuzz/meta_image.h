// MetaImage: converts between a small `meta` and a fuzz input. An input is a byte that chooses the
// kind of memory, a byte of flags and then the parts of `meta` whose content matters, in this order
// and until the input ends: sequences, snapshots, sessions, histories, lists, cells of each group,
// and the beginning of the commit area. An input does not contain the header and the bytes between
// the parts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/crc32c.h"
#include "engine/memory/geometry.h"
#include "engine/memory/meta_segment.h"

namespace kvd::fuzz {

enum class MetaKind : std::uint8_t { kAttention, kWindow, kRecurrent, kHybrid, kEncoder };
inline constexpr std::size_t kMetaKinds = 5;

inline constexpr std::uint8_t kHasPublishedCommit = 1;  // a flag: the commit word is set
inline constexpr std::uint8_t kKeepsSums = 2;           // a flag: checksums are not corrected
inline constexpr std::size_t kImageStart = 2;
inline constexpr std::size_t kCommitBytes = 1024;  // the part of the commit area in an input

inline MemoryOptions OptionsOf(MetaKind kind) {
  MemoryOptions options;
  // The blocks' tables do not fill a page, so that FencedMeta (meta_attach_fuzz.cc) can poison the
  // bytes after them.
  options.groups = {{.cells = std::uint64_t{7} * 32, .layers = {{1, 2, 2}}}};
  options.k_type = kernels::DataType::kF32;
  options.v_type = kernels::DataType::kF32;
  options.sequence_capacity = 6;
  options.snapshot_capacity = 2;
  options.session_capacity = 2;
  options.list_unit_count = 20;
  if (kind == MetaKind::kRecurrent) options.groups[0].layers.clear();
  if (kind == MetaKind::kWindow || kind == MetaKind::kHybrid) {
    options.groups.push_back({.cells = std::uint64_t{5} * 32, .layers = {{1, 2, 2}}, .window = 20});
  }
  if (kind == MetaKind::kEncoder) {
    options.groups.push_back(
        {.cells = std::uint64_t{3} * 32, .layers = {{1, 2, 2}}, .is_cross = true});
  }
  if (kind == MetaKind::kRecurrent || kind == MetaKind::kHybrid) {
    options.state_bytes = 64;
    options.state_slots = 8;
    options.checkpoint_slots = 4;
    options.logits_bytes = 64;
    options.logits_rows = 2;
  }
  return options;
}

constexpr std::size_t HistoryBytes(const layout::MetaGeometry& geometry) {
  return std::size_t{geometry.sequence_capacity} * layout::kEditsKept * sizeof(layout::EditRecord);
}

// Returns the parts of a `meta` in the order of an input.
inline std::vector<std::span<std::byte>> PartsOf(MetaView meta) {
  const layout::MetaGeometry& geometry = meta.geometry();
  std::vector<std::span<std::byte>> parts = {
      std::as_writable_bytes(meta.sequences()), std::as_writable_bytes(meta.snapshots()),
      std::as_writable_bytes(meta.sessions()),
      meta.bytes().subspan(meta.offsets().histories, HistoryBytes(geometry)),
      meta.bytes().subspan(meta.offsets().lists,
                           std::size_t{geometry.list_unit_count} * layout::kListUnitBytes)};
  for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
    parts.push_back(std::as_writable_bytes(std::span(
        meta.cells(group, 0), std::size_t{geometry.block_count[group]} * layout::kBlockCells)));
  }
  parts.push_back(meta.bytes().subspan(meta.offsets().commit, kCommitBytes));
  return parts;
}

inline std::vector<std::byte> PackImage(MetaKind kind, MetaView meta) {
  const bool is_published = meta.header().commit_word.load() != 0;
  std::vector<std::byte> image = {static_cast<std::byte>(kind),
                                  static_cast<std::byte>(is_published ? kHasPublishedCommit : 0)};
  for (const auto part : PartsOf(meta)) image.insert(image.end(), part.begin(), part.end());
  return image;
}

inline void UnpackImage(std::span<const std::byte> image, MetaView meta) {
  std::span<const std::byte> left = image.subspan(std::min(image.size(), kImageStart));
  for (const auto part : PartsOf(meta)) {
    const auto taken = left.first(std::min(left.size(), part.size()));
    std::ranges::copy(taken, part.begin());
    left = left.subspan(taken.size());
  }
}

// Corrects the checksums of lists, cells and the commit record.
inline void SumUp(MetaView meta) {
  const layout::MetaGeometry& geometry = meta.geometry();
  const auto sum = [&](layout::ListRoot* root) {
    const std::uint32_t units = geometry.list_unit_count;
    if (root->first_unit >= units || root->entry_count > (units - root->first_unit) * 16) return;
    root->crc = Crc32c(0, std::as_bytes(meta.entries(*root)));
  };
  for (layout::SequenceRecord& record : meta.sequences()) {
    if ((record.flags & layout::kSequenceLive) == 0) continue;
    for (layout::ListRoot& root : record.extents) sum(&root);
    sum(&record.checkpoints);
  }
  for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
    for (std::uint32_t block = 0; block < geometry.block_count[group]; ++block) {
      for (std::uint32_t cell = 0; cell < layout::kBlockCells; ++cell) {
        layout::CellRecord& record = meta.cells(group, block)[cell];
        record.check =
            CellCheck(record.token, record.stored_pos, group, block, cell, record.key_form);
      }
    }
  }
  std::byte* const area = meta.bytes().data() + meta.offsets().commit;
  layout::CommitHeader header;
  std::memcpy(&header, area, sizeof header);
  if (header.body_bytes > layout::kCommitRecordBytes - sizeof header) return;
  header.crc = Crc32cOf(0, header.number);
  header.crc = Crc32cOf(header.crc, header.entry_count);
  header.crc = Crc32cOf(header.crc, header.body_bytes);
  header.crc = Crc32c(header.crc, {area + sizeof header, header.body_bytes});
  std::memcpy(area, &header, sizeof header);
}

}  // namespace kvd::fuzz
