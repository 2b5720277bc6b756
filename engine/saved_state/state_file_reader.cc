#include "engine/saved_state/state_file_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <tuple>

#include "engine/numeric_form.h"
#include "engine/saved_state/byte_planes.h"
#include "shm/crc32c.h"

namespace kvd {
namespace {

using state_file::Packing;
using state_file::SectionEntry;
using state_file::SectionKind;

constexpr std::uint64_t kCellsMax = std::numeric_limits<std::int32_t>::max();

std::unexpected<Error> Corrupt(const std::string& field, const std::string& what) {
  return Fail(Code::kCorrupt, "state file: " + field + ": " + what);
}
std::unexpected<Error> Corrupt(const std::string& field, std::uint64_t number) {
  return Corrupt(field, std::to_string(number));
}

Status ReadAt(int file, std::span<std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno("reading the state file");
    if (got == 0) return Corrupt("length", "ends at byte " + std::to_string(offset));
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

template <class T, std::size_t kCount>
bool IsZero(const T (&values)[kCount]) {
  return std::ranges::all_of(values, [](const T& value) { return value == T{}; });
}

Status CheckHeader(const state_file::FileHeader& header, std::uint64_t real_bytes) {
  if (header.magic != state_file::kMagic) return Corrupt("magic", "this is no saved state");
  if (header.version != state_file::kVersion) {
    return Fail(Code::kVersionMismatch, "state file: version " + std::to_string(header.version) +
                                            ", this daemon reads " +
                                            std::to_string(state_file::kVersion));
  }
  const auto bytes = std::as_bytes(std::span(&header, 1));
  if (Crc32c(0, bytes.first(offsetof(state_file::FileHeader, header_crc))) != header.header_crc) {
    return Corrupt("header_crc", "the header is damaged");
  }
  if (header.header_bytes != sizeof header) return Corrupt("header_bytes", header.header_bytes);
  if (header.file_bytes != real_bytes) {
    return Corrupt("file_bytes", std::to_string(header.file_bytes) + ", the file has " +
                                     std::to_string(real_bytes));
  }
  if (header.sequence_count == 0 || header.sequence_count > state_file::kSequencesMax) {
    return Corrupt("sequence_count", header.sequence_count);
  }
  if (header.section_count > state_file::kSectionsMax ||
      header.section_count > (real_bytes - sizeof header) / sizeof(SectionEntry)) {
    return Corrupt("section_count", header.section_count);
  }
  if (!IsNumericForm(header.numeric_form)) return Corrupt("numeric_form", header.numeric_form);
  if (!IsZero(header.reserved)) return Corrupt("reserved", "not zero");
  if (header.architecture[sizeof header.architecture - 1] != 0) {
    return Corrupt("architecture", "has no end");
  }
  return {};
}

// Bytes of one of the section's elements [begin, end); 0 where that is for the loader to say.
std::uint64_t ElementBytes(SectionKind kind) {
  switch (kind) {
    case SectionKind::kTokens:
    case SectionKind::kPositions:
    case SectionKind::kCrossTokens:
    case SectionKind::kState:
    case SectionKind::kLogits: return 4;
    case SectionKind::kSampler: return 1;
    case SectionKind::kSequence:
    case SectionKind::kRows: return 0;
  }
  return 0;
}

Status CheckEntry(const std::string& name, const SectionEntry& entry, std::uint64_t offset,
                  const state_file::FileHeader& header) {
  if (entry.offset != offset) return Corrupt(name + " offset", entry.offset);
  if (entry.raw_bytes == 0 || entry.raw_bytes > state_file::kSectionBytesMax) {
    return Corrupt(name + " raw_bytes", entry.raw_bytes);
  }
  if (entry.stored_bytes == 0 || entry.stored_bytes > header.file_bytes - offset) {
    return Corrupt(name + " stored_bytes", entry.stored_bytes);
  }
  switch (entry.packing) {
    case Packing::kNone:
      if (entry.stored_bytes != entry.raw_bytes) {
        return Corrupt(name + " stored_bytes", entry.stored_bytes);
      }
      if (entry.element_bytes != 0) return Corrupt(name + " element_bytes", entry.element_bytes);
      break;
    case Packing::kPlanesLz4:
      if (entry.stored_bytes >= entry.raw_bytes) {
        return Corrupt(name + " stored_bytes", entry.stored_bytes);
      }
      if (entry.element_bytes == 0 || entry.element_bytes > kPlaneElementBytesMax) {
        return Corrupt(name + " element_bytes", entry.element_bytes);
      }
      break;
    default: return Corrupt(name + " packing", static_cast<std::uint64_t>(entry.packing));
  }
  if (entry.kind < SectionKind::kSequence || entry.kind > SectionKind::kSampler) {
    return Corrupt(name + " kind", static_cast<std::uint64_t>(entry.kind));
  }
  if (entry.sequence >= header.sequence_count) return Corrupt(name + " sequence", entry.sequence);
  const bool has_rows = entry.kind == SectionKind::kRows;
  if (entry.side > (has_rows ? 1 : 0)) return Corrupt(name + " side", entry.side);
  if (!has_rows && (entry.layer != 0 || entry.type != 0)) {
    return Corrupt(name + " layer", entry.layer);
  }
  if (entry.kind == SectionKind::kState ? entry.cells == 0 : entry.cells != 0) {
    return Corrupt(name + " cells", entry.cells);
  }
  if (entry.reserved != 0) return Corrupt(name + " reserved", entry.reserved);
  const bool has_range = entry.kind != SectionKind::kSequence;
  if (has_range ? entry.begin >= entry.end || entry.end > kCellsMax
                : entry.begin != 0 || entry.end != 0) {
    return Corrupt(name + " end", entry.end);
  }
  const std::uint64_t element_bytes = ElementBytes(entry.kind);
  if (element_bytes != 0 && (entry.end - entry.begin) * element_bytes != entry.raw_bytes) {
    return Corrupt(name + " raw_bytes", entry.raw_bytes);
  }
  return {};
}

// Whether `next` may follow `last` in the table: a range that goes on where the last one ended, or
// what comes later in the fixed order.
Status CheckOrder(const std::string& name, const SectionEntry& last, const SectionEntry& next) {
  const auto part = [](const SectionEntry& entry) {
    return std::tuple(entry.sequence, entry.kind, entry.layer, entry.side, entry.cells);
  };
  if (part(next) == part(last)) {
    const bool goes_on =
        next.kind != SectionKind::kSequence && next.begin == last.end && next.type == last.type;
    return goes_on ? Status{} : Corrupt(name + " begin", next.begin);
  }
  if (part(next) < part(last)) return Corrupt(name, "out of order");
  // Rows may begin behind cells that a window has dropped.
  if (next.kind != SectionKind::kRows && next.begin != 0) {
    return Corrupt(name + " begin", next.begin);
  }
  if (next.sequence == last.sequence) return {};
  const bool begins = next.sequence == last.sequence + 1 && next.kind == SectionKind::kSequence;
  return begins ? Status{} : Corrupt(name + " sequence", next.sequence);
}

Status CheckSequence(const std::string& name, const state_file::SequenceHeader& header) {
  if ((header.flags & ~state_file::kSequenceFlagsAll) != 0) {
    return Corrupt(name + " flags", header.flags);
  }
  if (header.cell_count > kCellsMax) return Corrupt(name + " cell_count", header.cell_count);
  if (header.cross_cells > kCellsMax) return Corrupt(name + " cross_cells", header.cross_cells);
  if (header.pristine_cells > header.cell_count) {
    return Corrupt(name + " pristine_cells", header.pristine_cells);
  }
  if (header.checkpoint_count > header.cell_count) {
    return Corrupt(name + " checkpoint_count", header.checkpoint_count);
  }
  if (header.sampler_bytes > state_file::kSamplerBytesMax) {
    return Corrupt(name + " sampler_bytes", header.sampler_bytes);
  }
  if (header.state_floats > kCellsMax || header.logits_floats > kCellsMax) {
    return Corrupt(name + " floats", std::max(header.state_floats, header.logits_floats));
  }
  if (!IsZero(header.reserved)) return Corrupt(name + " reserved", "not zero");
  return {};
}

// The ends of the sections' ranges are those that the header says.
Status CheckExtent(const std::string& name, const SavedSequence& saved,
                   std::span<const SectionEntry> sections) {
  const state_file::SequenceHeader& header = saved.header;
  const bool has_state = (header.flags & state_file::kHasState) != 0;
  const bool has_logits = (header.flags & state_file::kHasLogits) != 0;
  std::uint64_t tokens = 0, positions = 0, cross = 0, state = 0, logits = 0, sampler = 0;
  std::uint32_t states = 0;  // sets of floats
  for (std::size_t at = saved.first_section + 1; at < saved.end_section; ++at) {
    const SectionEntry& entry = sections[at];
    switch (entry.kind) {
      case SectionKind::kTokens: tokens = entry.end; break;
      case SectionKind::kPositions: positions = entry.end; break;
      case SectionKind::kCrossTokens: cross = entry.end; break;
      case SectionKind::kState:
        if (entry.begin == 0) {
          if (state != 0 && state != header.state_floats) {
            return Corrupt(name + " state_floats", state);
          }
          ++states;
        }
        state = entry.end;
        if (entry.cells > header.cell_count) return Corrupt(name + " state cells", entry.cells);
        break;
      case SectionKind::kLogits: logits = entry.end; break;
      case SectionKind::kSampler: sampler = entry.end; break;
      case SectionKind::kRows:
        if ((header.flags & state_file::kHasRows) == 0) return Corrupt(name, "rows unannounced");
        break;
      case SectionKind::kSequence: break;
    }
  }
  if (tokens != header.cell_count) return Corrupt(name + " tokens", tokens);
  if (positions != header.cell_count) return Corrupt(name + " positions", positions);
  if (cross != header.cross_cells) return Corrupt(name + " cross_cells", cross);
  if (state != (has_state ? header.state_floats : 0)) {
    return Corrupt(name + " state_floats", state);
  }
  if (logits != (has_logits ? header.logits_floats : 0)) {
    return Corrupt(name + " logits_floats", logits);
  }
  if (sampler != header.sampler_bytes) return Corrupt(name + " sampler_bytes", sampler);
  const bool last_is_whole =
      states == 0 ||
      std::ranges::any_of(
          sections.subspan(saved.first_section, saved.end_section - saved.first_section),
          [&](const SectionEntry& entry) {
            return entry.kind == SectionKind::kState && entry.cells == header.cell_count;
          });
  if (!last_is_whole) return Corrupt(name + " state", "none behind the last cell");
  return {};
}

}  // namespace

Result<StateFileReader> StateFileReader::Open(UniqueFd file) {
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return FailErrno("looking at the state file");
  if (!S_ISREG(about.st_mode)) return Corrupt("type", "not a regular file");
  const auto real_bytes = static_cast<std::uint64_t>(about.st_size);
  state_file::FileHeader header = {};
  if (real_bytes < sizeof header) {
    return Corrupt("length", std::to_string(real_bytes) + " bytes, less than a header");
  }
  KVD_CHECK_OK(ReadAt(file.get(), std::as_writable_bytes(std::span(&header, 1)), 0));
  KVD_CHECK_OK(CheckHeader(header, real_bytes));
  StateFileReader reader(std::move(file), header);
  KVD_CHECK_OK(reader.ReadTable());
  KVD_CHECK_OK(reader.ReadSequences());
  return reader;
}

std::string StateFileReader::architecture() const { return header_.architecture; }

Status StateFileReader::ReadTable() {
  sections_.resize(header_.section_count);
  const auto bytes = std::as_writable_bytes(std::span(sections_));
  KVD_CHECK_OK(ReadAt(file_.get(), bytes, sizeof header_));
  if (Crc32c(0, bytes) != header_.table_crc) return Corrupt("table_crc", "the table is damaged");
  std::uint64_t offset = sizeof header_ + bytes.size();
  std::uint64_t raw_bytes = 0;
  SectionEntry last = {};
  for (std::size_t at = 0; at < sections_.size(); ++at) {
    const std::string name = "section " + std::to_string(at);
    KVD_CHECK_OK(CheckEntry(name, sections_[at], offset, header_));
    if (at == 0) {
      if (sections_[0].kind != SectionKind::kSequence || sections_[0].sequence != 0) {
        return Corrupt(name + " kind", static_cast<std::uint64_t>(sections_[0].kind));
      }
    } else {
      KVD_CHECK_OK(CheckOrder(name, last, sections_[at]));
    }
    last = sections_[at];
    offset += last.stored_bytes;
    raw_bytes += last.raw_bytes;
  }
  if (offset != header_.file_bytes) {
    return Corrupt("file_bytes", "the sections end at " + std::to_string(offset) + " of " +
                                     std::to_string(header_.file_bytes));
  }
  if (raw_bytes != header_.raw_bytes) return Corrupt("raw_bytes", header_.raw_bytes);
  if (sections_.empty() || last.sequence + 1 != header_.sequence_count) {
    return Corrupt("sequence_count", header_.sequence_count);
  }
  return {};
}

Status StateFileReader::ReadSequences() {
  Buffers buffers;
  for (std::size_t at = 0; at < sections_.size();) {
    const std::string name = "sequence " + std::to_string(sections_[at].sequence);
    SavedSequence saved;
    if (sections_[at].raw_bytes != sizeof saved.header) {
      return Corrupt(name + " raw_bytes", sections_[at].raw_bytes);
    }
    KVD_TRY(const auto bytes, ReadSection(at, &buffers));
    std::memcpy(&saved.header, bytes.data(), sizeof saved.header);
    saved.first_section = at;
    ++at;
    while (at < sections_.size() && sections_[at].kind != SectionKind::kSequence) ++at;
    saved.end_section = at;
    KVD_CHECK_OK(CheckSequence(name, saved.header));
    KVD_CHECK_OK(CheckExtent(name, saved, sections_));
    sequences_.push_back(saved);
  }
  return {};
}

Result<std::span<const std::byte>> StateFileReader::ReadSection(std::size_t number,
                                                                Buffers* buffers) const {
  const SectionEntry& entry = sections_[number];
  buffers->stored.resize(entry.stored_bytes);
  KVD_CHECK_OK(ReadAt(file_.get(), buffers->stored, entry.offset));
  if (Crc32c(0, buffers->stored) != entry.crc) {
    return Corrupt("section " + std::to_string(number) + " crc", "the bytes are damaged");
  }
  if (entry.packing == Packing::kNone) return std::span<const std::byte>(buffers->stored);
  auto raw = buffers->codec.Unpack(buffers->stored, entry.raw_bytes, entry.element_bytes);
  if (!raw) return Corrupt("section " + std::to_string(number), raw.error().message);
  return raw;
}

}  // namespace kvd
