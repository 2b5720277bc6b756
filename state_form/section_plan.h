// Writing the form of saved states: which sections there are, and what header and table say of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "state_form/state_layout.h"

namespace kvd {

// What a thread works on stays in its second-level cache.
inline constexpr std::uint64_t kSectionBytesWanted = 256u << 10;

// A section of that kind without range. element_bytes: of its planes, should it be packed; else 0.
state_file::SectionEntry SectionOf(state_file::SectionKind kind, std::uint32_t sequence,
                                   std::size_t element_bytes);
// Appends `part` for the elements [begin, end) of bytes_each, about kSectionBytesWanted at a time.
void AddSections(state_file::SectionEntry part, std::uint64_t begin, std::uint64_t end,
                 std::uint64_t bytes_each, std::vector<state_file::SectionEntry>* sections);

std::uint64_t StateHeadBytes(std::size_t section_count);  // of header and table
// Bytes of a state with these sections if nothing is packed: exact.
std::uint64_t UnpackedFileBytes(std::span<const state_file::SectionEntry> sections);

// How much of a state is sent as bytes; nothing of it is packed.
enum class StateParts : std::uint8_t {
  kAll,
  kOutline,  // The head and all sections but rows, states and logits. Header and table are equal to
             // those of kAll, except for the checksums of the sections that are left out.
};
bool IsLeftOut(const state_file::SectionEntry& section, StateParts parts);
std::uint64_t StateBytes(std::span<const state_file::SectionEntry> sections, StateParts parts);

// The sections as they lie in a state where nothing is packed: all but their sums.
void PlaceUnpacked(std::span<state_file::SectionEntry> sections);

// Completes the header of these sections: all but architecture, fingerprint, sequence_count, name
// space, numeric form, saved_unix_ms and file_bytes.
void CompleteStateHeader(std::span<const state_file::SectionEntry> sections,
                         state_file::FileHeader* header);

// Milliseconds since 1970: FileHeader::saved_unix_ms.
std::uint64_t StateTimeNowMs();

}  // namespace kvd
