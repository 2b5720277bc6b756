// The header's CRC covers every byte of the header before the CRC. The commit word changes with
// every commit, so it lies after the CRC.
#include "engine/memory/meta_segment.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "base/crc32c.h"
#include "base/text.h"
#include "engine/memory/memory_segments.h"
#include "engine/memory/rebuild.h"

namespace kvd {
namespace {

// The system's boot id as 16 bytes; zeros if it cannot be read.
std::array<std::uint8_t, 16> ReadBootId() {
  std::array<std::uint8_t, 16> boot_id = {};
  const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  char text[36];
  if (!file || ::read(file.get(), text, sizeof text) != sizeof text) return boot_id;
  std::size_t digit_count = 0;
  for (const char letter : text) {
    if (letter == '-' || digit_count == 32) continue;
    const int digit = letter <= '9' ? letter - '0' : letter - 'a' + 10;
    boot_id[digit_count / 2] =
        static_cast<std::uint8_t>((boot_id[digit_count / 2] << 4) | (digit & 0xf));
    ++digit_count;
  }
  return boot_id;
}

// Reserves memory for every byte of the file. Existing bytes are kept.
Status ReserveMeta(int descriptor, std::uint64_t total_bytes) {
  int failed = 0;
  do {
    failed = ::fallocate(descriptor, 0, 0, static_cast<off_t>(total_bytes)) == 0 ? 0 : errno;
  } while (failed == EINTR);
  if (failed == 0) return {};
  if (failed == ENOSPC || failed == EFBIG || failed == ENOMEM) {
    return Fail(Code::kNoSpace, "meta: ", total_bytes,
                " bytes could not be reserved: ", std::strerror(failed));
  }
  errno = failed;
  return FailErrno("meta: fallocate");
}

}  // namespace

std::uint32_t CellCheck(std::int32_t token, std::int32_t stored_pos, std::uint32_t group,
                        std::uint32_t block, std::uint32_t cell, std::uint32_t key_form) {
  struct {
    std::int32_t token, stored_pos;
    std::uint32_t group, block, cell, key_form;
  } const parts{token, stored_pos, group, block, cell, key_form};
  return Crc32cOf(0, parts);
}

Result<MetaSegment> MetaSegment::Create(UniqueFd descriptor, const MemoryGeometry& geometry,
                                        const MetaIdentity& identity) {
  const std::uint64_t total_bytes = geometry.offsets.total_bytes;
  KVD_CHECK_OK(ReserveMeta(descriptor.get(), total_bytes));

  MetaSegment segment;
  KVD_TRY(segment.mapping_, Mapping<kReadWrite>::MapRange(descriptor.get(), 0, total_bytes));
  segment.descriptor_ = std::move(descriptor);
  segment.view_ = MetaView(segment.mapping_.data(), geometry.offsets, geometry.meta);

  // A new file contains zeros, so only values other than zero are written.
  auto* header = ::new (segment.mapping_.data()) layout::MetaHeader();
  header->magic = layout::kMetaMagic;
  header->version = layout::kLayoutVersion;
  header->header_bytes = sizeof(layout::MetaHeader);
  header->layout_signature = layout::LayoutSignature();
  header->total_bytes = total_bytes;
  std::memcpy(header->model_fingerprint, identity.model_fingerprint.data(),
              identity.model_fingerprint.size());
  const std::array<std::uint8_t, 16> boot_id = ReadBootId();
  std::memcpy(header->boot_id, boot_id.data(), boot_id.size());
  header->geometry = geometry.meta;
  header->commit_offset = geometry.offsets.commit;
  header->sequences_offset = geometry.offsets.sequences;
  header->snapshots_offset = geometry.offsets.snapshots;
  header->sessions_offset = geometry.offsets.sessions;
  header->histories_offset = geometry.offsets.histories;
  header->lists_offset = geometry.offsets.lists;
  std::memcpy(header->cells_offset, geometry.offsets.cells.data(), sizeof header->cells_offset);
  header->pool_number = identity.pool_number;
  // The last byte stays zero.
  identity.model_name.copy(header->model_name, sizeof header->model_name - 1);
  header->first_generation = identity.first_generation;
  header->header_crc =
      Crc32c(0, segment.mapping_.bytes().first(offsetof(layout::MetaHeader, header_crc)));
  for (layout::SequenceRecord& record : segment.view_.sequences()) {
    record.generation = identity.first_generation;
  }
  return segment;
}

Result<MetaSegment> MetaSegment::Open(UniqueFd descriptor) {
  KVD_TRY(const std::uint64_t file_bytes, CheckOwnFile(descriptor.get(), "meta"));
  if (file_bytes < sizeof(layout::MetaHeader)) {
    return Fail(Code::kCorrupt, "meta: size: ", file_bytes, " bytes, less than a header");
  }
  MetaSegment segment;
  KVD_TRY(segment.mapping_, Mapping<kReadWrite>::MapRange(descriptor.get(), 0, file_bytes));
  KVD_TRY(const ConstMetaView found, ValidateHeader(segment.mapping_.bytes()));
  KVD_CHECK_OK(ReserveMeta(descriptor.get(), file_bytes));
  segment.descriptor_ = std::move(descriptor);
  segment.view_ = MetaView(segment.mapping_.data(), found.offsets(), found.geometry());
  return segment;
}

Status MetaSegment::CheckBoot() const {
  const std::array<std::uint8_t, 16> boot_id = ReadBootId();
  if (boot_id != std::array<std::uint8_t, 16>{} &&
      std::memcmp(view_.header().boot_id, boot_id.data(), boot_id.size()) == 0) {
    return {};
  }
  return Fail(Code::kConflict,
              "meta: boot_id: the system was rebooted, and the directory is on a disk");
}

}  // namespace kvd
