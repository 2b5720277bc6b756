// Plans how a saved state is written: which sections it has, and the contents of its header and
// table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "state_layout/state_layout.h"

namespace kvd {

// The intended number of bytes of a section, chosen so that the data of one thread stays in the
// second-level cache.
inline constexpr std::uint64_t kSectionBytesWanted = 256u << 10;

// Returns a table entry of this kind and sequence whose range is not set. `element_bytes`: the
// element size of the byte planes if the section may be packed; otherwise 0.
state_file::SectionEntry SectionOf(state_file::SectionKind kind, std::uint32_t sequence,
                                   std::size_t element_bytes);
// Appends copies of `part` to the table that together cover the elements [begin, end), each of
// `bytes_each` bytes, with about kSectionBytesWanted bytes per section.
void AddSections(state_file::SectionEntry part, std::uint64_t begin, std::uint64_t end,
                 std::uint64_t bytes_each, std::vector<state_file::SectionEntry>* sections);

// Returns the number of bytes of header and table.
std::uint64_t StateHeadBytes(std::size_t section_count);
// Returns the exact number of bytes of a state with these sections if no section is packed.
std::uint64_t UnpackedFileBytes(std::span<const state_file::SectionEntry> sections);

// The parts of a saved state that are sent as bytes between daemon and client. Sections that are
// sent between daemon and client are not packed.
enum class StateContent : std::uint8_t {
  kAll,
  kOutline,  // The head and all sections except rows, states and logits. Header and table are equal
             // to those of kAll, except for the checksums of the sections that are left out.
};
bool IsLeftOut(const state_file::SectionEntry& section, StateContent parts);
std::uint64_t StateBytes(std::span<const state_file::SectionEntry> sections, StateContent parts);

// Sets offset, sizes and packing of the sections to those of a state without packed sections;
// PlaceUnpacked does not set the checksums.
void PlaceUnpacked(std::span<state_file::SectionEntry> sections);

// Completes the header of a saved state with the given sections: all fields except architecture,
// fingerprint, sequence_count, name_space, numeric_form, saved_unix_ms and file_bytes.
void CompleteStateHeader(std::span<const state_file::SectionEntry> sections,
                         state_file::FileHeader* header);

}  // namespace kvd
