// The host of a Host header, of an Origin and of --host.
#pragma once

#include <string>
#include <string_view>

namespace kvd::http {

// "localhost:8080" > "localhost", "[::1]:80" > "::1", "::1" > "::1"; in lower case.
std::string HostWithoutPort(std::string_view host);

// Returns whether a host without its port is this machine's loopback: 127.0.0.0/8, ::1, these as
// IPv4-mapped addresses, or localhost.
bool IsLoopbackHost(std::string_view host);

// Returns the host of an origin, "https://name:port", without its port; empty if `origin` is no
// origin of http or https.
std::string HostOfOrigin(std::string_view origin);

}  // namespace kvd::http
