// The owner that the tests of permissions and limits use beside the daemon's own uid: another uid,
// or a tenant of the daemon's own uid if the environment variable KVD_OTHER_IS_A_TENANT is set.
// Another uid needs root.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <regex>
#include <string>
#include <utility>

#include "client/handshake.h"
#include "tests/e2e/support/user_process.h"

namespace kvd::test {

inline const bool kOtherIsTenant = std::getenv("KVD_OTHER_IS_A_TENANT") != nullptr;
inline const uid_t kOtherUid = kOtherIsTenant ? ::geteuid() : 65534;
inline const uid_t kThirdUid = kOtherIsTenant ? ::geteuid() : 65533;

inline bool MayBeOther() { return kOtherIsTenant || ::geteuid() == 0; }

// Adds the tenant to the options if the other owners are tenants. `number`: 1 for the other owner,
// 2 for the third one.
inline ConnectOptions OptionsOfOther(ConnectOptions options, std::uint8_t number = 1) {
  if (kOtherIsTenant) options.tenant = {number};
  return options;
}

// Runs `body` in a process of the other uid, or in this process for a tenant.
inline Complaints AsOtherOwner(const std::function<Complaints()>& body, uid_t uid = kOtherUid) {
  return kOtherIsTenant ? body() : AsUser(uid, 65534, body);
}

// Returns the message with the number of a tenant replaced by "65534".
inline std::string WithUidOfOther(const std::string& message) {
  return std::regex_replace(message, std::regex("owner [0-9]{19}"), "owner 65534");
}

}  // namespace kvd::test
