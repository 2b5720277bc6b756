// A client of another uid in this process: the daemon uses the effective uid at the time of the
// connect call. Changing the uid needs root.
#pragma once

#include <sys/types.h>

#include <string>

#include "client/client.h"

namespace kvd::test {

// Connects as uid `uid` and group `gid` without supplementary groups, and then makes the process
// root again. REQUIRES: the process is root and no other thread runs, because the effective uid
// belongs to the whole process.
Result<Client> ConnectAs(uid_t uid, gid_t gid, const ConnectOptions& options);

}  // namespace kvd::test
