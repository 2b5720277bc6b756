#include "tests/fuzz/scripted_sequences.h"

#include <algorithm>
#include <utility>

namespace kvd::test {
namespace {

constexpr std::size_t kShortestShared = 16;

std::unexpected<Error> NoSequence(SequenceHandle handle) {
  return Fail(Code::kNotFound, "sequence ", static_cast<std::uint64_t>(handle), ": no such handle");
}

}  // namespace

void ScriptedSequence::Append(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) cells.push_back({token, next_pos++});
}

SequenceHandle ScriptedSequences::Create(std::uint64_t session) {
  const SequenceHandle handle = MakeHandle(++made_, 1);
  sequences_[handle].session = session;
  return handle;
}

Result<ScriptedSequence*> ScriptedSequences::Find(std::uint64_t session, SequenceHandle handle) {
  const auto found = sequences_.find(handle);
  if (found == sequences_.end()) return NoSequence(handle);
  const bool is_own = found->second.session == session;
  if (!is_own && !found->second.is_published) {
    return Fail(Code::kPermission, "sequence: belongs to another session");
  }
  return &found->second;
}

Result<ScriptedSequence*> ScriptedSequences::FindIdle(std::uint64_t session,
                                                      SequenceHandle handle) {
  KVD_TRY(ScriptedSequence * sequence, Find(session, handle));
  if (sequence->computing != 0) return Fail(Code::kBusy, "sequence: a request computes on it");
  if (sequence->is_published) return Fail(Code::kPermission, "sequence: a snapshot is immutable");
  return sequence;
}

Result<std::vector<SequenceHandle>> ScriptedSequences::Fork(std::uint64_t session,
                                                            const wire::ForkArgs& args) {
  KVD_TRY(const ScriptedSequence* const source, Find(session, args.sequence));
  ScriptedSequence fork{.session = session, .cells = source->cells, .next_pos = source->next_pos};
  if (args.cells) {
    if (*args.cells > fork.cells.size()) {
      return Fail(Code::kInvalidArgument, "cells: ", *args.cells, ", the sequence has ",
                  fork.cells.size());
    }
    fork.cells.resize(*args.cells);
    fork.next_pos = fork.cells.empty() ? 0 : fork.cells.back().pos + 1;
  }
  std::vector<SequenceHandle> handles;
  for (std::uint32_t i = 0; i < args.count; ++i) {
    handles.push_back(Create(session));
    sequences_[handles.back()] = fork;
  }
  return handles;
}

Status ScriptedSequences::Drop(std::uint64_t session, SequenceHandle handle) {
  KVD_TRY(const ScriptedSequence* const sequence, Find(session, handle));
  if (sequence->is_published) return Fail(Code::kPermission, "sequence: a snapshot's");
  sequences_.erase(handle);
  return {};
}

Status ScriptedSequences::Retain(std::uint64_t session, SequenceHandle handle) {
  KVD_TRY(ScriptedSequence* const sequence, FindIdle(session, handle));
  if (sequence->cells.size() < kShortestShared) {
    sequences_.erase(handle);
    return {};
  }
  sequence->is_retained = true;
  sequence->session = 0;
  return {};
}

Result<std::uint64_t> ScriptedSequences::RemoveRange(std::uint64_t session,
                                                     const wire::RemoveRangeArgs& args) {
  KVD_TRY(ScriptedSequence* const sequence, FindIdle(session, args.sequence));
  const auto is_inside = [&](const wire::TokenAndPosition& cell) {
    return cell.pos >= args.range.begin.value && cell.pos < args.range.end.value;
  };
  const bool has_tail = args.range.end.value >= sequence->next_pos;
  const std::size_t removed = std::erase_if(sequence->cells, is_inside);
  if (has_tail) {
    sequence->next_pos = sequence->cells.empty() ? 0 : sequence->cells.back().pos + 1;
  }
  return removed;
}

Status ScriptedSequences::Shift(std::uint64_t session, const wire::AddArgs& args) {
  KVD_TRY(ScriptedSequence* const sequence, FindIdle(session, args.sequence));
  std::int32_t before = -1;
  std::vector<wire::TokenAndPosition> shifted = sequence->cells;
  for (wire::TokenAndPosition& cell : shifted) {
    const bool is_inside = cell.pos >= args.range.begin.value && cell.pos < args.range.end.value;
    if (is_inside) cell.pos += args.delta;
    if (cell.pos <= before) return Fail(Code::kInvalidArgument, "delta: positions would overlap");
    before = cell.pos;
  }
  sequence->cells = std::move(shifted);
  sequence->next_pos = before + 1;
  return {};
}

