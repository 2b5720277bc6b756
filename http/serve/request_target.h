// The target of a request line: its path and query, percent-decoded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kvd::http {

struct RequestTarget {
  std::string path;  // begins with "/", or is "*" (OPTIONS)
  std::vector<std::pair<std::string, std::string>> query;
  // Of a target in the absolute form, "http://HOST/path"; it replaces the Host header.
  std::optional<std::string> host;
};

// Reads the forms of RFC 9112, section 3.2, without the authority form (CONNECT). A "+" in the
// query is a space. Errors: kInvalidArgument: another form, a bad percent-encoding, a zero byte, or
// bytes that are not UTF-8.
Result<RequestTarget> ReadRequestTarget(std::string_view target);

}  // namespace kvd::http
