// Snapshots: publishes sequences under names as immutable sequences. Snapshots is a part of Memory.
// Threads: any.
//
// A snapshot is a published sequence and a record with its name; the sequence and the record are
// created in one commit and removed in one commit.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/memory/memory_info.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/request_tag.h"

namespace kvd {

class Snapshots {
 public:
  explicit Snapshots(MemoryStore& store) : store_(store) {}
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  // Publishes a fork of `source` under `name` and returns the snapshot's sequence. `replace`: an
  // existing snapshot with the name `name` is replaced, and its sequence is dropped in the same
  // commit; forks of the old snapshot stay. Errors: kInvalidArgument (a name of 0 or more than
  // kNameMax bytes, or with a zero byte), kNotFound, kExists (the name exists, and `replace` is
  // false), kNoSpace.
  Result<SequenceHandle> Publish(SequenceHandle source, const SequenceOwner& owner,
                                 std::string_view name, bool is_public, bool replace,
                                 const RequestTag& tag = {});
  // Errors of Unpublish and Find: kNotFound.
  Status Unpublish(std::string_view name, const RequestTag& tag = {});
  Result<SnapshotInfo> Find(std::string_view name) const;
  // All snapshots, ordered by name. The list is collected in portions, as by Sequences::List.
  std::vector<SnapshotInfo> List() const;

 private:
  MemoryStore& store_;
};

}  // namespace kvd