wire::SequenceEntry ScriptedSequences::EntryOf(SequenceHandle handle,
                                               const ScriptedSequence& sequence) const {
  wire::SequenceEntry entry{};
  entry.handle = static_cast<std::uint64_t>(handle);
  entry.session = sequence.session;
  entry.flags = layout::kSequenceLive | (sequence.is_retained ? layout::kSequenceRetained : 0u) |
                (sequence.is_published ? layout::kSequencePublished : 0u);
  entry.cell_count = static_cast<std::uint32_t>(sequence.cells.size());
  entry.first_pos = sequence.cells.empty() ? 0 : sequence.cells.front().pos;
  entry.next_pos = sequence.next_pos;
  return entry;
}

Result<wire::SequenceEntry> ScriptedSequences::Query(std::uint64_t session, SequenceHandle handle) {
  KVD_TRY(const ScriptedSequence* const sequence, Find(session, handle));
  return EntryOf(handle, *sequence);
}

std::vector<wire::SequenceEntry> ScriptedSequences::List() const {
  std::vector<wire::SequenceEntry> entries;
  for (const auto& [handle, sequence] : sequences_) entries.push_back(EntryOf(handle, sequence));
  return entries;
}

Result<SequenceHandle> ScriptedSequences::Publish(std::uint64_t session, SequenceHandle handle,
                                                  std::string_view name, bool replaces) {
  KVD_TRY(const ScriptedSequence* const source, Find(session, handle));
  if (snapshots_.contains(name)) {
    if (!replaces) return Fail(Code::kExists, "name: a snapshot has it");
    KVD_CHECK_OK(Unpublish(name));
  }
  ScriptedSequence copy = *source;
  copy.session = 0;
  copy.computing = 0;
  copy.is_published = true;
  const SequenceHandle made = Create(0);
  sequences_[made] = std::move(copy);
  snapshots_.emplace(name, made);
  return made;
}

Status ScriptedSequences::Unpublish(std::string_view name) {
  const auto found = snapshots_.find(name);
  if (found == snapshots_.end()) return Fail(Code::kNotFound, "name: no such snapshot");
  sequences_.erase(found->second);
  snapshots_.erase(found);
  return {};
}

Result<SequenceHandle> ScriptedSequences::Attach(std::uint64_t session, std::string_view name) {
  const auto found = snapshots_.find(name);
  if (found == snapshots_.end()) return Fail(Code::kNotFound, "name: no such snapshot");
  const wire::ForkArgs args{.sequence = found->second, .cells = {}, .count = 1, .ttl_seconds = 0};
  KVD_TRY(const std::vector<SequenceHandle> handles, Fork(session, args));
  return handles.front();
}

std::vector<wire::SnapshotEntry> ScriptedSequences::Snapshots() const {
  std::vector<wire::SnapshotEntry> entries;
  for (const auto& [name, handle] : snapshots_) {
    wire::SnapshotEntry entry{};
    name.copy(entry.name, sizeof entry.name - 1);
    entry.sequence = static_cast<std::uint64_t>(handle);
    entry.cell_count = static_cast<std::uint32_t>(sequences_.at(handle).cells.size());
    entry.age_ms = entries.size();
    entries.push_back(entry);
  }
  return entries;
}

std::size_t ScriptedSequences::SharedPrefix(std::span<const TokenId> tokens) const {
  std::size_t longest = 0;
  for (const auto& [handle, sequence] : sequences_) {
    std::size_t common = 0;
    const std::size_t most = std::min(tokens.size(), sequence.cells.size());
    while (common < most && sequence.cells[common].token == tokens[common]) ++common;
    longest = std::max(longest, common);
  }
  longest = std::min(longest, tokens.empty() ? 0 : tokens.size() - 1);
  return longest < kShortestShared ? 0 : longest;
}

void ScriptedSequences::End(std::uint64_t session) {
  std::erase_if(sequences_, [&](const auto& entry) {
    return entry.second.session == session && !entry.second.is_published;
  });
}

void ScriptedSequences::StopComputing() {
  for (auto& [handle, sequence] : sequences_) sequence.computing = 0;
}

std::vector<SequenceHandle> ScriptedSequences::Own(std::uint64_t session) const {
  std::vector<SequenceHandle> own;
  for (const auto& [handle, sequence] : sequences_) {
    if (sequence.session == session && !sequence.is_published) own.push_back(handle);
  }
  return own;
}

}  // namespace kvd::test
