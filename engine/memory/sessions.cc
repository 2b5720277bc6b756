// Sessions and their windows of applied requests are records of `meta`, and commits change them
// like all other records.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/text.h"
#include "engine/memory/sequences.h"
#include "engine/memory/sessions.h"
#include "engine/memory/transaction.h"

namespace kvd {
namespace {

std::string SessionText(SessionId session) {
  return Concat("session ", static_cast<std::uint64_t>(session));
}

}  // namespace

Status Sessions::Open(const SessionEntry& session) {
  const MutexLock lock(store_.mutex);
  const auto id = static_cast<std::uint64_t>(session.id);
  if (id == 0) return Fail(Code::kInvalidArgument, "session: 0 is not a session id");
  if (store_.tables.sessions_by_id.contains(id)) {
    return Fail(Code::kExists, SessionText(session.id), ": is already stored");
  }
  Transaction transaction(store_);
  const std::optional<std::uint32_t> index = transaction.TakeSession();
  if (!index) {
    return Fail(Code::kNoSpace, "sessions: all ", store_.tables.sessions.capacity(),
                " records are in use");
  }
  layout::SessionRecord record = {};
  record.session = id;
  record.owner = static_cast<std::uint64_t>(session.owner);
  std::ranges::copy(session.note, record.note);
  transaction.PutSession(*index, record);
  return transaction.Commit();
}

Status Sessions::Close(SessionId session) {
  const MutexLock lock(store_.mutex);
  const auto found = store_.tables.sessions_by_id.find(static_cast<std::uint64_t>(session));
  if (found == store_.tables.sessions_by_id.end()) {
    return Fail(Code::kNotFound, SessionText(session), ": is not stored");
  }
  Transaction transaction(store_);
  transaction.PutSession(found->second, {});
  return transaction.Commit();
}

Status Sessions::SetNote(SessionId session, const SessionNote& note) {
  const MutexLock lock(store_.mutex);
  const auto found = store_.tables.sessions_by_id.find(static_cast<std::uint64_t>(session));
  if (found == store_.tables.sessions_by_id.end()) {
    return Fail(Code::kNotFound, SessionText(session), ": is not stored");
  }
  layout::SessionRecord record = store_.meta.sessions()[found->second];
  std::ranges::copy(note, record.note);
  Transaction transaction(store_);
  transaction.PutSessionNote(found->second, record);
  return transaction.Commit();
}

std::vector<SessionEntry> Sessions::List() const {
  std::vector<SessionEntry> sessions;
  std::uint64_t next_id = 0;
  std::size_t count = Sequences::kListedAtOnce;
  while (count == Sequences::kListedAtOnce) {
    if (sessions.capacity() - sessions.size() < Sequences::kListedAtOnce)
      sessions.reserve(2 * sessions.size() + Sequences::kListedAtOnce);
    const MutexLock lock(store_.mutex);
    count = 0;
    for (auto at = store_.tables.sessions_by_id.lower_bound(next_id);
         at != store_.tables.sessions_by_id.end() && count < Sequences::kListedAtOnce;
         ++at, ++count) {
      const layout::SessionRecord& record = store_.meta.sessions()[at->second];
      SessionEntry& session = sessions.emplace_back();
      session.id = static_cast<SessionId>(at->first);
      session.owner = OwnerId{record.owner};
      std::ranges::copy(record.note, session.note.begin());
      next_id = at->first + 1;
    }
    store_.NoteLooks(count);
    if (next_id == 0) break;  // the largest possible id has been listed
  }
  return sessions;
}

SessionId Sessions::Last() const {
  const MutexLock lock(store_.mutex);
  const std::uint64_t stored =
      store_.tables.sessions_by_id.empty() ? 0 : store_.tables.sessions_by_id.rbegin()->first;
  return static_cast<SessionId>(std::max(stored, store_.tables.owners.LastSession()));
}

Status Sessions::Remember(const RequestTag& tag, Stage stage, std::uint32_t cells) {
  const MutexLock lock(store_.mutex);
  if (!tag.is_somebodys() ||
      !store_.tables.sessions_by_id.contains(static_cast<std::uint64_t>(tag.session))) {
    return {};
  }
  Transaction transaction(store_, tag);
  transaction.Answer(SequenceHandle::kNone, cells, 0,
                     stage == Stage::kBegun ? layout::kAppliedBegun : layout::kAppliedEnded);
  return transaction.Commit();
}

Result<AppliedReply> Sessions::FindApplied(SessionId session, RequestId request) const {
  const MutexLock lock(store_.mutex);
  const auto wanted = static_cast<std::uint64_t>(request);
  const std::string name = Concat("request ", wanted, " of ", SessionText(session));
  const auto found = store_.tables.sessions_by_id.find(static_cast<std::uint64_t>(session));
  if (found == store_.tables.sessions_by_id.end() || wanted == 0) {
    return Fail(Code::kNotFound, name, ": has no record");
  }
  bool may_be_forgotten = true;
  for (const layout::AppliedRecord& applied : store_.meta.sessions()[found->second].applied) {
    if (applied.request == wanted) {
      return AppliedReply{.sequence = static_cast<SequenceHandle>(applied.sequence),
                          .cells = applied.cells,
                          .replayed = applied.replayed,
                          .kind = applied.verb,
                          .created = applied.created,
                          .has_ended = applied.state == layout::kAppliedEnded};
    }
    // The record with the lowest id is overwritten first, so a missing record may have been
    // overwritten only if its id is below all recorded ids.
    may_be_forgotten = may_be_forgotten && applied.request > wanted;
  }
  if (may_be_forgotten) {
    return Fail(Code::kConflict, name, ": ", layout::kAppliedMax,
                " later requests were applied, so its record may have been overwritten");
  }
  return Fail(Code::kNotFound, name, ": was not applied");
}

RequestId Sessions::LastRequest(SessionId session) const {
  const MutexLock lock(store_.mutex);
  const auto id = static_cast<std::uint64_t>(session);
  std::uint64_t last = store_.tables.owners.LastRequest(id);
  if (const auto found = store_.tables.sessions_by_id.find(id);
      found != store_.tables.sessions_by_id.end()) {
    for (const layout::AppliedRecord& applied : store_.meta.sessions()[found->second].applied) {
      last = std::max(last, applied.request);
    }
  }
  return static_cast<RequestId>(last);
}

std::vector<SequenceHandle> Sessions::CreatedBy(SessionId session, RequestId request) const {
  const MutexLock lock(store_.mutex);
  std::vector<SequenceHandle> handles;
  if (request == RequestId{}) return handles;
  for (const std::uint32_t index : store_.tables.owners.CreatedBy(
           static_cast<std::uint64_t>(session), static_cast<std::uint64_t>(request))) {
    handles.push_back(MakeHandle(index, store_.meta.sequences()[index].generation));
  }
  store_.NoteLooks(handles.size());
  return handles;
}

}  // namespace kvd
