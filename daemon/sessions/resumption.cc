#include "daemon/sessions/resumption.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/siphash.h"
#include "shm/wire_messages.h"

namespace kvd {
namespace {

// The bytes of a session's note in `meta`.
struct NoteBytes {
  std::array<std::uint8_t, 16> token_key;
  std::array<std::uint8_t, 16> token_hash;
  std::uint64_t client_start;
  std::uint32_t client_pid;
  std::uint32_t pid_namespace;
  std::uint32_t outlive_seconds;
  std::uint32_t reserved[3];
};
static_assert(sizeof(NoteBytes) == layout::kSessionNoteBytes &&
              std::has_unique_object_representations_v<NoteBytes>);

}  // namespace

SessionNote NoteOf(const StoredSession& session) {
  const NoteBytes bytes{.token_key = session.token_key,
                        .token_hash = session.token_hash,
                        .client_start = session.process.start,
                        .client_pid = session.process.pid,
                        .pid_namespace = session.process.pid_namespace,
                        .outlive_seconds = session.outlive_seconds,
                        .reserved = {}};
  SessionNote note;
  std::memcpy(note.data(), &bytes, sizeof bytes);
  return note;
}

SessionEntry EntryOf(const StoredSession& session) {
  return {.id = session.id, .owner = session.owner, .note = NoteOf(session)};
}

StoredSession SessionOf(const SessionEntry& entry) {
  NoteBytes bytes;
  std::memcpy(&bytes, entry.note.data(), sizeof bytes);
  return {.id = entry.id,
          .owner = entry.owner,
          .token_key = bytes.token_key,
          .token_hash = bytes.token_hash,
          .process = {.pid = bytes.client_pid,
                      .start = bytes.client_start,
                      .pid_namespace = bytes.pid_namespace},
          .outlive_seconds = std::min(bytes.outlive_seconds, wire::kOutliveSecondsMax)};
}

namespace {

std::array<std::uint8_t, 16> HashOf(const SessionToken& token,
                                    const std::array<std::uint8_t, 16>& key) {
  std::uint64_t words[2];
  std::memcpy(words, key.data(), sizeof words);
  const std::string_view bytes(reinterpret_cast<const char*>(token.data()), token.size());
  const std::uint64_t hashes[2] = {SipHash24(words[0], words[1], bytes),
                                   SipHash24(words[1], ~words[0], bytes)};
  std::array<std::uint8_t, 16> hash;
  std::memcpy(hash.data(), hashes, sizeof hashes);
  return hash;
}

Status DrawBytes(std::array<std::uint8_t, 16>* bytes) {
  if (::getrandom(bytes->data(), bytes->size(), 0) == static_cast<ssize_t>(bytes->size())) {
    return {};
  }
  return FailErrno("session token");
}

}  // namespace

Result<IssuedToken> IssueToken(SessionId session, OwnerId owner) {
  IssuedToken issued;
  KVD_CHECK_OK(DrawBytes(&issued.token));
  issued.session.id = session;
  issued.session.owner = owner;
  KVD_CHECK_OK(DrawBytes(&issued.session.token_key));
  issued.session.token_hash = HashOf(issued.token, issued.session.token_key);
  return issued;
}

bool IsTokenOf(const SessionToken& token, const StoredSession& session) {
  const auto hash = HashOf(token, session.token_key);
  unsigned difference = 0;
  for (std::size_t i = 0; i < hash.size(); ++i) {
    difference |= static_cast<unsigned>(hash[i] ^ session.token_hash[i]);
  }
  return difference == 0;
}

std::uint64_t SessionSeed(const StoredSession& session) {
  std::uint64_t words[2];
  std::memcpy(words, session.token_hash.data(), sizeof words);
  return words[0] ^ words[1];
}

std::uint64_t SeedOf(std::uint64_t session_seed, RequestId request) {
  const auto number = static_cast<std::uint64_t>(request);
  const std::string_view bytes(reinterpret_cast<const char*>(&number), sizeof number);
  const std::uint64_t seed = SipHash24(session_seed, 0, bytes);
  return seed == 0 ? 1 : seed;
}

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
