// The text is read line by line. `ranges` holds each setting's range and the member that it sets.
#include "daemon/sessions/quotas.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "base/name.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "daemon/process/log.h"
#include "shm/wire_check.h"

namespace kvd {
namespace {

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

template <class Number>
Result<Number> NumberIn(std::string_view name, std::string_view text, Number min, Number max) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // The negated comparison also refuses a value that is not a number.
  if (error != std::errc() || end != text.data() + text.size() ||
      !(number >= min && number <= max)) {
    return Fail(Code::kInvalidArgument, name, ": ", Quoted(std::string(text)),
                " is not a number from ", min, " to ", max);
  }
  return number;
}

// Sets the member of the limits that `name` names.
Status Set(std::string_view name, std::string_view value, UidLimits* limits) {
  constexpr std::uint64_t kCountMax = 1u << 20;
  if (name == "pool_share") {
    KVD_TRY(limits->pool_share, NumberIn(name, value, 0.0, 1.0));
    return {};
  }
  const auto set = [&](auto* member, std::uint64_t min, std::uint64_t max) -> Status {
    KVD_TRY(const std::uint64_t number, NumberIn(name, value, min, max));
    *member = static_cast<std::remove_pointer_t<decltype(member)>>(number);
    return {};
  };
  if (name == "connections") return set(&limits->connections, 1, 65536);
  if (name == "sequences") return set(&limits->sequences, 1, kCountMax);
  if (name == "requests") return set(&limits->requests_in_flight, 1, kCountMax);
  if (name == "state_slots") return set(&limits->state_slots, 1, kCountMax);
  if (name == "saved_bytes") return set(&limits->saved_bytes, 0, std::uint64_t{1} << 50);
  if (name == "outlive_seconds") return set(&limits->outlive_seconds, 0, wire::kOutliveSecondsMax);
  if (name == "outliving_sessions") return set(&limits->outliving_sessions, 0, 1024);
  if (name == "weight") return set(&limits->weight, 1, kWeightMax);
  return Fail(Code::kInvalidArgument, Quoted(std::string(name)), " is not a setting");
}

class TenantsParser {
 public:
  explicit TenantsParser(const UidLimits& base) { tenants_.defaults = base; }

  Status Take(std::string_view line) {
    line = Trim(line);
    if (line.empty() || line.front() == '#') return {};
    if (line.front() == '[') return Begin(line);
    const std::size_t equals = line.find('=');
    if (equals == line.npos) {
      return Fail(Code::kInvalidArgument, Quoted(std::string(line)),
                  " is not a section, a setting or a comment");
    }
    return Assign(Trim(line.substr(0, equals)), Trim(line.substr(equals + 1)));
  }
  Tenants TakeTenants() { return std::move(tenants_); }

 private:
  Status Begin(std::string_view line) {
    if (line.back() != ']') return Fail(Code::kInvalidArgument, "the section has no ']'");
    const std::string_view title = Trim(line.substr(1, line.size() - 2));
    seen_.clear();
    if (title == "default") {
      if (has_section_) {
        return Fail(Code::kInvalidArgument, "[default] must be the first section");
      }
      has_section_ = true;
      limits_ = &tenants_.defaults;
      return {};
    }
    KVD_TRY(const TenantId id, wire::ParseTenantId(title));
    if (id == kTenantZero) return Fail(Code::kInvalidArgument, "tenant 0 has no section");
    if (tenants_.by_id.size() == kTenantsMax) {
      return Fail(Code::kNoSpace, "more than ", kTenantsMax, " tenants");
    }
    has_section_ = true;
    const auto [made, is_new] =
        tenants_.by_id.emplace(id, Tenant{.id = id, .name = {}, .limits = tenants_.defaults});
    if (!is_new) return Fail(Code::kInvalidArgument, "the tenant has a section already");
    tenant_ = &made->second;
    limits_ = &tenant_->limits;
    return {};
  }

  Status Assign(std::string_view name, std::string_view value) {
    if (limits_ == nullptr) return Fail(Code::kInvalidArgument, "a setting before any section");
    if (!seen_.emplace(name).second) {
      return Fail(Code::kInvalidArgument, Quoted(std::string(name)), " is set twice");
    }
    if (name != "name") return Set(name, value, limits_);
    if (tenant_ == nullptr) return Fail(Code::kInvalidArgument, "name: [default] has no name");
    if (!IsName(std::string(value))) {
      return Fail(Code::kInvalidArgument, "name: ", Quoted(std::string(value)),
                  " is not 1 to 63 letters, digits, '_', '-' or '.', or begins with '.'");
    }
    if (!names_.emplace(value).second) {
      return Fail(Code::kInvalidArgument, "name: ", value, " is another tenant's name");
    }
    tenant_->name = value;
    return {};
  }

  Tenants tenants_;
  Tenant* tenant_ = nullptr;     // of the present section; null: [default] or none
  UidLimits* limits_ = nullptr;  // null: no section has begun
  bool has_section_ = false;
  std::set<std::string, std::less<>> seen_;  // settings of the present section
  std::set<std::string, std::less<>> names_;
};

}  // namespace

Result<Tenants> ParseTenants(std::string_view text, const UidLimits& base) {
  TenantsParser parser(base);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (Status taken = parser.Take(text.substr(0, end)); !taken) {
      return Fail(taken.error().code, "line ", number, ": ", taken.error().message);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.TakeTenants();
}

Result<Tenants> ReadTenants(const std::string& path, const UidLimits& base) {
  // With O_NONBLOCK, opening does not block if the file is a named pipe.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return FailErrno("--tenants " + path);
  std::string text(kTenantsFileBytesMax + 1, '\0');
  std::size_t text_bytes = 0;
  while (text_bytes < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + text_bytes, text.size() - text_bytes);
    if (got < 0) return FailErrno("--tenants " + path);
    if (got == 0) break;
    text_bytes += static_cast<std::size_t>(got);
  }
  if (text_bytes == text.size()) {
    return Fail(Code::kNoSpace, "--tenants ", path, ": more than ", kTenantsFileBytesMax, " bytes");
  }
  text.resize(text_bytes);
  Result<Tenants> tenants = ParseTenants(text, base);
  if (!tenants)
    return Fail(tenants.error().code, "--tenants ", path, ": ", tenants.error().message);
  return tenants;
}

}  // namespace kvd
