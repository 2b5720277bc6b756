#include "http/serve/peer_counts.h"

#include <vector>

#include "base/text.h"
#include "http/serve/connection.h"

namespace kvd::http {

std::string ConnectionTable::RefusalOf(const std::string& peer) const {
  if (connection_count_ >= limits_.connection_count_max) {
    return Concat("the server has ", connection_count_, " connections, which is its limit");
  }
  const auto found = counts_by_peer_.find(peer);
  if (!peer.empty() && found != counts_by_peer_.end() &&
      found->second >= limits_.connections_per_peer_max) {
    return Concat("this address has ", found->second, " connections, which is the limit");
  }
  return {};
}

CountedConnection ConnectionTable::Enter(std::string peer) {
  ++connection_count_;
  if (!peer.empty()) ++counts_by_peer_[peer];
  return {shared_from_this(), std::move(peer)};
}

void ConnectionTable::ForEach(const std::function<void(HttpConnection&)>& call) {
  std::vector<std::shared_ptr<HttpConnection>> connections;
  connections.reserve(connections_.size());
  for (HttpConnection* connection : connections_) {
    if (auto owned = connection->weak_from_this().lock()) connections.push_back(std::move(owned));
  }
  for (const std::shared_ptr<HttpConnection>& connection : connections) call(*connection);
}

void ConnectionTable::Leave(const std::string& peer, HttpConnection* connection) {
  --connection_count_;
  connections_.erase(connection);
  const auto found = counts_by_peer_.find(peer);
  if (found != counts_by_peer_.end() && --found->second == 0) counts_by_peer_.erase(found);
  left_.Notify();
}

}  // namespace kvd::http
