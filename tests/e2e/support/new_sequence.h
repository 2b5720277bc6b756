// NewSequence: a kvd_sequence_options that can be written within a call.
//
//   kvd_sequence_create(client, NewSequence(60, KVD_EPHEMERAL), &sequence, nullptr);
#pragma once

#include <cstdint>

#include "client/kvd.h"

namespace kvd::test {

class NewSequence {
 public:
  explicit NewSequence(std::uint32_t ttl_seconds, std::uint32_t flags = 0)
      : options_{.size = sizeof options_, .flags = flags, .ttl_seconds = ttl_seconds} {}
  // The pointer is valid until the end of the expression that makes the NewSequence.
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator const kvd_sequence_options*() const { return &options_; }

 private:
  kvd_sequence_options options_;
};

}  // namespace kvd::test
