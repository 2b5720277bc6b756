// Bytes of a file and bytes in memory are checked in the same way.
#include "engine/saved_state/state_file_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "base/text.h"
#include "engine/model/numeric_form.h"

namespace kvd {
namespace {

using state_file::Packing;
using state_file::SectionEntry;

Status ReadFileAt(int file, std::span<std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno("reading the state file");
    if (got == 0) return CorruptState("length", Concat("ends at byte ", offset));
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace

Result<StateFileReader> StateFileReader::Open(UniqueFd file) {
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return FailErrno("fstat of the state file");
  if (!S_ISREG(about.st_mode)) return CorruptState("type", "not a regular file");
  StateFileReader reader(std::move(file), {});
  KVD_CHECK_OK(reader.Read(static_cast<std::uint64_t>(about.st_size), Uncontrolled()));
  return reader;
}

Result<StateFileReader> StateFileReader::FromBytes(std::span<const std::byte> bytes,
                                                   WorkControl& work) {
  StateFileReader reader(UniqueFd(), bytes);
  KVD_CHECK_OK(reader.Read(bytes.size(), work));
  return reader;
}

std::string StateFileReader::architecture() const { return header_.architecture; }

Status StateFileReader::Read(std::uint64_t real_bytes, WorkControl& work) {
  if (real_bytes < sizeof header_) {
    return CorruptState("length", Concat(real_bytes, " bytes, less than a header"));
  }
  KVD_CHECK_OK(ReadAt(std::as_writable_bytes(std::span(&header_, 1)), 0));
  KVD_CHECK_OK(CheckStateHeader(header_, real_bytes));
  if (!IsNumericForm(header_.numeric_form)) {
    return CorruptState("numeric_form", std::to_string(header_.numeric_form));
  }
  sections_.resize(header_.section_count);
  KVD_CHECK_OK(ReadAt(std::as_writable_bytes(std::span(sections_)), sizeof header_));
  KVD_CHECK_OK(CheckStateTable(header_, sections_, work));
  Buffers buffers;
  const auto read = [&](std::size_t number) { return ReadSection(number, &buffers); };
  KVD_TRY(sequences_, FindStateSequences(sections_, read, work));
  return {};
}

Status StateFileReader::ReadAt(std::span<std::byte> to, std::uint64_t offset) const {
  if (file_) return ReadFileAt(file_.get(), to, offset);
  // The range lies inside bytes_, because the header's numbers have been compared with the real
  // length.
  if (!to.empty()) std::memcpy(to.data(), bytes_.subspan(offset, to.size()).data(), to.size());
  return {};
}

Result<std::span<const std::byte>> StateFileReader::ReadSection(std::size_t number,
                                                                Buffers* buffers) const {
  const SectionEntry& entry = sections_[number];
  const std::string name = Concat("section ", number);
  buffers->stored.resize(entry.stored_bytes);
  KVD_CHECK_OK(ReadAt(buffers->stored, entry.offset));
  if (Crc32c(0, buffers->stored) != entry.crc) {
    return CorruptState(name + " crc", "the bytes are damaged");
  }
  if (entry.packing == Packing::kNone) return std::span<const std::byte>(buffers->stored);
  auto raw = buffers->codec.Unpack(buffers->stored, entry.raw_bytes, entry.element_bytes);
  if (!raw) return CorruptState(name, raw.error().message);
  return raw;
}

}  // namespace kvd
