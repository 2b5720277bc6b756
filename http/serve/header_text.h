// The text of headers: comparisons, and the host that Host and Origin name.
#pragma once

#include <string>
#include <string_view>

namespace kvd::http {

// Functions for the text of headers, which HTTP compares without regard to case (ASCII only).

bool EqualsIgnoringCase(std::string_view a, std::string_view b);
// Returns whether a header value with parts between commas ("gzip, chunked") has this part.
bool HasToken(std::string_view value, std::string_view token);
// Returns the value of a hexadecimal digit; -1: not one.
int HexDigit(char character);
// Removes spaces and tabs from both ends.
std::string_view Trimmed(std::string_view text);
// Returns the text before the next `separator`, and removes both from `rest`.
std::string_view TakeUntil(std::string_view& rest, char separator);

// The host of a Host header, of an Origin and of --host.

// Returns the host in lower case, without its port and brackets: "localhost:8080" > "localhost",
// "[::1]:80" > "::1". A port is digits, or empty (RFC 3986, section 3.2.3). An IPv6 address may
// lack its brackets if it has no port: "::1" > "::1". Empty: the text is no host with an optional
// port, such as "[::1]a", "[::1", "[a]", "a:b", "a:1:1".
std::string HostWithoutPort(std::string_view host);

// Returns whether a host without its port is this machine's loopback: 127.0.0.0/8, ::1, these as
// IPv4-mapped addresses, or localhost.
bool IsLoopbackHost(std::string_view host);

// Returns the host of an origin, "https://name:port", without its port; empty if `origin` is no
// origin of http or https.
std::string HostOfOrigin(std::string_view origin);

}  // namespace kvd::http
