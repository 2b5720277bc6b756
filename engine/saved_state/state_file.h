// Reading and writing a saved state, in a file or in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "base/work_control.h"
#include "engine/saved_state/section_codec.h"
#include "state_layout/state_layout.h"
#include "state_layout/state_table.h"

namespace kvd {

// StateFileReader: a saved state, in a file or in memory, as a validated table of sections with
// access to their bytes.
//
// Open and FromBytes check header, table and section placement (state_layout/state_table.h);
// ReadSection checks the checksum of a section. The contents of sections are checked by the code
// that loads them. Threads: const methods may be called by several threads at once.
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

// StateFileWriter: writes a state file under a temporary name. Finish renames the file to its final
// name, so the file appears completely or not at all.
//
// Threads: Put may be called by several threads, once per section; the other functions are called
// by one thread. Destroying an unfinished writer removes the temporary file.
class StateFileWriter {
 public:
  // Creates the file in the open directory. `sections`: all sections in the order of the table,
  // whose offsets, stored bytes and checksums are not yet set. Errors: kIo, kNoSpace, kUnsupported
  // (too many sections).
  static Result<std::unique_ptr<StateFileWriter>> Create(
      int directory, std::string name, std::vector<state_file::SectionEntry> sections);
  ~StateFileWriter();
  StateFileWriter(const StateFileWriter&) = delete;
  StateFileWriter& operator=(const StateFileWriter&) = delete;

  std::span<const state_file::SectionEntry> sections() const { return sections_; }
  // Writes section `number`. Waits until the offsets of all earlier sections are assigned, so
  // sections must be begun in order. Errors: kIo, kNoSpace, kCancelled (GiveUp). REQUIRES: `packed`
  // is the content of section `number`.
  Status Put(std::size_t number, const SectionCodec::Packed& packed);
  // Makes waiting and later calls of Put fail. A thread calls GiveUp if it will not put its
  // section, because other threads may be waiting for that section.
  void GiveUp();
  // Completes the header and writes it (the caller sets architecture, fingerprint, sequence_count,
  // numeric_form, name_space and saved_unix_ms), syncs and renames the file. Replaces an existing
  // file only if `replace`. Returns the file size. Errors: kIo, kNoSpace, kExists.
  Result<std::uint64_t> Finish(state_file::FileHeader header, bool replace);

 private:
  StateFileWriter(int directory, std::string name, std::string temporary, UniqueFd file,
                  std::vector<state_file::SectionEntry> sections);

  const int directory_;
  const std::string name_;
  const std::string temporary_;
  UniqueFd file_;
  bool is_finished_ = false;

  Mutex mutex_;
  CondVar turn_came_;
  // The number of sections and their unpacked sizes never change; the places of sections in the
  // file are filled in under the mutex.
  std::vector<state_file::SectionEntry> sections_;
  std::size_t turn_ KVD_GUARDED_BY(mutex_) =
      0;  // number of the section whose offset is assigned next
  std::uint64_t end_ KVD_GUARDED_BY(mutex_) = 0;
  bool gave_up_ KVD_GUARDED_BY(mutex_) = false;
};

// Removes temporary files of processes that have ended from the directory. Errors: kIo.
Status RemoveStaleTemporaries(int directory);

}  // namespace kvd
