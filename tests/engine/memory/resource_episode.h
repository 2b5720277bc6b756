// ResourceEpisode: random verbs of three owners on a memory of one kind; for
// resource_invariants_test.
//
// After each verb the episode checks that the resources of every owner are within its quota, and
// that a verb that returned an error has not changed any committed byte of `meta`.
// memory_kinds_model_test checks the content of cells.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/memory/cell_rewrites.h"
#include "engine/memory/holds_and_restores.h"
#include "tests/engine/memory/held_resources.h"
#include "tests/engine/memory/kind_episode.h"
#include "tests/engine/memory/memory_fixture.h"
#include "tests/engine/memory/model_run.h"

namespace kvd::memory_model {

// Counts of operations, summed over all episodes of a run.
struct ResourceTally {
  std::uint64_t operations = 0;
  std::map<std::string, std::uint64_t> codes;  // key: verb, a space, code name
};

class ResourceEpisode {
 public:
  // Creates a memory of the kind. The memory's capacities are drawn at random and often too small
  // for the verbs. `evicts`: retained sequences are evicted when room is needed. REQUIRES: `tally`
  // outlives the episode. Violations are reported as gtest failures of the running test.
  ResourceEpisode(std::uint64_t seed, Kind kind, bool evicts, ResourceTally* tally);

  // Runs one random operation. During a step, a rewind, a rewrite or a restore, further verbs may
  // run inside this call.
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
  // Returns the handle of a random live sequence, or sometimes a handle that names no sequence.
  SequenceHandle Any();
  // Returns a random range of positions that overlaps the sequence's positions or adjoins them;
  // some ranges are empty or inverted.
  PosRange AnyRange(SequenceHandle handle);
  std::vector<TokenId> AnyTokens(std::int64_t most);
  std::string AnyName() { return "snapshot" + std::to_string(In(0, 5)); }

  // ---- checking
  // Runs `call`, which calls the memory once, checks the effects on `meta` and on the owners'
  // resources, and returns the result of `call`.
  template <class Call>
  auto Do(const char* verb, const Call& call);
  void Judge(const char* verb, Code code, const std::string& message);
  // Returns all committed bytes of `meta`: the header, all records, the lists of live sequences,
  // and the blocks of cell records to which these lists refer.
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
  // Share rules that give every owner the same limits.
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
  int depth_ = 0;  // number of Meanwhile calls in progress: at most 1
};

}  // namespace kvd::memory_model
