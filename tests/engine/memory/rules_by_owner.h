// RulesByOwner: limits that a test sets for single owners. All other owners have no limits.
#pragma once

#include <map>

#include "engine/memory/shares.h"

namespace kvd {

class RulesByOwner final : public ShareRules {
 public:
  std::map<OwnerId, OwnerLimits> limits;
  OwnerLimits LimitsOf(OwnerId owner, const MemoryGeometry&) const override {
    const auto known = limits.find(owner);
    return known == limits.end() ? OwnerLimits{} : known->second;
  }
};

}  // namespace kvd
