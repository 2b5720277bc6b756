#include "state_layout/state_table.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "base/crc32c.h"
#include "base/text.h"
#include "state_layout/section_plan.h"

namespace kvd {

std::unexpected<Error> CorruptState(const std::string& field, const std::string& what) {
  return Fail(Code::kCorrupt, "state file: ", field, ": ", what);
}

namespace {

using state_file::Packing;
using state_file::SectionEntry;
using state_file::SectionKind;

constexpr std::size_t kSectionsAtOnce = 1024;
// Units of work (WorkMeter) spent on checking one section.
constexpr std::size_t kSectionUnits = 64;
constexpr std::uint64_t kCellsMax = std::numeric_limits<std::int32_t>::max();

std::unexpected<Error> CorruptState(const std::string& field, std::uint64_t number) {
  return kvd::CorruptState(field, std::to_string(number));
}
using kvd::CorruptState;

template <class T, std::size_t kCount>
bool IsZero(const T (&values)[kCount]) {
  return std::ranges::all_of(values, [](const T& value) { return value == T{}; });
}

// Returns the number of bytes of one element of a section's range [begin, end), or 0 if that number
// depends on the model, which this file does not know.
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
  if (entry.offset != offset) return CorruptState(name + " offset", entry.offset);
  if (entry.raw_bytes == 0 || entry.raw_bytes > state_file::kSectionBytesMax) {
    return CorruptState(name + " raw_bytes", entry.raw_bytes);
  }
  if (entry.stored_bytes == 0 || entry.stored_bytes > header.file_bytes - offset) {
    return CorruptState(name + " stored_bytes", entry.stored_bytes);
  }
  switch (entry.packing) {
    case Packing::kNone:
      if (entry.stored_bytes != entry.raw_bytes) {
        return CorruptState(name + " stored_bytes", entry.stored_bytes);
      }
      if (entry.element_bytes != 0)
        return CorruptState(name + " element_bytes", entry.element_bytes);
      break;
    case Packing::kPlanesLz4:
      if (entry.stored_bytes >= entry.raw_bytes) {
        return CorruptState(name + " stored_bytes", entry.stored_bytes);
      }
      if (entry.element_bytes == 0 || entry.element_bytes > state_file::kPlaneElementBytesMax) {
        return CorruptState(name + " element_bytes", entry.element_bytes);
      }
      break;
    default: return CorruptState(name + " packing", static_cast<std::uint64_t>(entry.packing));
  }
  if (entry.kind < SectionKind::kSequence || entry.kind > SectionKind::kSampler) {
    return CorruptState(name + " kind", static_cast<std::uint64_t>(entry.kind));
  }
  if (entry.sequence >= header.sequence_count)
    return CorruptState(name + " sequence", entry.sequence);
  const bool has_rows = entry.kind == SectionKind::kRows;
  if (entry.side > (has_rows ? 1 : 0)) return CorruptState(name + " side", entry.side);
  if (!has_rows && (entry.layer != 0 || entry.type != 0)) {
    return CorruptState(name + " layer", entry.layer);
  }
  if (entry.kind == SectionKind::kState ? entry.cells == 0 : entry.cells != 0) {
    return CorruptState(name + " cells", entry.cells);
  }
  if (entry.reserved != 0) return CorruptState(name + " reserved", entry.reserved);
  const bool has_range = entry.kind != SectionKind::kSequence;
  if (has_range ? entry.begin >= entry.end || entry.end > kCellsMax
                : entry.begin != 0 || entry.end != 0) {
    return CorruptState(name + " end", entry.end);
  }
  const std::uint64_t element_bytes = ElementBytes(entry.kind);
  if (element_bytes != 0 && (entry.end - entry.begin) * element_bytes != entry.raw_bytes) {
    return CorruptState(name + " raw_bytes", entry.raw_bytes);
  }
  return {};
}

// Checks that `next` may follow `last` in the table. `next` must either continue the range of
// `last`, or come later in the fixed order of kind, layer, side and cells.
Status CheckOrder(const std::string& name, const SectionEntry& last, const SectionEntry& next) {
  const auto part = [](const SectionEntry& entry) {
    return std::tuple(entry.sequence, entry.kind, entry.layer, entry.side, entry.cells);
  };
  if (part(next) == part(last)) {
    const bool goes_on =
        next.kind != SectionKind::kSequence && next.begin == last.end && next.type == last.type;
    return goes_on ? Status{} : CorruptState(name + " begin", next.begin);
  }
  if (part(next) < part(last)) return CorruptState(name, "out of order");
  // The rows of a sequence may begin after cell 0, because a sliding window may have dropped the
  // first cells.
  if (next.kind != SectionKind::kRows && next.begin != 0) {
    return CorruptState(name + " begin", next.begin);
  }
  if (next.sequence == last.sequence) return {};
  const bool begins = next.sequence == last.sequence + 1 && next.kind == SectionKind::kSequence;
  return begins ? Status{} : CorruptState(name + " sequence", next.sequence);
}

Status CheckSequence(const std::string& name, const state_file::SequenceHeader& header) {
  if ((header.flags & ~state_file::kSequenceFlagsAll) != 0) {
    return CorruptState(name + " flags", header.flags);
  }
  if (header.cell_count > kCellsMax) return CorruptState(name + " cell_count", header.cell_count);
  if (header.cross_cells > kCellsMax)
    return CorruptState(name + " cross_cells", header.cross_cells);
  if (header.pristine_cells > header.cell_count) {
    return CorruptState(name + " pristine_cells", header.pristine_cells);
  }
  if (header.checkpoint_count > header.cell_count) {
    return CorruptState(name + " checkpoint_count", header.checkpoint_count);
  }
  if (header.sampler_bytes > state_file::kSamplerBytesMax) {
    return CorruptState(name + " sampler_bytes", header.sampler_bytes);
  }
  if (header.state_floats > kCellsMax || header.logits_floats > kCellsMax) {
    return CorruptState(name + " floats", std::max(header.state_floats, header.logits_floats));
  }
  if (!IsZero(header.reserved)) return CorruptState(name + " reserved", "not zero");
  return {};
}

// Checks that the ends of the ranges of a sequence's sections match the sequence's header.
Status CheckExtent(const std::string& name, const SavedSequence& saved,
                   std::span<const SectionEntry> sections) {
  const state_file::SequenceHeader& header = saved.header;
  const bool has_state = (header.flags & state_file::kHasState) != 0;
  const bool has_logits = (header.flags & state_file::kHasLogits) != 0;
  std::uint64_t tokens = 0, positions = 0, cross = 0, state = 0, logits = 0, sampler = 0;
  std::uint32_t states = 0;  // number of recurrent states counted so far
  for (std::size_t at = saved.first_section + 1; at < saved.end_section; ++at) {
    const SectionEntry& entry = sections[at];
    switch (entry.kind) {
      case SectionKind::kTokens: tokens = entry.end; break;
      case SectionKind::kPositions: positions = entry.end; break;
      case SectionKind::kCrossTokens: cross = entry.end; break;
      case SectionKind::kState:
        if (entry.begin == 0) {
          if (state != 0 && state != header.state_floats) {
            return CorruptState(name + " state_floats", state);
          }
          ++states;
        }
        state = entry.end;
        if (entry.cells > header.cell_count)
          return CorruptState(name + " state cells", entry.cells);
        break;
      case SectionKind::kLogits: logits = entry.end; break;
      case SectionKind::kSampler: sampler = entry.end; break;
      case SectionKind::kRows:
        if ((header.flags & state_file::kHasRows) == 0)
          return CorruptState(name, "has rows, but kHasRows is not set");
        break;
      case SectionKind::kSequence: break;
    }
  }
  if (tokens != header.cell_count) return CorruptState(name + " tokens", tokens);
  if (positions != header.cell_count) return CorruptState(name + " positions", positions);
  if (cross != header.cross_cells) return CorruptState(name + " cross_cells", cross);
  if (state != (has_state ? header.state_floats : 0)) {
    return CorruptState(name + " state_floats", state);
  }
  if (logits != (has_logits ? header.logits_floats : 0)) {
    return CorruptState(name + " logits_floats", logits);
  }
  if (sampler != header.sampler_bytes) return CorruptState(name + " sampler_bytes", sampler);
  const bool last_is_whole =
      states == 0 ||
      std::ranges::any_of(
          sections.subspan(saved.first_section, saved.end_section - saved.first_section),
          [&](const SectionEntry& entry) {
            return entry.kind == SectionKind::kState && entry.cells == header.cell_count;
          });
  if (!last_is_whole) return CorruptState(name + " state", "none after the last cell");
  return {};
}

}  // namespace

