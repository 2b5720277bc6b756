#include "engine/saved_state/prompt_room.h"

#include <algorithm>
#include <map>
#include <utility>

namespace kvd {
namespace {

bool IsWithin(const PromptUse& held, const PromptUse& wanted, const PromptUse& most) {
  return held.bytes + wanted.bytes <= most.bytes && held.entries + wanted.entries <= most.entries;
}

// The part of the cache that one owner uses.
struct Holding {
  PromptUse held;
  std::vector<const PromptFile*> files;  // candidates for removal; the last one is removed first
};

class Room {
 public:
  Room(const std::vector<PromptFile>& files, const PromptLimits& limits,
       const std::function<bool(const std::string&)>& remove)
      : remove_(remove) {
    for (const PromptFile& file : files) {
      Holding& holding = holdings_[file.owner.value_or(limits.main_owner)];
      Count(file.bytes, 1, &holding);
      holding.files.push_back(&file);
    }
    for (auto& [owner, holding] : holdings_) {
      std::ranges::sort(holding.files, std::ranges::greater(), [](const PromptFile* file) {
        return std::pair(file->used_ns, file->name);
      });
    }
  }

  const PromptUse& all() const { return all_; }
  std::vector<OwnerId> owners() const {
    std::vector<OwnerId> owners;
    for (const auto& [owner, holding] : holdings_) owners.push_back(owner);
    return owners;
  }
  Holding& HoldingOf(OwnerId owner) { return holdings_[owner]; }

  void RemoveOldest(Holding* holding) {
    const PromptFile& file = *holding->files.back();
    holding->files.pop_back();
    if (remove_(file.name)) Count(-file.bytes, ~std::uint64_t{0}, holding);
  }

 private:
  // Negative numbers are passed as their two's complement.
  void Count(std::uint64_t bytes, std::uint64_t entries, Holding* holding) {
    holding->held.bytes += bytes;
    holding->held.entries += entries;
    all_.bytes += bytes;
    all_.entries += entries;
  }

  const std::function<bool(const std::string&)>& remove_;
  std::map<OwnerId, Holding> holdings_;
  PromptUse all_;
};

}  // namespace

Status MakePromptRoom(const std::vector<PromptFile>& files, const PromptLimits& limits,
                      OwnerId writer, std::uint64_t bytes,
                      const std::function<bool(const std::string&)>& remove) {
  const auto part_of = [&](OwnerId owner) {
    return limits.part_of ? limits.part_of(owner) : limits.all;
  };
  const PromptUse wanted{.bytes = bytes, .entries = 1};
  const std::uint64_t bytes_max = std::min(part_of(writer).bytes, limits.all.bytes);
  if (bytes > bytes_max) {
    return Fail(Code::kNoSpace, "an entry of ", bytes, " bytes, its owner may have ", bytes_max,
                " in the prompt cache");
  }
  Room room(files, limits, remove);
  const auto trim = [&](OwnerId owner, const PromptUse& more) {
    Holding& holding = room.HoldingOf(owner);
    const PromptUse part = part_of(owner);
    while (!holding.files.empty() && !IsWithin(holding.held, more, part)) {
      room.RemoveOldest(&holding);
    }
  };
  for (const OwnerId owner : room.owners()) {
    if (owner != writer) trim(owner, {});
  }
  const auto fail = [&](const PromptUse& kept) -> Status {
    return Fail(Code::kNoSpace, "an entry of ", bytes, " bytes, the prompt cache holds ",
                kept.bytes, " of ", limits.all.bytes, " in entries that may not be removed for it");
  };
  // The following check precedes all removals, so that no entry is removed if the new entry cannot
  // fit.
  if (writer != limits.main_owner) {
    const PromptUse kept = room.HoldingOf(limits.main_owner).held;
    if (!IsWithin(kept, wanted, limits.all)) return fail(kept);
  }
  trim(writer, wanted);
  while (!IsWithin(room.all(), wanted, limits.all)) {
    Holding* most = nullptr;
    for (const OwnerId owner : room.owners()) {
      Holding& holding = room.HoldingOf(owner);
      const bool may_go = owner != limits.main_owner || owner == writer;
      if (!may_go || holding.files.empty()) continue;
      if (most == nullptr || holding.held.bytes > most->held.bytes) most = &holding;
    }
    if (most == nullptr) return fail(room.all());
    room.RemoveOldest(most);
  }
  return {};
}

}  // namespace kvd
