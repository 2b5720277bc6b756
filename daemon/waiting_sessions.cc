#include "daemon/waiting_sessions.h"

#include <algorithm>
#include <utility>

namespace kvd {

WaitingSessions::WaitingSessions(IoLoop& loop, std::function<void(const StoredSession&)> given_up)
    : loop_(loop), given_up_(std::move(given_up)) {}

void WaitingSessions::Add(const StoredSession& session, std::chrono::milliseconds wait,
                          std::size_t waiting_max, UniqueFd process, Share outliving) {
  const auto of_owner = static_cast<std::size_t>(std::ranges::count_if(
      waiting_, [&](const auto& entry) { return entry.second.session.owner == session.owner; }));
  if (of_owner >= waiting_max) (void)GiveUpOldest(session.owner);
  const std::uint64_t number = ++last_number_;
  const auto give_up = [this, number] { GiveUp(number); };
  Waiting& entry = waiting_[number];
  entry.session = session;
  entry.process = std::move(process);
  entry.outliving = std::move(outliving);
  entry.timer = loop_.After(wait, give_up);
  if (entry.process) entry.process_end = loop_.WatchReadable(entry.process.get(), give_up);
}

std::optional<StoredSession> WaitingSessions::Take(const SessionToken& token, OwnerId owner) {
  const auto found = std::ranges::find_if(waiting_, [&](const auto& entry) {
    return entry.second.session.owner == owner && IsTokenOf(token, entry.second.session);
  });
  if (found == waiting_.end()) return std::nullopt;
  const StoredSession session = found->second.session;
  waiting_.erase(found);
  return session;
}

bool WaitingSessions::GiveUpOldest(OwnerId owner) {
  const auto found = std::ranges::find_if(
      waiting_, [owner](const auto& entry) { return entry.second.session.owner == owner; });
  if (found == waiting_.end()) return false;
  GiveUp(found->first);
  return true;
}

void WaitingSessions::GiveUp(std::uint64_t number) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  const StoredSession session = found->second.session;
  waiting_.erase(found);
  given_up_(session);
}

}  // namespace kvd