Status CheckStateHeader(const state_file::FileHeader& header, std::uint64_t real_bytes) {
  if (header.magic != state_file::kMagic) return CorruptState("magic", "not a saved state");
  if (header.version != state_file::kVersion) {
    return Fail(Code::kVersionMismatch, "state file: version ", header.version,
                ", this build reads ", state_file::kVersion);
  }
  const auto bytes = std::as_bytes(std::span(&header, 1));
  if (Crc32c(0, bytes.first(offsetof(state_file::FileHeader, header_crc))) != header.header_crc) {
    return CorruptState("header_crc", "the header is damaged");
  }
  if (header.header_bytes != sizeof header)
    return CorruptState("header_bytes", header.header_bytes);
  if (header.file_bytes != real_bytes) {
    return CorruptState("file_bytes", Concat(header.file_bytes, ", the file has ", real_bytes));
  }
  if (header.sequence_count == 0 || header.sequence_count > state_file::kSequencesMax) {
    return CorruptState("sequence_count", header.sequence_count);
  }
  if (header.section_count > state_file::kSectionsMax ||
      header.section_count > (real_bytes - sizeof header) / sizeof(SectionEntry)) {
    return CorruptState("section_count", header.section_count);
  }
  if (!IsZero(header.reserved)) return CorruptState("reserved", "not zero");
  if (header.architecture[sizeof header.architecture - 1] != 0) {
    return CorruptState("architecture", "not terminated");
  }
  return {};
}

