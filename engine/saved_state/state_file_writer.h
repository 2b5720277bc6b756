// StateFileWriter: puts a saved-state file together under a temporary name; Finish gives it its own,
// all of it or nothing.
//
// Threads: Put by several at once, each section once; the rest by one. Destroyed before Finish, it
// leaves nothing behind.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/saved_state/section_codec.h"
#include "shm/error.h"
#include "shm/mutex.h"
#include "shm/unique_fd.h"
#include "state_form/state_layout.h"

namespace kvd {

class StateFileWriter {
 public:
  // In the open directory. `sections`: all there will be, in the order of the table, without
  // offsets, stored bytes and sums. Errors: kIo.
  static Result<std::unique_ptr<StateFileWriter>> Create(
      int directory, std::string name, std::vector<state_file::SectionEntry> sections);
  ~StateFileWriter();
  StateFileWriter(const StateFileWriter&) = delete;
  StateFileWriter& operator=(const StateFileWriter&) = delete;

  std::span<const state_file::SectionEntry> sections() const { return sections_; }
  // Writes section `number`. Waits until all sections before it have found their place: sections are
  // to be begun in order. REQUIRES: packed.bytes of that section.
  Status Put(std::size_t number, const SectionCodec::Packed& packed);
  // Ends the wait of other threads: this one will not put its section.
  void GiveUp();
  // Completes the header (all but architecture, fingerprint, sequence_count and saved_unix_ms),
  // syncs, and gives the file its name; an existing one is replaced if `replace`. Returns its size.
  // Errors: kIo, kExists.
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
  // Their number and sizes never change; where they lie in the file is filled in under the mutex.
  std::vector<state_file::SectionEntry> sections_;
  std::size_t turn_ KVD_GUARDED_BY(mutex_) = 0;  // section that finds its place next
  std::uint64_t end_ KVD_GUARDED_BY(mutex_) = 0;
  bool gave_up_ KVD_GUARDED_BY(mutex_) = false;
};

// Removes temporaries that processes which are gone have left in the directory. Errors: kIo.
Status RemoveStaleTemporaries(int directory);

}  // namespace kvd
