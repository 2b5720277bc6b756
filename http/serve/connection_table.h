// ConnectionTable: the connections of a server, counted in all and by peer.
//
// The listener and the places own the table together; the loop's thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "http/loop/signal.h"
#include "http/serve/limits.h"

namespace kvd::http {

class Connection;
class ConnectionPlace;

class ConnectionTable final : public std::enable_shared_from_this<ConnectionTable> {
 public:
  ConnectionTable(Loop& loop, const ServeLimits& limits) : limits_(limits), left_(loop) {}

  // Returns why a connection of this peer is refused; empty: it may enter. `peer`: its address as
  // bytes; empty: a peer without an address.
  std::string RefusalOf(const std::string& peer) const;
  // Counts a connection as long as its place lives.
  ConnectionPlace Enter(std::string peer);

  std::size_t connection_count() const { return connection_count_; }
  // Of the peers with connections that count.
  std::size_t peer_count() const { return counts_by_peer_.size(); }
  // Calls a function for every connection. The function may end connections.
  void ForEach(const std::function<void(Connection&)>& call);
  // Wakes its waiters when a connection has left.
  Signal& left() { return left_; }

 private:
  friend class ConnectionPlace;
  void Leave(const std::string& peer, Connection* connection);

  const ServeLimits limits_;
  std::size_t connection_count_ = 0;
  std::unordered_map<std::string, std::uint32_t> counts_by_peer_;
  std::unordered_set<Connection*> connections_;
  Signal left_;
};

// The place of one connection in the table.
class ConnectionPlace {
 public:
  ConnectionPlace(std::shared_ptr<ConnectionTable> table, std::string peer)
      : table_(std::move(table)), peer_(std::move(peer)) {}
  ConnectionPlace(ConnectionPlace&& other) noexcept = default;
  ConnectionPlace& operator=(ConnectionPlace&&) = delete;
  ~ConnectionPlace() {
    if (table_) table_->Leave(peer_, connection_);
  }

  // Makes the connection visible to ForEach.
  void Bind(Connection& connection) {
    connection_ = &connection;
    table_->connections_.insert(&connection);
  }

 private:
  std::shared_ptr<ConnectionTable> table_;
  std::string peer_;
  Connection* connection_ = nullptr;
};

}  // namespace kvd::http
