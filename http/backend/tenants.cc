#include "http/backend/tenants.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <utility>

#include "base/name.h"
#include "base/text.h"
#include "text/json.h"

namespace kvd::http {
namespace {

// A limit of daemon/sessions/quotas.h with its range.
struct Limit {
  std::string_view name;
  std::int64_t least = 0;
  std::int64_t most = 0;
  bool is_share = false;  // a number from 0 to 1
};
// The gateway's own limits; the others are the daemon's.
constexpr std::string_view kResponseBytes = "response_bytes";
constexpr std::string_view kSlotBytes = "slot_bytes";
constexpr std::array<Limit, 11> kLimits = {{{"connections", 1, 65'536},
                                            {"sequences", 1, 1 << 20},
                                            {"requests", 1, 1 << 20},
                                            {"pool_share", 0, 1, true},
                                            {"state_slots", 1, 1 << 20},
                                            {"saved_bytes", 0, std::int64_t{1} << 50},
                                            {"outlive_seconds", 0, 604'800},
                                            {"outliving_sessions", 0, 1024},
                                            {"weight", 1, 1000},
                                            {kResponseBytes, 0, std::int64_t{1} << 50},
                                            {kSlotBytes, 0, std::int64_t{1} << 50}}};

using Limits = std::map<std::string, std::string>;

std::unexpected<Error> Wrong(std::string_view path, std::string_view message) {
  return Fail(Code::kInvalidArgument, path, ": ", message);
}

Result<std::string> ReadLimit(const std::string& path, const Limit& limit, const Value& value) {
  if (limit.is_share) {
    if (value.is_number() && !value.is_bool() && value.number() >= 0 && value.number() <= 1) {
      return std::to_string(value.number());
    }
    return Wrong(path, "a number from 0 to 1 is needed");
  }
  if (value.is_int() && value.integer() >= limit.least && value.integer() <= limit.most) {
    return std::to_string(value.integer());
  }
  return Wrong(path, Concat("a whole number from ", limit.least, " to ", limit.most, " is needed"));
}

Result<Limits> ReadLimits(const std::string& path, const Value& value) {
  if (!value.is_dict()) return Wrong(path, "an object is needed");
  Limits limits;
  for (const auto& [key, item] : value.dict().items()) {
    const std::string name(key.view());
    const auto* const limit = std::ranges::find(kLimits, name, &Limit::name);
    const std::string place = Concat(path, ".", name);
    if (limit == kLimits.end()) return Wrong(place, "there is no such limit");
    KVD_TRY(limits[name], ReadLimit(place, *limit, item));
  }
  return limits;
}

Result<std::string> ReadText(const std::string& path, const Value& value) {
  if (!value.is_string() || value.view().empty()) return Wrong(path, "a text is needed");
  return std::string(value.view());
}

// A text, or a list of texts.
Result<std::vector<std::string>> ReadTexts(const std::string& path, const Value& value) {
  std::vector<std::string> texts;
  if (!value.is_list()) {
    KVD_TRY(std::string text, ReadText(path, value));
    texts.push_back(std::move(text));
    return texts;
  }
  for (const Value& item : value.items()) {
    KVD_TRY(std::string text, ReadText(Concat(path, "[", texts.size(), "]"), item));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<std::vector<Digest>> ReadKeys(const std::string& path, const Value& value) {
  KVD_TRY(const std::vector<std::string> texts, ReadTexts(path, value));
  std::vector<Digest> digests;
  for (const std::string& text : texts) {
    if (!ReadHex(text, digests.emplace_back())) {
      return Wrong(path, "64 hexadecimal digits are needed, the SHA-256 of the key");
    }
  }
  if (digests.empty()) return Wrong(path, "a key is needed");
  return digests;
}

Status ReadMember(const std::string& path, std::string_view name, const Value& value,
                  TenantRecord& record) {
  if (name == "name") {
    KVD_TRY(record.name, ReadText(path, value));
    if (IsName(record.name)) return {};
    return Wrong(path, "1 to 63 letters, digits, '_', '-' or '.' are needed");
  }
  if (name == "key_sha256") {
    KVD_TRY(record.keys, ReadKeys(path, value));
  } else if (name == "salt") {
    KVD_TRY(const std::string salt, ReadText(path, value));
    const Digest digest = Sha256(salt);
    std::memcpy(&record.cache_salt, digest.data(), sizeof record.cache_salt);
  } else if (name == "models") {
    KVD_TRY(record.models, ReadTexts(path, value));
    if (record.models.empty()) return Wrong(path, "the list is empty");
  } else if (name == "operator") {
    const Result<bool> flag = value.AsBool();
    if (!flag) return Wrong(path, "true or false is needed");
    record.is_operator = *flag;
  } else if (name == "limits") {
    KVD_TRY(record.limits, ReadLimits(path, value));
  } else {
    return Wrong(path, "there is no such member");
  }
  return {};
}

Result<TenantRecord> ReadTenant(const std::string& path, const Value& value) {
  if (!value.is_dict()) return Wrong(path, "an object is needed");
  TenantRecord record;
  for (const auto& [key, item] : value.dict().items()) {
    KVD_CHECK_OK(ReadMember(Concat(path, ".", key.view()), key.view(), item, record));
  }
  if (record.name.empty()) return Wrong(path + ".name", "is missing");
  if (record.keys.empty()) return Wrong(path + ".key_sha256", "is missing");
  const Digest digest = Sha256("kvd-http tenant\n" + record.name);
  std::ranges::copy(std::span(digest).first(record.id.size()), record.id.begin());
  return record;
}

// The tenant's own limit precedes the default one.
std::uint32_t OutliveSeconds(const Limits& own, const Limits& defaults) {
  for (const Limits* const limits : {&own, &defaults}) {
    const auto found = limits->find("outlive_seconds");
    if (found != limits->end()) {
      return std::min<std::uint32_t>(kOutliveSeconds,
                                     static_cast<std::uint32_t>(std::stoul(found->second)));
    }
  }
  return kOutliveSeconds;
}

// Moves a limit of the gateway out of `own`, which become limits of the daemon.
std::optional<std::uint64_t> TakeBytes(std::string_view name, Limits& own, const Limits& defaults) {
  for (const Limits* const limits : {static_cast<const Limits*>(&own), &defaults}) {
    const auto found = limits->find(std::string(name));
    if (found == limits->end()) continue;
    const std::uint64_t bytes = std::stoull(found->second);
    own.erase(std::string(name));
    return bytes;
  }
  return std::nullopt;
}

}  // namespace

bool TenantRecord::MayUse(const std::vector<std::string>& model_names) const {
  return models.empty() || std::ranges::find_first_of(models, model_names) != models.end();
}

Result<TenantTable> TenantTable::Parse(std::string_view text) {
  KVD_TRY(const Value root, ParseJson(text, {.bytes_max = kFileBytesMax, .nesting_max = 8}));
  if (!root.is_dict()) return Wrong("the file", "an object is needed");
  TenantTable table;
  for (const auto& [key, item] : root.dict().items()) {
    if (key.view() == "default") {
      KVD_TRY(table.default_limits_, ReadLimits("default", item));
    } else if (key.view() != "tenants") {
      return Wrong(key.view(), "there is no such member");
    }
  }
  const Value& list = root.dict().Find("tenants");
  if (!list.is_list()) return Wrong("tenants", "a list is needed");
  if (list.items().size() > kTenantsMax) {
    return Fail(Code::kNoSpace, "tenants: ", list.items().size(), ", at most ", kTenantsMax);
  }
  std::vector<Digest> keys;
  for (const Value& item : list.items()) {
    const std::string path = Concat("tenants[", table.tenants_.size(), "]");
    KVD_TRY(TenantRecord record, ReadTenant(path, item));
    if (table.FindName(record.name) != nullptr) {
      return Wrong(path + ".name", Concat("\"", record.name, "\" occurs twice"));
    }
    record.outlive_seconds = OutliveSeconds(record.limits, table.default_limits_);
    record.response_bytes = TakeBytes(kResponseBytes, record.limits, table.default_limits_);
    record.slot_bytes = TakeBytes(kSlotBytes, record.limits, table.default_limits_);
    keys.insert(keys.end(), record.keys.begin(), record.keys.end());
    table.tenants_.push_back(std::move(record));
  }
  std::ranges::sort(keys);
  if (std::ranges::adjacent_find(keys) != keys.end()) {
    return Wrong("tenants", "a key occurs twice");
  }
  return table;
}

Result<TenantTable> TenantTable::Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail(Code::kIo, path, ": cannot be opened");
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return Fail(Code::kIo, path, ": cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kFileBytesMax) {
    return Fail(Code::kNoSpace, path, ": has more than ", kFileBytesMax, " bytes");
  }
  Result<TenantTable> table = Parse(text);
  if (!table) return FailWithin(path, table.error());
  return table;
}

const TenantRecord* TenantTable::FindKey(std::string_view key) const {
  const Digest digest = Sha256(key);
  const TenantRecord* found = nullptr;
  for (const TenantRecord& record : tenants_) {
    for (const Digest& own : record.keys) {
      if (::CRYPTO_memcmp(own.data(), digest.data(), digest.size()) == 0) found = &record;
    }
  }
  return found;
}

const TenantRecord* TenantTable::FindName(std::string_view name) const {
  const auto found = std::ranges::find(tenants_, name, &TenantRecord::name);
  return found == tenants_.end() ? nullptr : &*found;
}

std::string TenantTable::LimitsText() const {
  // A tenant may hold half of the pool, which daemon_plan.h takes into account.
  std::string text = "[default]\n";
  Limits defaults = default_limits_;
  defaults.emplace("pool_share", "0.5");
  for (const std::string_view own : {kResponseBytes, kSlotBytes}) defaults.erase(std::string(own));
  for (const auto& [name, value] : defaults) text += Concat(name, " = ", value, "\n");
  for (const TenantRecord& record : tenants_) {
    text += Concat("[", HexText(record.id), "]\nname = ", record.name, "\n");
    for (const auto& [name, value] : record.limits) text += Concat(name, " = ", value, "\n");
  }
  return text;
}

Result<NewKey> MakeKey(const std::string& name) {
  if (!IsName(name)) {
    return Wrong("--make-key", "a name of 1 to 63 letters, digits, '_', '-' or '.' is needed");
  }
  std::array<std::uint8_t, 24> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return FailErrno("getrandom");
  }
  NewKey made;
  made.key = "kvd-" + HexText(bytes);
  const Digest digest = Sha256(made.key);
  made.record = Concat("{\"name\": \"", name, "\", \"key_sha256\": \"", HexText(digest), "\"}");
  return made;
}

}  // namespace kvd::http
