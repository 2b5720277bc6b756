// The address of a client that a proxy names in X-Forwarded-For.
#pragma once

#include <optional>
#include <vector>

#include "http/serve/ip_address.h"
#include "http/serve/request.h"

namespace kvd::http {

// Returns the last address of the last X-Forwarded-For, which is the peer that the proxy itself has
// seen: any client can send the addresses before it. An address may be in brackets and have a port.
// None: there is no such header, or its last part is no IP address ("unknown", "_hidden", "").
// REQUIRES, for an answer that can be trusted: the peer of the connection is a trusted proxy.
std::optional<IpAddress> ForwardedAddress(const std::vector<Header>& headers);

}  // namespace kvd::http
