// What the daemon has measured of its steps: the profile, and the choices of matrix products.
#pragma once

#include <string>

#include "shm/verbs_daemon.h"
#include "text/json_builder.h"

namespace kvd::kvctl {

// The choices of matrix products, as kvctl info shows them.

// "f16 bf16 from 8 rows; q8_0 one form, panels from 5 rows; measured before (2026-09-21 14:13:20
// UTC)".
std::string TuningText(const wire::TuningReply& tuning);
Json TuningJson(const wire::TuningReply& tuning);

}  // namespace kvd::kvctl
