// The oracle of http_routes_fuzz: what a complete reply of the gateway has to be.
#pragma once

#include <string>

#include "http/serve/request.h"

namespace kvd::test {

struct ReplyConditions {
  bool may_fail = false;    // the script has made the daemon or a file fail
  bool is_loading = false;  // the gateway has no daemon
  bool is_part = false;     // a stream that is not read from its first byte
  bool is_foreign = false;  // the request names an object of another tenant
  std::string folder;       // of the gateway, which no reply names
};

// Returns what is wrong with the reply; empty: nothing.
std::string FaultOf(const http::GatewayReply& reply, const ReplyConditions& conditions);

}  // namespace kvd::test
