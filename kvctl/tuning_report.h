// The choices of matrix products, as kvctl info shows them.
#pragma once

#include <string>

#include "shm/verbs_daemon.h"
#include "text/json_builder.h"

namespace kvd::kvctl {

// "f16 bf16 from 8 rows; q8_0 one form, panels from 5 rows; measured before (2026-09-21 14:13:20
// UTC)".
std::string TuningText(const wire::TuningReply& tuning);
Json TuningJson(const wire::TuningReply& tuning);

}  // namespace kvd::kvctl
