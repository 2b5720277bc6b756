// What a server holds for its peers, counted in all and by address: connections and bodies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "http/loop/await.h"
#include "http/serve/limits.h"

namespace kvd::http {

// HeldBodies: the bytes of the bodies that a server holds, in all and by address. A body is held
// from its first byte until the handler of its request has returned.
//
// The site and the shares own it together; the loop's thread uses it. Invariant: the counts are the
// sums of the shares that live.
enum class BodyFit : unsigned char {
  kFits,
  kTooManyOfAddress,  // the bodies of this address exceed body_bytes_per_address_max
  kTooManyInAll,      // those of all addresses exceed body_bytes_in_all_max
};

class HeldBodies {
 public:
  explicit HeldBodies(const ServeLimits& limits) : limits_(limits) {}

  std::size_t byte_count() const { return byte_count_; }
  // Of the addresses with bytes that count.
  std::size_t address_count() const { return bytes_by_address_.size(); }

 private:
  friend class BodyShare;
  BodyFit Change(const std::string& address, std::size_t from_bytes, std::size_t to_bytes);

  const ServeLimits limits_;
  std::size_t byte_count_ = 0;
  std::unordered_map<std::string, std::size_t> bytes_by_address_;
};

// BodyShare: the bytes of one body, which count as long as the share lives.
class BodyShare {
 public:
  // `address`: IpAddress::limit_key(); empty: the limit for each address does not apply.
  BodyShare(std::shared_ptr<HeldBodies> bodies, std::string address)
      : bodies_(std::move(bodies)), address_(std::move(address)) {}
  BodyShare(BodyShare&& other) noexcept
      : bodies_(std::move(other.bodies_)),
        address_(std::move(other.address_)),
        byte_count_(std::exchange(other.byte_count_, 0)) {}
  BodyShare& operator=(BodyShare&&) = delete;
  ~BodyShare() { Clear(); }

  // Counts `byte_count` bytes, also if they exceed a limit: the caller then refuses the request.
  BodyFit ResizeTo(std::size_t byte_count);
  void Clear() { (void)ResizeTo(0); }

 private:
  std::shared_ptr<HeldBodies> bodies_;
  std::string address_;
  std::size_t byte_count_ = 0;
};

inline BodyFit HeldBodies::Change(const std::string& address, std::size_t from_bytes,
                                  std::size_t to_bytes) {
  std::size_t address_bytes = 0;
  if (!address.empty()) {
    // A new entry may throw; nothing is counted then.
    const auto entry = to_bytes > 0 ? bytes_by_address_.try_emplace(address, 0).first
                                    : bytes_by_address_.find(address);
    entry->second += to_bytes - from_bytes;
    address_bytes = entry->second;
    if (address_bytes == 0) bytes_by_address_.erase(entry);
  }
  byte_count_ += to_bytes - from_bytes;
  if (address_bytes > limits_.body_bytes_per_address_max) return BodyFit::kTooManyOfAddress;
  return byte_count_ > limits_.body_bytes_in_all_max ? BodyFit::kTooManyInAll : BodyFit::kFits;
}

inline BodyFit BodyShare::ResizeTo(std::size_t byte_count) {
  if (byte_count == byte_count_) return BodyFit::kFits;
  const BodyFit fit = bodies_->Change(address_, byte_count_, byte_count);
  byte_count_ = byte_count;
  return fit;
}

class HttpConnection;
class CountedConnection;

// ConnectionTable: the connections of a server, counted in all and by peer.
//
// The listener and the counted connections own the table together; the loop's thread uses it.
class ConnectionTable final : public std::enable_shared_from_this<ConnectionTable> {
 public:
  ConnectionTable(Loop& loop, const ServeLimits& limits) : limits_(limits), left_(loop) {}

  // Returns why a connection of this peer is refused; empty: it may enter. `peer`: its address as
  // bytes; empty: a peer without an address.
  std::string RefusalOf(const std::string& peer) const;
  // Counts a connection as long as its CountedConnection lives.
  CountedConnection Enter(std::string peer);

  std::size_t connection_count() const { return connection_count_; }
  // Of the peers with connections that count.
  std::size_t peer_count() const { return counts_by_peer_.size(); }
  // Calls a function for every connection. The function may end connections.
  void ForEach(const std::function<void(HttpConnection&)>& call);
  // Wakes its waiters when a connection has left.
  Signal& left() { return left_; }

 private:
  friend class CountedConnection;
  void Leave(const std::string& peer, HttpConnection* connection);

  const ServeLimits limits_;
  std::size_t connection_count_ = 0;
  std::unordered_map<std::string, std::uint32_t> counts_by_peer_;
  std::unordered_set<HttpConnection*> connections_;
  Signal left_;
};

// One connection, counted in the table as long as this object lives.
class CountedConnection {
 public:
  CountedConnection(std::shared_ptr<ConnectionTable> table, std::string peer)
      : table_(std::move(table)), peer_(std::move(peer)) {}
  CountedConnection(CountedConnection&& other) noexcept = default;
  CountedConnection& operator=(CountedConnection&&) = delete;
  ~CountedConnection() {
    if (table_) table_->Leave(peer_, connection_);
  }

  // Makes the connection visible to ForEach.
  void Bind(HttpConnection& connection) {
    connection_ = &connection;
    table_->connections_.insert(&connection);
  }

 private:
  std::shared_ptr<ConnectionTable> table_;
  std::string peer_;
  HttpConnection* connection_ = nullptr;
};

}  // namespace kvd::http
