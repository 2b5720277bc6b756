#include "tests/fuzz/state_file_form.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "engine/saved_state/section_codec.h"
#include "engine/saved_state/state_file.h"

namespace kvd::test {
namespace {

using state_file::FileHeader;
using state_file::SectionEntry;

template <class T>
T Read(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T>
void Write(std::span<std::byte> bytes, std::size_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// Returns the number of section table entries that are inside the bytes.
std::size_t TableEntries(std::span<const std::byte> bytes, const FileHeader& header) {
  return std::min<std::size_t>(header.section_count,
                               (bytes.size() - sizeof header) / sizeof(SectionEntry));
}

void Finish(std::span<std::byte> file, FileHeader header, std::size_t entries,
            const StateFileIdentity& identity) {
  header.magic = state_file::kMagic;
  header.version = state_file::kVersion;
  header.header_bytes = sizeof header;
  header.file_bytes = file.size();
  std::ranges::copy(identity.fingerprint, header.fingerprint);
  std::ranges::copy(identity.name_space, header.name_space);
  header.table_crc = Crc32c(0, file.subspan(sizeof header, entries * sizeof(SectionEntry)));
  header.header_crc =
      Crc32c(0, std::as_bytes(std::span(&header, 1)).first(offsetof(FileHeader, header_crc)));
  Write(file, 0, header);
}

std::vector<std::byte> WithSums(std::span<const std::byte> bytes,
                                const StateFileIdentity& identity) {
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  if (file.size() < sizeof(FileHeader)) return file;
  auto header = Read<FileHeader>(file, 0);
  const std::size_t entries = TableEntries(file, header);
  header.raw_bytes = 0;
  for (std::size_t at = 0; at < entries; ++at) {
    const std::size_t place = sizeof header + at * sizeof(SectionEntry);
    auto entry = Read<SectionEntry>(file, place);
    header.raw_bytes += entry.raw_bytes;
    if (entry.offset > file.size() || entry.stored_bytes > file.size() - entry.offset) continue;
    entry.crc = Crc32c(0, std::span(file).subspan(entry.offset, entry.stored_bytes));
    Write(std::span(file), place, entry);
  }
  Finish(file, header, entries, identity);
  return file;
}

std::vector<std::byte> FromSections(std::span<const std::byte> bytes,
                                    const StateFileIdentity& identity) {
  if (bytes.size() < sizeof(FileHeader)) return {bytes.begin(), bytes.end()};
  auto header = Read<FileHeader>(bytes, 0);
  const std::size_t entries = TableEntries(bytes, header);
  const std::size_t table_end = sizeof header + entries * sizeof(SectionEntry);
  std::span<const std::byte> left = bytes.subspan(table_end);
  std::vector<std::byte> file(bytes.begin(),
                              bytes.begin() + static_cast<std::ptrdiff_t>(table_end));
  header.raw_bytes = 0;
  SectionCodec codec;
  for (std::size_t at = 0; at < entries; ++at) {
    const std::size_t place = sizeof header + at * sizeof(SectionEntry);
    auto entry = Read<SectionEntry>(bytes, place);
    auto raw = left.first(std::min<std::size_t>(entry.raw_bytes, left.size()));
    left = left.subspan(raw.size());
    entry.offset = file.size();
    entry.raw_bytes = static_cast<std::uint32_t>(raw.size());
    const bool is_packed = entry.packing == state_file::Packing::kPlanesLz4 && !raw.empty() &&
                           entry.element_bytes != 0 &&
                           entry.element_bytes <= state_file::kPlaneElementBytesMax;
    std::span<const std::byte> stored = raw;
    if (is_packed) {
      const SectionCodec::Packed packed = codec.Pack(raw, entry.element_bytes);
      entry.packing = packed.packing;
      if (packed.packing == state_file::Packing::kNone) entry.element_bytes = 0;
      stored = packed.bytes;
    }
    entry.stored_bytes = static_cast<std::uint32_t>(stored.size());
    entry.crc = Crc32c(0, stored);
    header.raw_bytes += entry.raw_bytes;
    file.insert(file.end(), stored.begin(), stored.end());
    Write(std::span(file), place, entry);
  }
  header.section_count = static_cast<std::uint32_t>(entries);
  Finish(file, header, entries, identity);
  return file;
}

}  // namespace

StateFileInput StateFileInputOf(std::span<const std::byte> input, std::size_t engines) {
  return {.engine = std::to_integer<std::size_t>(input[0]) % engines,
          .form = static_cast<StateFileForm>(std::to_integer<unsigned>(input[1]) % 3),
          .cells = std::to_integer<std::uint8_t>(input[2]),
          .bytes = input.subspan(kStateFileInputBytes)};
}

std::vector<std::byte> InputBytes(const StateFileInput& input) {
  std::vector<std::byte> bytes = {static_cast<std::byte>(input.engine),
                                  static_cast<std::byte>(input.form),
                                  static_cast<std::byte>(input.cells)};
  bytes.insert(bytes.end(), input.bytes.begin(), input.bytes.end());
  return bytes;
}

std::vector<std::byte> MakeStateFile(StateFileForm form, std::span<const std::byte> bytes,
                                     const StateFileIdentity& identity) {
  switch (form) {
    case StateFileForm::kAsIs: break;
    case StateFileForm::kSums: return WithSums(bytes, identity);
    case StateFileForm::kSections: return FromSections(bytes, identity);
  }
  return {bytes.begin(), bytes.end()};
}

Result<std::vector<std::byte>> SectionsForm(std::span<const std::byte> file) {
  KVD_TRY(const StateFileReader opened, StateFileReader::Open(FileOf(file)));
  const std::size_t table_end =
      sizeof(FileHeader) + opened.sections().size() * sizeof(SectionEntry);
  std::vector<std::byte> form(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(table_end));
  StateFileReader::Buffers buffers;
  for (std::size_t at = 0; at < opened.sections().size(); ++at) {
    KVD_TRY(const auto raw, opened.ReadSection(at, &buffers));
    form.insert(form.end(), raw.begin(), raw.end());
  }
  return form;
}

UniqueFd FileOf(std::span<const std::byte> bytes) {
  UniqueFd file(::memfd_create("state", MFD_CLOEXEC));
  KVD_ASSERT(static_cast<bool>(file));
  KVD_ASSERT(::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  return file;
}

}  // namespace kvd::test
