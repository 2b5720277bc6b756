// A load of HTTP requests on keep-alive connections to a port of 127.0.0.1.
//
// Each connection has at most one request in flight. One thread serves all connections with epoll.
// The number of requests and the time are limited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace kvd::bench {

struct LoadOptions {
  std::uint16_t port = 0;
  std::string path;                  // of the POST requests
  std::vector<std::string> bodies;   // request i has the body i modulo their number; not empty
  std::size_t connection_count = 1;  // 1..4096
  std::size_t request_count = 1;
  double seconds_max = 600;
  // The time of a reply's first token is the time at which its body first contains this text.
  // Empty: the time of the head.
  std::string first_mark;
};

struct LoadReply {
  int status = 0;
  double first_seconds = 0;  // from the start of the request; 0: the text was not found
  double end_seconds = 0;
  std::size_t sent_bytes = 0;  // head and body of the request
  std::string body{};
};

struct LoadResult {
  double seconds = 0;              // from the first request to the last reply
  std::vector<LoadReply> replies;  // in the order of the requests
};

// Opens the connections, sends the requests and returns their replies. Errors: kIo, kDisconnected
// (the server closed a connection), kCorrupt (not HTTP), kTimeout (seconds_max).
Result<LoadResult> RunLoad(const LoadOptions& options);

// Sends request_count requests, each on a connection of its own, calls `on_sent` and drops what is
// received until descriptor 0 ends. Returns the number of replies that have ended. Errors: those of
// RunLoad.
Result<std::size_t> HoldStreams(const LoadOptions& options, void (*on_sent)());

}  // namespace kvd::bench
