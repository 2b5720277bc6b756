// Snapshots: published, named, immutable sequences. Part of Memory. Threads: any.
//
// A snapshot is a published sequence and a record that names it; both appear and go in one commit.
#pragma once

#include <string_view>
#include <vector>

#include "engine/memory/memory_info.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/request_tag.h"
#include "shm/error.h"

namespace kvd {

class Snapshots {
 public:
  explicit Snapshots(MemoryStore& store) : store_(store) {}
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  // Publishes a fork of `source` under `name`. Returns the snapshot's sequence. `replace`: the old
  // snapshot's sequence is dropped in the same commit; forks of it live on. Errors: kInvalidArgument (a
  // name of 0 or more than kNameBytesMax bytes, or with a zero byte), kNotFound, kExists (the name,
  // without `replace`), kNoSpace.
  Result<SequenceHandle> Publish(SequenceHandle source, const SequenceOwner& owner,
                                 std::string_view name, bool is_public, bool replace,
                                 const RequestTag& tag = {});
  // Errors of these: kNotFound.
  Status Unpublish(std::string_view name, const RequestTag& tag = {});
  Result<SnapshotInfo> Find(std::string_view name) const;
  // By name, in portions as Sequences::List.
  std::vector<SnapshotInfo> List() const;

 private:
  MemoryStore& store_;
};

}  // namespace kvd
