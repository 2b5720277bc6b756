// What a client may see, for the tests of permissions.
#pragma once

#include <algorithm>
#include <string_view>

#include "client/client.h"

namespace kvd::test {

template <class T>
Code CodeOf(const Result<T>& result) {
  return result ? Code::kOk : result.error().code;
}

inline bool Lists(const Client& client, SequenceHandle handle) {
  const auto list = client.List();
  return list && std::ranges::any_of(*list, [handle](const wire::SequenceEntry& entry) {
           return entry.handle == static_cast<std::uint64_t>(handle);
         });
}

inline bool ShowsSnapshot(const Client& client, std::string_view name) {
  const auto snapshots = client.Snapshots();
  return snapshots && std::ranges::any_of(*snapshots, [name](const Snapshot& snapshot) {
           return snapshot.name == name;
         });
}

}  // namespace kvd::test
