// Site: what all connections of a server share. The listener and the connections own it together;
// the loop's thread uses it.
#pragma once

#include <memory>
#include <vector>

#include "http/serve/access.h"
#include "http/serve/address_range.h"
#include "http/serve/held_bodies.h"
#include "http/serve/limits.h"
#include "http/serve/router.h"

namespace kvd::http {

struct Site {
  const Router& router;
  const Access& access;
  ServeLimits limits;
  // The proxies whose X-Forwarded-For names the address of a request.
  std::vector<AddressRange> trusted_proxies;
  std::shared_ptr<HeldBodies> bodies;
};

}  // namespace kvd::http
