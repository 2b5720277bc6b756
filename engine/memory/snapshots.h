// Snapshots: publishes sequences under names as immutable sequences. Snapshots is a part of Memory.
// Threads: any.
//
// A snapshot is a published sequence and a record with its name; the sequence and the record are
// created in one commit and removed in one commit. Names are unique among the snapshots of an
// owner, and among the public snapshots of all owners.
#pragma once

#include <cstdint>
#include <optional>
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
  // kNameMax bytes, or with a zero byte), kNotFound, kExists (the owner has a snapshot
  // of this name, and `replace` is false; or another owner has a public snapshot of this name, and
  // `is_public` is true), kNoSpace.
  Result<SequenceHandle> Publish(SequenceHandle source, const SequenceOwner& owner,
                                 std::string_view name, bool is_public, bool replace,
                                 const RequestTag& tag = {});
  // Removes the owner's snapshot of this name. Error: kNotFound.
  Status Unpublish(std::string_view name, OwnerId owner, const RequestTag& tag = {});
  // Finds the viewer's snapshot of this name, or else the public one. Error: kNotFound.
  Result<SnapshotInfo> Find(std::string_view name, OwnerId viewer) const;
  // All snapshots, ordered by name, then by owner. The list is collected in portions, as by
  // Sequences::List.
  std::vector<SnapshotInfo> List() const;

 private:
  // The record of the public snapshot of this name; nullopt: there is none.
  std::optional<std::uint32_t> FindPublic(std::string_view name) const KVD_REQUIRES(store_.mutex);

  MemoryStore& store_;
};

}  // namespace kvd
