// ScriptedSequences: the sequences and snapshots of the scripted daemon, as lists of tokens with
// positions. A plain value; its functions are the daemon's verbs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "shm/verb_table.h"

namespace kvd::test {

struct ScriptedSequence {
  std::uint64_t session = 0;  // 0: of no session: retained, or a snapshot's
  std::vector<wire::TokenAndPosition> cells;
  std::int32_t next_pos = 0;
  bool is_retained = false;
  bool is_published = false;
  std::uint32_t computing = 0;  // generations

  void Append(std::span<const TokenId> tokens);
};

class ScriptedSequences {
 public:
  SequenceHandle Create(std::uint64_t session);
  // Errors: kNotFound, kPermission (of another session, and no snapshot).
  Result<ScriptedSequence*> Find(std::uint64_t session, SequenceHandle handle);
  // As Find; kBusy: a generation computes on it.
  Result<ScriptedSequence*> FindIdle(std::uint64_t session, SequenceHandle handle);
  Result<std::vector<SequenceHandle>> Fork(std::uint64_t session, const wire::ForkArgs& args);
  Status Drop(std::uint64_t session, SequenceHandle handle);
  Status Retain(std::uint64_t session, SequenceHandle handle);
  Result<std::uint64_t> RemoveRange(std::uint64_t session, const wire::RemoveRangeArgs& args);
  Status Shift(std::uint64_t session, const wire::AddArgs& args);
  Result<wire::SequenceEntry> Query(std::uint64_t session, SequenceHandle handle);
  std::vector<wire::SequenceEntry> List() const;
  Result<SequenceHandle> Publish(std::uint64_t session, SequenceHandle handle,
                                 std::string_view name, bool replaces);
  Status Unpublish(std::string_view name);
  Result<SequenceHandle> Attach(std::uint64_t session, std::string_view name);
  std::vector<wire::SnapshotEntry> Snapshots() const;
  // The longest prefix of the tokens that any sequence has.
  std::size_t SharedPrefix(std::span<const TokenId> tokens) const;
  // Drops the session's sequences.
  void End(std::uint64_t session);
  // No generation computes any more.
  void StopComputing();
  // Sequences of the session that are neither retained nor published.
  std::vector<SequenceHandle> Own(std::uint64_t session) const;

 private:
  wire::SequenceEntry EntryOf(SequenceHandle handle, const ScriptedSequence& sequence) const;

  std::map<SequenceHandle, ScriptedSequence> sequences_;
  std::map<std::string, SequenceHandle, std::less<>> snapshots_;
  std::uint32_t made_ = 0;
};

}  // namespace kvd::test
