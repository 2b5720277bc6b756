// StateFileReader: a saved state, in a file or in memory, as a validated table of sections with
// access to their bytes.
//
// Open and FromBytes check header, table and section placement (state_layout/state_table.h);
// ReadSection checks the checksum of a section. The contents of sections are checked by the code
// that loads them. Threads: const methods may be called by several threads at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "base/work_control.h"
#include "engine/saved_state/section_codec.h"
#include "state_layout/state_layout.h"
#include "state_layout/state_table.h"

namespace kvd {

class StateFileReader {
 public:
  // Errors: kCorrupt, naming the field; kVersionMismatch; kIo.
  static Result<StateFileReader> Open(UniqueFd file);
  // Makes a reader of the bytes of a state file in memory, which must outlive the reader. Errors:
  // those of Open; kCancelled.
  static Result<StateFileReader> FromBytes(std::span<const std::byte> bytes,
                                           WorkControl& work = Uncontrolled());

  const state_file::FileHeader& header() const { return header_; }
  std::string architecture() const;
  std::span<const state_file::SectionEntry> sections() const { return sections_; }
  std::span<const SavedSequence> sequences() const { return sequences_; }

  // The buffers that one thread needs to read sections.
  struct Buffers {
    std::vector<std::byte> stored;
    SectionCodec codec;
  };
  // The unpacked bytes of the section; valid until the buffers are used again. Errors: kCorrupt,
  // naming the section; kIo.
  Result<std::span<const std::byte>> ReadSection(std::size_t number, Buffers* buffers) const;

 private:
  StateFileReader(UniqueFd file, std::span<const std::byte> bytes)
      : file_(std::move(file)), bytes_(bytes) {}
  Status Read(std::uint64_t real_bytes, WorkControl& work);
  Status ReadAt(std::span<std::byte> to, std::uint64_t offset) const;

  UniqueFd file_;  // unset: the state is in bytes_
  std::span<const std::byte> bytes_;
  state_file::FileHeader header_ = {};
  std::vector<state_file::SectionEntry> sections_;
  std::vector<SavedSequence> sequences_;
};

}  // namespace kvd
