// StateFileReader: a saved-state file as a validated table of sections, and their bytes.
//
// A file is input like any other: Open checks header, table and how the sections lie; ReadSection
// the sum of each; nothing is allocated from a number that the file's real length does not cover.
// What the sections say is checked by whoever loads them. Threads: const, by several at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/saved_state/section_codec.h"
#include "engine/saved_state/state_layout.h"
#include "shm/error.h"
#include "shm/unique_fd.h"

namespace kvd {

// One sequence of the file.
struct SavedSequence {
  state_file::SequenceHeader header = {};
  std::size_t first_section = 0;  // its sections: [first_section, end_section)
  std::size_t end_section = 0;
};

class StateFileReader {
 public:
  // Errors: kCorrupt, naming the field; kVersionMismatch; kIo.
  static Result<StateFileReader> Open(UniqueFd file);

  const state_file::FileHeader& header() const { return header_; }
  std::string architecture() const;
  std::span<const state_file::SectionEntry> sections() const { return sections_; }
  std::span<const SavedSequence> sequences() const { return sequences_; }

  // What a thread needs to read sections.
  struct Buffers {
    std::vector<std::byte> stored;
    SectionCodec codec;
  };
  // The section's bytes, not packed any more; valid until the buffers are used again. Errors:
  // kCorrupt, naming the section; kIo.
  Result<std::span<const std::byte>> ReadSection(std::size_t number, Buffers* buffers) const;

 private:
  StateFileReader(UniqueFd file, state_file::FileHeader header)
      : file_(std::move(file)), header_(header) {}
  Status ReadTable();
  Status ReadSequences();

  UniqueFd file_;
  state_file::FileHeader header_;
  std::vector<state_file::SectionEntry> sections_;
  std::vector<SavedSequence> sequences_;
};

}  // namespace kvd
