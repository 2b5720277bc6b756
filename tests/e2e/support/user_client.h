// A client of another uid in this process: the daemon takes a connection's uid from the effective
// one at the time it connects. Becoming one needs root.
#pragma once

#include <sys/types.h>

#include <string>

#include "client/client.h"

namespace kvd::test {

// Connects as that user and group, without other groups, and is root again. REQUIRES: root; no other
// thread runs, since a process has one effective uid.
Result<Client> ConnectAs(uid_t uid, gid_t gid, const ConnectOptions& options);

}  // namespace kvd::test
