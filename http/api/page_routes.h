// GET /: a page for a browser, on which a person can try the model.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

// Adds the page, unless the settings say that there is none.
void AddPageRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