Status CheckStateTable(const state_file::FileHeader& header, std::span<const SectionEntry> sections,
                       WorkControl& work) {
  WorkMeter meter(work);
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < sections.size(); at += kSectionsAtOnce) {
    const auto part = sections.subspan(at, std::min(kSectionsAtOnce, sections.size() - at));
    KVD_CHECK_OK(meter.Spend(part.size_bytes()));
    crc = Crc32c(crc, std::as_bytes(part));
  }
  if (crc != header.table_crc) return CorruptState("table_crc", "the table is damaged");
  std::uint64_t offset = sizeof header + sections.size_bytes();
  std::uint64_t raw_bytes = 0;
  SectionEntry last = {};
  for (std::size_t at = 0; at < sections.size(); ++at) {
    KVD_CHECK_OK(meter.Spend(kSectionUnits));
    const std::string name = Concat("section ", at);
    KVD_CHECK_OK(CheckEntry(name, sections[at], offset, header));
    if (at == 0) {
      if (sections[0].kind != SectionKind::kSequence || sections[0].sequence != 0) {
        return CorruptState(name + " kind", static_cast<std::uint64_t>(sections[0].kind));
      }
    } else {
      KVD_CHECK_OK(CheckOrder(name, last, sections[at]));
    }
    last = sections[at];
    offset += last.stored_bytes;
    raw_bytes += last.raw_bytes;
  }
  if (offset != header.file_bytes) {
    return CorruptState("file_bytes",
                        Concat("the sections end at ", offset, " of ", header.file_bytes));
  }
  if (raw_bytes != header.raw_bytes) return CorruptState("raw_bytes", header.raw_bytes);
  if (sections.empty() || last.sequence + 1 != header.sequence_count) {
    return CorruptState("sequence_count", header.sequence_count);
  }
  return {};
}

Result<std::vector<SavedSequence>> FindStateSequences(std::span<const SectionEntry> sections,
                                                      const ReadStateSection& read,
                                                      WorkControl& work) {
  WorkMeter meter(work);
  std::vector<SavedSequence> sequences;
  for (std::size_t at = 0; at < sections.size();) {
    const std::string name = Concat("sequence ", sections[at].sequence);
    SavedSequence saved;
    if (sections[at].raw_bytes != sizeof saved.header) {
      return CorruptState(name + " raw_bytes", sections[at].raw_bytes);
    }
    KVD_TRY(const auto bytes, read(at));
    std::memcpy(&saved.header, bytes.data(), sizeof saved.header);
    saved.first_section = at;
    ++at;
    while (at < sections.size() && sections[at].kind != SectionKind::kSequence) ++at;
    saved.end_section = at;
    KVD_CHECK_OK(meter.Spend((saved.end_section - saved.first_section) * kSectionUnits));
    KVD_CHECK_OK(CheckSequence(name, saved.header));
    KVD_CHECK_OK(CheckExtent(name, saved, sections));
    sequences.push_back(saved);
  }
  return sequences;
}

}  // namespace kvd
