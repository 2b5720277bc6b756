// One memory of a kind and random verbs of three owners on it, for resource_invariants_test.
//
// After each verb, what every owner holds is within its share, and a verb that returned an error
// has left all that is committed in `meta` bit-identical. What the cells hold is not looked at here: that is what
// memory_kinds_model_test is for.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/memory/cell_rewrite.h"
#include "engine/memory/hold_and_restore.h"
#include "tests/engine/memory/held_resources.h"
#include "tests/engine/memory/kind_episode.h"
#include "tests/engine/memory/memory_fixture.h"
#include "tests/engine/memory/model_run.h"

namespace kvd::memory_model {

// Of all episodes of a run.
struct ResourceTally {
  std::uint64_t operations = 0;
  std::map<std::string, std::uint64_t> codes;  // "verb code"
};

class ResourceEpisode {
 public:
  // A fresh memory of that kind, its room drawn at random and often short. `evicts`: retained
  // sequences make room. REQUIRES: `tally` outlives it. Failures are those of the test in progress.
  ResourceEpisode(std::uint64_t seed, Kind kind, bool evicts, ResourceTally* tally);

  // One verb; a step, a rewind, a rewrite and a restore have others in between.
  void Operate();

 private:
  static constexpr std::uint32_t kOwners = 3;

  // ---- drawing
  std::int64_t In(std::int64_t least, std::int64_t most) { return random_.In(least, most); }
  bool OneIn(int chances) { return random_.OneIn(chances); }
  std::uint64_t Cells(std::int64_t least, std::int64_t most) {
    return static_cast<std::uint64_t>(In(least, most)) * layout::kBlockCells;
  }
  SequenceOwner AnyOwner();
  // A live sequence; now and then a handle of none.
  SequenceHandle Any();
  // Within and around its positions; now and then none.
  PosRange AnyRange(SequenceHandle handle);
  std::vector<TokenId> AnyTokens(std::int64_t most);
  std::string AnyName() { return "snapshot" + std::to_string(In(0, 5)); }

  // ---- checking
  // Calls the memory once and checks what that has changed. Returns what it returned.
  template <class Call>
  auto Do(const char* verb, const Call& call);
  void Judge(const char* verb, Code code, const std::string& message);
  // All bytes of `meta` that are committed: the header and the records, and of live sequences the
  // lists and the blocks of cell records that they refer to.
  std::vector<std::byte> Committed() const;

  // ---- verbs
  void Verb();
  void EditVerb(SequenceHandle handle);
  void OwnerVerb(SequenceHandle handle);
  void Step();
  void Rewind();
  void Rewrite();
  void Restore();
  void Meanwhile();

  Random random_;
  ResourceTally* tally_;
  const bool has_state_;
  const bool has_encoder_;
  // Of every owner.
  class Rules final : public ShareRules {
   public:
    OwnerLimits LimitsOf(OwnerId, const MemoryGeometry&) const override { return limits; }
    OwnerLimits limits;
  };
  Rules rules_;
  std::unique_ptr<Memory> memory_;
  ConstMetaView meta_;
  std::vector<std::byte> before_;
  bool is_stepping_ = false;
  int depth_ = 0;  // of verbs in between
};

}  // namespace kvd::memory_model
