// StateFileReader: a saved state, in a file or in memory, as a validated table of sections, and
// their bytes.
//
// Open and FromBytes check header, table and how the sections lie (state_form/state_table.h);
// ReadSection the sum of each. What the sections say is checked by the code that loads them.
// Threads: const, by several at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/saved_state/section_codec.h"
#include "shm/error.h"
#include "shm/unique_fd.h"
#include "shm/work_control.h"
#include "state_form/state_layout.h"
#include "state_form/state_table.h"

namespace kvd {

class StateFileReader {
 public:
  // Errors: kCorrupt, naming the field; kVersionMismatch; kIo.
  static Result<StateFileReader> Open(UniqueFd file);
  // The same of bytes, which outlive it: a file of that content. Errors: also kCancelled.
  static Result<StateFileReader> FromBytes(std::span<const std::byte> bytes,
                                           WorkControl& work = Uncontrolled());

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
  StateFileReader(UniqueFd file, std::span<const std::byte> bytes)
      : file_(std::move(file)), bytes_(bytes) {}
  Status Read(std::uint64_t real_bytes, WorkControl& work);
  Status ReadAt(std::span<std::byte> to, std::uint64_t offset) const;

  UniqueFd file_;  // none: the state lies in bytes_
  std::span<const std::byte> bytes_;
  state_file::FileHeader header_ = {};
  std::vector<state_file::SectionEntry> sections_;
  std::vector<SavedSequence> sequences_;
};

}  // namespace kvd
