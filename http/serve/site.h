// Site: what all connections of a server share. The listener and the connections own it together;
// the loop's thread uses it.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "http/serve/access.h"
#include "http/serve/limits.h"
#include "http/serve/router.h"

namespace kvd::http {

struct Site {
  const Router& router;
  const Access& access;
  ServeLimits limits;
  std::size_t body_bytes = 0;  // the sum of all BodyShares
};

// BodyShare: the bytes of one body, counted in Site::body_bytes as long as the share lives.
class BodyShare {
 public:
  explicit BodyShare(std::shared_ptr<Site> site) : site_(std::move(site)) {}
  BodyShare(BodyShare&& other) noexcept
      : site_(std::move(other.site_)), byte_count_(std::exchange(other.byte_count_, 0)) {}
  BodyShare& operator=(BodyShare&&) = delete;
  ~BodyShare() {
    if (site_) site_->body_bytes -= byte_count_;
  }

  // Returns false if the bodies of all connections exceed the limit.
  bool GrowTo(std::size_t byte_count) {
    site_->body_bytes += byte_count - byte_count_;
    byte_count_ = byte_count;
    return site_->body_bytes <= site_->limits.body_bytes_in_all_max;
  }

 private:
  std::shared_ptr<Site> site_;
  std::size_t byte_count_ = 0;
};

}  // namespace kvd::http
