// ResponseStore: the responses that clients have asked to store (/v1/responses), as files in the
// gateway's state directory.
//
// A stored response is one JSON text: the response itself and the items of its whole conversation,
// from which a later request continues it (previous_response_id). The cells are not stored here:
// the daemon keeps them as a snapshot for some time, and later computes them again.
//
// Layout: one folder (0700) for each tenant, named by a hash, one file (0600) for each response,
// named by its id. A file is written beside its place and renamed, so that it is whole or absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"
#include "text/json.h"

namespace kvd::http {

// For reading a stored response: it repeats parts of a body that was within the limits, some levels
// deeper, and has what was answered.
inline constexpr JsonLimits kStoredJson{.nesting_max = 160, .units_max = 4u << 20};

class ResponseStore {
 public:
  static constexpr std::size_t kBytesMax = 16u << 20;  // of one response
  // Of one tenant; the oldest ones go. There may be kPutsBetweenListings more.
  static constexpr std::size_t kResponsesMax = 4096;
  static constexpr std::uint64_t kPutsBetweenListings = 64;

  // Makes the directory (0700). An empty path: nothing is stored, and nothing is found. Errors:
  // kIo.
  static Result<std::unique_ptr<ResponseStore>> Open(const std::string& directory);

  // "resp_" and 32 hexadecimal digits. Other ids are not found, and are never file names.
  static bool IsId(std::string_view id);

  // Writes or replaces a response. Errors: kTooLarge (kBytesMax), kIo. REQUIRES: IsId(id).
  Status Put(const std::string& tenant, const std::string& id, std::string_view json);
  // Errors: kNotFound, kIo.
  Result<std::string> Get(const std::string& tenant, std::string_view id) const;
  // Errors: kNotFound, kIo.
  Status Remove(const std::string& tenant, std::string_view id);

 private:
  explicit ResponseStore(UniqueFd directory) : directory_(std::move(directory)) {}
  // The tenant's folder; empty, with errno: it cannot be opened.
  UniqueFd OpenFolder(const std::string& tenant) const;
  static void RemoveOldest(int folder);

  UniqueFd directory_;
  std::uint64_t puts_ = 0;
};

}  // namespace kvd::http
