// Reads and validates the header and the table of a saved state (state_layout.h). Files and bytes
// from another process are equally untrusted, so all saved states are read through the functions of
// this header.
//
// Allocations are bounded by the real length of the state, not by the numbers in its header. The
// contents of the sections are checked by the code that uses the sections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/work_control.h"
#include "state_layout/state_layout.h"

namespace kvd {

// One sequence of a saved state.
struct SavedSequence {
  state_file::SequenceHeader header = {};
  std::size_t first_section = 0;  // the sequence's sections are [first_section, end_section)
  std::size_t end_section = 0;
};

// Errors of all functions: kCorrupt, naming the field; kCancelled, if `work` is given. All
// functions check for cancellation at bounded intervals.

// Checks the header of a saved state of `real_bytes` bytes. Errors: kCorrupt, and kVersionMismatch.
Status CheckStateHeader(const state_file::FileHeader& header, std::uint64_t real_bytes);
// Checks the table `sections` of a state with this header. REQUIRES: sections.size() ==
// header.section_count.
Status CheckStateTable(const state_file::FileHeader& header,
                       std::span<const state_file::SectionEntry> sections,
                       WorkControl& work = Uncontrolled());
// Finds the sequences of a saved state. The function read(number) returns the unpacked bytes of
// section `number`, which has kind kSequence. The size of a section is checked before `read` is
// called for it. Errors: kCorrupt, kCancelled, and the errors of `read`. REQUIRES: CheckStateTable
// succeeded.
using ReadStateSection = std::function<Result<std::span<const std::byte>>(std::size_t number)>;
Result<std::vector<SavedSequence>> FindStateSequences(
    std::span<const state_file::SectionEntry> sections, const ReadStateSection& read,
    WorkControl& work = Uncontrolled());

std::unexpected<Error> CorruptState(const std::string& field, const std::string& what);

}  // namespace kvd
