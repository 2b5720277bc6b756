// The routes of slots: GET /slots, and POST /slots/{id}?action=save, restore and erase. A tenant
// sees its own slots.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddSlotRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
