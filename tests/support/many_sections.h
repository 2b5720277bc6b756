// A saved state with the longest possible table: each token and each position is a separate
// section.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "state_layout/section_plan.h"

namespace kvd::test {

// Returns a state with one sequence of `cells` tokens without rows and states. The model
// fingerprint of the state is zero, so no engine loads it.
inline std::vector<std::byte> StateOfManySections(std::uint32_t cells) {
  using state_file::SectionEntry;
  using state_file::SectionKind;
  std::vector<SectionEntry> sections;
  sections.push_back(SectionOf(SectionKind::kSequence, 0, 0));
  sections.back().raw_bytes = sizeof(state_file::SequenceHeader);
  for (const SectionKind kind : {SectionKind::kTokens, SectionKind::kPositions}) {
    for (std::uint32_t cell = 0; cell < cells; ++cell) {
      AddSections(SectionOf(kind, 0, 0), cell, cell + 1, sizeof(std::int32_t), &sections);
    }
  }
  PlaceUnpacked(sections);
  std::vector<std::byte> state(UnpackedFileBytes(sections));
  state_file::SequenceHeader sequence = {};
  sequence.cell_count = cells;
  std::memcpy(state.data() + sections[0].offset, &sequence, sizeof sequence);
  for (SectionEntry& entry : sections) {
    entry.crc = Crc32c(0, std::span(state).subspan(entry.offset, entry.raw_bytes));
  }
  state_file::FileHeader header = {};
  header.file_bytes = state.size();
  header.sequence_count = 1;
  CompleteStateHeader(sections, &header);
  std::memcpy(state.data(), &header, sizeof header);
  const auto table = std::as_bytes(std::span(sections));
  std::memcpy(state.data() + sizeof header, table.data(), table.size());
  return state;
}

}  // namespace kvd::test
