#include "daemon/session_tokens.h"

#include <sys/random.h>

#include <cstring>
#include <string_view>

#include "base/siphash.h"

namespace kvd {
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

}  // namespace kvd
