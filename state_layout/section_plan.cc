#include "state_layout/section_plan.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "base/crc32c.h"

namespace kvd {

using state_file::SectionEntry;

SectionEntry SectionOf(state_file::SectionKind kind, std::uint32_t sequence,
                       std::size_t element_bytes) {
  SectionEntry entry = {};
  entry.kind = kind;
  entry.sequence = sequence;
  entry.element_bytes = static_cast<std::uint8_t>(element_bytes);
  return entry;
}

void AddSections(SectionEntry part, std::uint64_t begin, std::uint64_t end,
                 std::uint64_t bytes_each, std::vector<SectionEntry>* sections) {
  const std::uint64_t at_once = std::max<std::uint64_t>(1, kSectionBytesWanted / bytes_each);
  for (; begin < end; begin = part.end) {
    part.begin = begin;
    part.end = std::min(end, begin + at_once);
    part.raw_bytes = static_cast<std::uint32_t>((part.end - begin) * bytes_each);
    sections->push_back(part);
  }
}

std::uint64_t StateHeadBytes(std::size_t section_count) {
  return sizeof(state_file::FileHeader) + section_count * sizeof(SectionEntry);
}

std::uint64_t UnpackedFileBytes(std::span<const SectionEntry> sections) {
  std::uint64_t bytes = StateHeadBytes(sections.size());
  for (const SectionEntry& section : sections) bytes += section.raw_bytes;
  return bytes;
}

bool IsLeftOut(const SectionEntry& section, StateContent parts) {
  using state_file::SectionKind;
  return parts == StateContent::kOutline &&
         (section.kind == SectionKind::kRows || section.kind == SectionKind::kState ||
          section.kind == SectionKind::kLogits);
}

std::uint64_t StateBytes(std::span<const SectionEntry> sections, StateContent parts) {
  std::uint64_t bytes = UnpackedFileBytes(sections);
  for (const SectionEntry& section : sections) {
    if (IsLeftOut(section, parts)) bytes -= section.raw_bytes;
  }
  return bytes;
}

void PlaceUnpacked(std::span<SectionEntry> sections) {
  std::uint64_t offset = StateHeadBytes(sections.size());
  for (SectionEntry& section : sections) {
    section.offset = offset;
    section.stored_bytes = section.raw_bytes;
    section.packing = state_file::Packing::kNone;
    section.element_bytes = 0;
    offset += section.stored_bytes;
  }
}

void CompleteStateHeader(std::span<const SectionEntry> sections, state_file::FileHeader* header) {
  header->magic = state_file::kMagic;
  header->version = state_file::kVersion;
  header->header_bytes = sizeof *header;
  header->raw_bytes = 0;
  for (const SectionEntry& section : sections) header->raw_bytes += section.raw_bytes;
  header->section_count = static_cast<std::uint32_t>(sections.size());
  header->table_crc = Crc32c(0, std::as_bytes(sections));
  const auto bytes = std::as_bytes(std::span(header, 1));
  header->header_crc = Crc32c(0, bytes.first(offsetof(state_file::FileHeader, header_crc)));
}

}  // namespace kvd
