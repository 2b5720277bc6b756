// CommitLog: the only way to change committed state. Either all entries of a commit record take
// effect, or none does.
//
// After a process is killed, the mapping contains exactly the stores that the process had executed,
// in program order. A commit therefore has four stages: the record (entries, then a header with
// number and CRC) is written into the commit area while `commit_word` is 0; one release store of
// the record's number into `commit_word` publishes the record; the record's entries are copied to
// their places; a release store of 0 into `commit_word` ends the commit. A process that attaches
// and finds a number other than 0 in `commit_word` applies the record again, which is idempotent.
//
// New data that a record refers to (list entries, cells) is written before Commit, to places that
// no committed record refers to.
//
// The memory owns the log and calls it under the memory's mutex; the log is not thread-safe and
// allocates no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/error.h"
#include "engine/memory/meta_segment.h"
#include "shm/segment_layout.h"

namespace kvd {

class CommitLog {
 public:
  // The moments of a commit; tests stop the process at each moment.
  enum class Moment : std::uint8_t {
    kEntryWritten,
    kRecordWritten,
    kPublished,
    kEntryApplied,
    kCleared
  };

  explicit CommitLog(MetaView meta);

  // Starts a new record and discards the entries of an earlier record that was not committed.
  void Begin();
  // Adds an entry and returns the address of its bytes, which may be changed until the commit;
  // null: the bytes do not fit. REQUIRES: offset and bytes.size() are multiples of 8; the bytes lie
  // inside the tables of sequences, snapshots, sessions or histories.
  std::byte* Put(std::uint64_t offset, std::span<const std::byte> bytes);
  // Error: kNoSpace (the entries do not fit one record).
  Status CheckFits() const;
  // Publishes the record and copies its entries to their places. Error: that of CheckFits; nothing
  // has changed then.
  Status Commit();
  // The number of the next commit; every commit increases it.
  std::uint64_t next_number() const { return next_number_; }

  // Applies the published record of `meta`, if there is one, and returns whether there was one;
  // used after a restart. Errors: kCorrupt, naming the field; nothing has changed then. The bytes
  // of `meta` may have any values. REQUIRES: the view's offsets are validated.
  static Result<bool> Replay(MetaView meta);

  void set_probe_for_test(std::function<void(Moment)> probe) { probe_ = std::move(probe); }

 private:
  void Probe(Moment moment) {
    if (probe_) [[unlikely]]
      probe_(moment);
  }

  // Copies the entries of the record to their places in `meta`.
  void Apply();

  MetaView meta_;
  std::uint64_t next_number_;
  std::uint32_t entry_count_ = 0;
  std::uint64_t body_bytes_ = 0;  // includes entries that did not fit
  std::function<void(Moment)> probe_;
};

}  // namespace kvd
