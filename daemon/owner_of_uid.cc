#include "daemon/owner_of_uid.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/siphash.h"
#include "base/text.h"

namespace kvd {

OwnerId OwnerOf(std::uint32_t uid, const TenantId& tenant) {
  if (tenant == kTenantZero) return OwnerOf(uid);
  // The key is fixed, because the numbers are stored. Its bytes are "kvd: owner of a ".
  constexpr std::uint64_t kKey[2] = {0x6e776f203a64766bull, 0x206120666f207265ull};
  char bytes[sizeof uid + std::tuple_size_v<TenantId>];
  std::memcpy(bytes, &uid, sizeof uid);
  std::memcpy(bytes + sizeof uid, tenant.data(), tenant.size());
  const std::uint64_t hash = SipHash24(kKey[0], kKey[1], std::string_view(bytes, sizeof bytes));
  constexpr std::uint64_t kTenantBit = std::uint64_t{1} << 62;
  return OwnerId{(hash & (kTenantBit - 1)) | kTenantBit};
}

std::string OwnerText(OwnerId owner) {
  const auto number = static_cast<std::uint64_t>(owner);
  if (!IsTenant(owner)) return Concat("uid=", number);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return Concat("tenant=", digits);
}

}  // namespace kvd
