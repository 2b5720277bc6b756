// StateTable: header and table of the form of saved states (state_layout.h), validated. Bytes of a
// file and bytes of another process are input alike: both are read through here.
//
// Nothing is allocated from a number that the real length does not cover. What the sections' own
// bytes say is checked by the code that takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "shm/error.h"
#include "shm/work_control.h"
#include "state_form/state_layout.h"

namespace kvd {

// One sequence of a state.
struct SavedSequence {
  state_file::SequenceHeader header = {};
  std::size_t first_section = 0;  // its sections: [first_section, end_section)
  std::size_t end_section = 0;
};

// Errors of all: kCorrupt, naming the field; where `work` is given, kCancelled: it is asked at
// bounded intervals.

// Also kVersionMismatch. `real_bytes`: of the whole state.
Status CheckStateHeader(const state_file::FileHeader& header, std::uint64_t real_bytes);
// `sections`: as many as the header says.
Status CheckStateTable(const state_file::FileHeader& header,
                       std::span<const state_file::SectionEntry> sections,
                       WorkControl& work = Uncontrolled());
// read(number): the bytes of a section of kind kSequence, not packed; their number is checked
// before. Errors: also read's. REQUIRES: CheckStateTable.
using ReadStateSection = std::function<Result<std::span<const std::byte>>(std::size_t number)>;
Result<std::vector<SavedSequence>> FindStateSequences(
    std::span<const state_file::SectionEntry> sections, const ReadStateSection& read,
    WorkControl& work = Uncontrolled());

std::unexpected<Error> CorruptState(const std::string& field, const std::string& what);

}  // namespace kvd
