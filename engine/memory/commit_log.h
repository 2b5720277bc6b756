// CommitLog: the one way in which committed state changes. All entries of a record become true
// together, or none does.
//
// A killed process leaves the mapping exactly as its stores were, in program order. So: the record
// (entries, then header with number and CRC) is written into the commit area while nothing points
// there; one release store of its number into `commit_word` makes it true; it is applied; a release
// store of 0 ends it. Whoever finds a number in commit_word applies the record again, which is
// harmless.
//
// New data that a record refers to (list entries, cells) is written before Commit, where nothing
// committed refers to it.
//
// Owner: the memory; not thread-safe (its mutex). Nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/memory/meta_segment.h"
#include "shm/error.h"
#include "shm/segment_layout.h"

namespace kvd {

class CommitLog {
 public:
  // The moments of a commit, for tests that stop the world at each of them.
  enum class Moment : std::uint8_t {
    kEntryWritten,
    kRecordWritten,
    kPublished,
    kEntryApplied,
    kCleared
  };

  explicit CommitLog(MetaView meta);

  // Starts a record; what an earlier Begin collected is forgotten.
  void Begin();
  // Adds an entry. REQUIRES: offset and bytes.size() are multiples of 8, inside sequences,
  // snapshots, sessions or histories. Returns where the bytes lie, and may be changed, until the
  // record is committed; null: they do not fit.
  std::byte* Put(std::uint64_t offset, std::span<const std::byte> bytes);
  // Error: kNoSpace, if the entries do not fit one record.
  Status CheckFits() const;
  // Error: CheckFits's; nothing has changed then.
  Status Commit();
  // Raised by every commit.
  std::uint64_t next_number() const { return next_number_; }

  // Recovery: applies the published record of `meta`, if there is one; true if there was. Errors:
  // kCorrupt, naming the field; nothing has changed then. The bytes may be anything; the view's
  // offsets must have been validated.
  static Result<bool> Replay(MetaView meta);

  void set_probe_for_test(std::function<void(Moment)> probe) { probe_ = std::move(probe); }

 private:
  void Probe(Moment moment) {
    if (probe_) [[unlikely]]
      probe_(moment);
  }

  // Copies the entries to their places.
  void Apply();

  MetaView meta_;
  std::uint64_t next_number_;
  std::uint32_t entry_count_ = 0;
  std::uint64_t body_bytes_ = 0;  // also counts what did not fit
  std::function<void(Moment)> probe_;
};

}  // namespace kvd
