// Sessions and their windows of applied requests: records of `meta`, changed by the same commits as
// everything else.
#include <algorithm>
#include <cstring>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"

namespace kvd {
namespace {

std::string SessionText(SessionId session) {
  return "session " + std::to_string(static_cast<std::uint64_t>(session));
}

}  // namespace

Status UnifiedMemory::OpenSession(const StoredSession& session) {
  const MutexLock lock(mutex_);
  const auto id = static_cast<std::uint64_t>(session.id);
  if (id == 0) return Fail(Code::kInvalidArgument, "session: 0 is none");
  if (tables_.sessions_by_id.contains(id)) {
    return Fail(Code::kExists, SessionText(session.id) + ": is stored already");
  }
  const auto index = tables_.sessions.TakeLowest();
  if (!index) {
    return Fail(Code::kNoSpace, "sessions: all " + std::to_string(tables_.sessions.capacity()) +
                                    " records are taken");
  }
  layout::SessionRecord record = {};
  record.session = id;
  record.owner_uid = session.owner_uid;
  std::ranges::copy(session.token_key, record.token_key);
  std::ranges::copy(session.token_hash, record.token_hash);
  record.client_pid = session.process.pid;
  record.client_start = session.process.start;
  record.pid_namespace = session.process.pid_namespace;
  log_.Begin();
  log_.Put(meta_.session_offset(*index), std::as_bytes(std::span(&record, 1)));
  if (Status status = log_.Commit(); !status) {
    tables_.sessions.Give(*index);
    return status;
  }
  tables_.sessions_by_id.emplace(id, *index);
  return {};
}

Status UnifiedMemory::CloseSession(SessionId session) {
  const MutexLock lock(mutex_);
  const auto found = tables_.sessions_by_id.find(static_cast<std::uint64_t>(session));
  if (found == tables_.sessions_by_id.end()) {
    return Fail(Code::kNotFound, SessionText(session) + ": is not stored");
  }
  const layout::SessionRecord nothing = {};
  log_.Begin();
  log_.Put(meta_.session_offset(found->second), std::as_bytes(std::span(&nothing, 1)));
  KVD_CHECK_OK(log_.Commit());
  tables_.sessions.Give(found->second);
  tables_.sessions_by_id.erase(found);
  return {};
}

Status UnifiedMemory::SetSessionProcess(SessionId session, const ClientProcess& process) {
  const MutexLock lock(mutex_);
  const auto found = tables_.sessions_by_id.find(static_cast<std::uint64_t>(session));
  if (found == tables_.sessions_by_id.end()) {
    return Fail(Code::kNotFound, SessionText(session) + ": is not stored");
  }
  // All but the window.
  layout::SessionRecord record = meta_.sessions()[found->second];
  record.client_pid = process.pid;
  record.client_start = process.start;
  record.pid_namespace = process.pid_namespace;
  log_.Begin();
  log_.Put(meta_.session_offset(found->second),
           std::as_bytes(std::span(&record, 1)).first(offsetof(layout::SessionRecord, applied)));
  return log_.Commit();
}

std::vector<StoredSession> UnifiedMemory::StoredSessions() const {
  std::vector<StoredSession> sessions;
  std::uint64_t next_id = 0;
  std::size_t count = kListedAtOnce;
  while (count == kListedAtOnce) {
    if (sessions.capacity() - sessions.size() < kListedAtOnce)
      sessions.reserve(2 * sessions.size() + kListedAtOnce);
    const MutexLock lock(mutex_);
    count = 0;
    for (auto at = tables_.sessions_by_id.lower_bound(next_id);
         at != tables_.sessions_by_id.end() && count < kListedAtOnce; ++at, ++count) {
      const layout::SessionRecord& record = meta_.sessions()[at->second];
      StoredSession& session = sessions.emplace_back();
      session.id = static_cast<SessionId>(at->first);
      session.owner_uid = record.owner_uid;
      std::ranges::copy(record.token_key, session.token_key.begin());
      std::ranges::copy(record.token_hash, session.token_hash.begin());
      session.process = {record.client_pid, record.client_start, record.pid_namespace};
      next_id = at->first + 1;
    }
    NoteLooks(count);
    if (next_id == 0) break;  // behind the largest id there is
  }
  return sessions;
}

SessionId UnifiedMemory::LastSession() const {
  const MutexLock lock(mutex_);
  const std::uint64_t stored =
      tables_.sessions_by_id.empty() ? 0 : tables_.sessions_by_id.rbegin()->first;
  return static_cast<SessionId>(std::max(stored, tables_.owners.LastSession()));
}

Status UnifiedMemory::Remember(const AppliedRequest& applied, Stage stage, std::uint32_t cells) {
  const MutexLock lock(mutex_);
  if (!applied.is_somebodys() ||
      !tables_.sessions_by_id.contains(static_cast<std::uint64_t>(applied.session))) {
    return {};
  }
  const Applying applying(this, applied);
  log_.Begin();
  PutApplied(SequenceHandle::kNone, cells, 0,
             stage == Stage::kBegun ? layout::kAppliedBegun : layout::kAppliedEnded);
  return log_.Commit();
}

Result<AppliedReply> UnifiedMemory::FindApplied(SessionId session, RequestId request) const {
  const MutexLock lock(mutex_);
  const auto wanted = static_cast<std::uint64_t>(request);
  const std::string name = "request " + std::to_string(wanted) + " of " + SessionText(session);
  const auto found = tables_.sessions_by_id.find(static_cast<std::uint64_t>(session));
  if (found == tables_.sessions_by_id.end() || wanted == 0) {
    return Fail(Code::kNotFound, name + ": nothing is known of it");
  }
  bool may_be_forgotten = true;
  for (const layout::AppliedRecord& applied : meta_.sessions()[found->second].applied) {
    if (applied.request == wanted) {
      return AppliedReply{.sequence = static_cast<SequenceHandle>(applied.sequence),
                          .cells = applied.cells,
                          .replayed = applied.replayed,
                          .verb = applied.verb,
                          .created = applied.created,
                          .has_ended = applied.state == layout::kAppliedEnded};
    }
    // The places of the lowest ids are used again: only below all of them something may be missing.
    may_be_forgotten = may_be_forgotten && applied.request > wanted;
  }
  if (may_be_forgotten) {
    return Fail(Code::kConflict, name + ": " + std::to_string(layout::kAppliedMax) +
                                     " later ones were applied, so it is not known any more "
                                     "whether it was");
  }
  return Fail(Code::kNotFound, name + ": was not applied");
}

RequestId UnifiedMemory::LastRequest(SessionId session) const {
  const MutexLock lock(mutex_);
  const auto id = static_cast<std::uint64_t>(session);
  std::uint64_t last = tables_.owners.LastRequest(id);
  if (const auto found = tables_.sessions_by_id.find(id); found != tables_.sessions_by_id.end()) {
    for (const layout::AppliedRecord& applied : meta_.sessions()[found->second].applied) {
      last = std::max(last, applied.request);
    }
  }
  return static_cast<RequestId>(last);
}

std::vector<SequenceHandle> UnifiedMemory::CreatedBy(SessionId session, RequestId request) const {
  const MutexLock lock(mutex_);
  std::vector<SequenceHandle> handles;
  if (request == RequestId{}) return handles;
  for (const std::uint32_t index : tables_.owners.CreatedBy(static_cast<std::uint64_t>(session),
                                                            static_cast<std::uint64_t>(request))) {
    handles.push_back(MakeHandle(index, meta_.sequences()[index].generation));
  }
  NoteLooks(handles.size());
  return handles;
}

void UnifiedMemory::PutApplied(SequenceHandle sequence, std::uint32_t cells, std::size_t created,
                               layout::AppliedState state) {
  if (applying_ == nullptr || !applying_->completes) return;
  const auto found = tables_.sessions_by_id.find(static_cast<std::uint64_t>(applying_->session));
  if (found == tables_.sessions_by_id.end()) return;  // a session that cannot be taken up again
  const auto& window = meta_.sessions()[found->second].applied;
  const auto request = static_cast<std::uint64_t>(applying_->request);
  // Its own place, if it is remembered as begun.
  const auto* at = std::ranges::find(window, request, &layout::AppliedRecord::request);
  if (at == std::end(window)) {
    at = std::ranges::min_element(window, {}, &layout::AppliedRecord::request);
  }
  const auto place = static_cast<std::uint64_t>(at - window);
  const layout::AppliedRecord record{.request = request,
                                     .sequence = static_cast<std::uint64_t>(sequence),
                                     .cells = cells,
                                     .replayed = applying_->replayed,
                                     .verb = applying_->verb,
                                     .created = static_cast<std::uint16_t>(created),
                                     .state = state};
  log_.Put(meta_.session_offset(found->second) + offsetof(layout::SessionRecord, applied) +
               place * sizeof record,
           std::as_bytes(std::span(&record, 1)));
}

Status UnifiedMemory::CommitNothing(SequenceHandle sequence) {
  if (applying_ == nullptr || !applying_->completes) return {};
  log_.Begin();
  PutApplied(sequence, 0);
  return log_.Commit();
}

void UnifiedMemory::EndRequest(layout::SequenceRecord* record) const {
  if (record->request == 0) return;
  if (applying_ != nullptr || record->request_first_cell > record->cell_count) {
    record->request_first_cell = layout::kNoSlot;
  }
}

}  // namespace kvd
