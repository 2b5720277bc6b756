// TenantTable: who may use the gateway: the tenants of the file --tenants with their keys.
//
// The file is JSON:
//
//   {"default": {"requests": 64},              limits of all tenants
//    "tenants": [
//      {"name": "alice",                       1 to 63 letters, digits, '_', '-' or '.'; unique
//       "key_sha256": "9f86d0...",             of the key, 64 hexadecimal digits; or a list of them
//       "salt": "2026",                        prefixes are shared within one salt; default: none
//       "models": ["chat", "embedder"],        names that the tenant may use; default: all
//       "operator": true,                      sees the counts of all tenants (GET /metrics)
//       "limits": {"pool_share": 0.25, "weight": 2}}]}
//
// Limits are those of the daemon's own tenants' file (daemon/sessions/quotas.h): connections,
// sequences, requests, pool_share, state_slots, saved_bytes, outlive_seconds, outliving_sessions
// and weight. A daemon that kvd-http starts gets them in a file of this form; a daemon that it
// finds has its own. Two limits are the gateway's: response_bytes, of the snapshots of stored
// responses, and slot_bytes, of the tenant's slot files. The daemon knows a tenant by 16 bytes of a
// hash of its name, so a tenant with another key keeps its sequences. The file has only hashes of
// keys. `kvd-http --make-key NAME` prints a new key.
//
// A TenantTable is a plain value.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/backend/digest.h"

namespace kvd::http {

// Seconds for which a daemon keeps the session of a tenant whose gateway was killed, unless the
// tenant's limit is lower.
inline constexpr std::uint32_t kOutliveSeconds = 3600;

struct TenantRecord {
  std::string name;  // empty: the only tenant of a gateway without --tenants
  std::array<std::uint8_t, 16> id{};
  std::uint64_t cache_salt = 0;
  std::uint32_t outlive_seconds = kOutliveSeconds;
  std::optional<std::uint64_t> response_bytes;  // nullopt: as --response-bytes says
  std::optional<std::uint64_t> slot_bytes;      // nullopt: as --slot-save-bytes says
  bool is_operator = false;
  std::vector<Digest> keys;
  std::vector<std::string> models;            // empty: all
  std::map<std::string, std::string> limits;  // by the daemon's names, as its file has them

  bool MayUse(const std::vector<std::string>& model_names) const;
};

class TenantTable {
 public:
  static constexpr std::size_t kFileBytesMax = 4u << 20;
  static constexpr std::size_t kTenantsMax = 4096;

  // Errors: kInvalidArgument, naming the member ("tenants[2].name: ..."); kNoSpace: kTenantsMax.
  static Result<TenantTable> Parse(std::string_view text);
  // Errors: kIo, kNoSpace (kFileBytesMax), and those of Parse; the message names the path.
  static Result<TenantTable> Read(const std::string& path);

  const std::vector<TenantRecord>& tenants() const { return tenants_; }
  // Null if there is none. Takes the same time for each key.
  const TenantRecord* FindKey(std::string_view key) const;
  const TenantRecord* FindName(std::string_view name) const;
  // The file of the daemon.
  std::string LimitsText() const;

 private:
  std::map<std::string, std::string> default_limits_;
  std::vector<TenantRecord> tenants_;
};

// A new random key, and its tenant as a member of "tenants". Errors: kInvalidArgument: the name.
struct NewKey {
  std::string key;
  std::string record;
};
Result<NewKey> MakeKey(const std::string& name);

}  // namespace kvd::http
