#include "tests/e2e/support/user_client.h"

#include <grp.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kvd::test {

Result<Client> ConnectAs(uid_t uid, gid_t gid, const ConnectOptions& options) {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const gid_t own_group = ::getegid();
  if (::getgroups(static_cast<int>(groups.size()), groups.data()) < 0) {
    return FailErrno("getgroups");
  }
  if (::setgroups(0, nullptr) != 0 || ::setegid(gid) != 0 || ::seteuid(uid) != 0) {
    return FailErrno("becoming uid " + std::to_string(uid));
  }
  Result<Client> client = Client::Connect(options);
  if (::seteuid(0) != 0 || ::setegid(own_group) != 0 ||
      ::setgroups(groups.size(), groups.data()) != 0) {
    return FailErrno("becoming root again");
  }
  return client;
}

}  // namespace kvd::test
