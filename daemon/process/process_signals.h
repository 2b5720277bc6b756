// The signals of the daemon's process: which of them stop the daemon, and what a fault does.
//
// The dispositions of signals belong to the process, so only main calls OpenSignals.
#pragma once

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd {

// Returns a descriptor that receives SIGTERM, SIGINT and SIGHUP, which are blocked in every thread.
// From then on SIGABRT and SIGBUS write the queued log lines before the process ends, and SIGPIPE
// and SIGXFSZ are ignored. REQUIRES: no thread has been started.
Result<UniqueFd> OpenSignals();

}  // namespace kvd
