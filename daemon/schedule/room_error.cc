#include "daemon/schedule/room_error.h"

#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "engine/memory/owner_table.h"
#include "engine/memory/room_claim.h"

namespace kvd {
namespace {

// Sequences of one kind. Cells that several sequences share count once for each.
struct Holding {
  std::uint64_t sequences = 0;
  std::uint64_t cells = 0;
};

// What holds the cells that cannot be reclaimed.
struct Holdings {
  Holding own;     // live sequences of the request's owner
  Holding others;  // live sequences of other owners
  Holding pinned;
  Holding snapshots;

  Holding& Of(const SequenceInfo& info, OwnerId owner) {
    if ((info.flags & layout::kSequencePublished) != 0) return snapshots;
    if ((info.flags & layout::kSequencePinned) != 0) return pinned;
    return info.owner.id == owner ? own : others;
  }
};

Holdings Count(const Sequences& sequences, OwnerId owner) {
  Holdings holdings;
  for (const SequenceInfo& info : sequences.List()) {
    if (IsEvictable(info.flags)) continue;
    Holding& holding = holdings.Of(info, owner);
    ++holding.sequences;
    holding.cells += info.cell_count;
  }
  return holdings;
}

std::string PoolText(Engine& engine, OwnerId owner) {
  const PoolUsage usage = engine.memory().Usage();
  const auto cells = [](std::uint64_t blocks) { return blocks * layout::kBlockCells; };
  const Holdings held = Count(engine.memory().sequences(), owner);
  return Concat("the pool has ", cells(usage.total_blocks), " cells (--cells), ",
                cells(usage.free_blocks), " free, ", cells(usage.reclaimable_blocks),
                " reclaimable; ", held.own.sequences, " live sequences of this owner hold ",
                held.own.cells, ", ", held.others.sequences, " of other owners ", held.others.cells,
                ", ", held.pinned.sequences, " pinned ", held.pinned.cells, ", ",
                held.snapshots.sequences, " snapshots ", held.snapshots.cells,
                "; kvctl ps and kvctl snapshots list them, kvctl rm removes them");
}

// Whether the memory's reason is that blocks lack (MemoryStore::NoBlocks).
bool IsOfCells(std::string_view why) {
  return why.starts_with("cells: ") || why.starts_with("cells of group ");
}

// The flags of the limits that engine/memory/shares.h checks.
std::string LimitText(const std::string& reason) {
  const bool is_of_all = reason.find("all owners hold") != std::string::npos;
  return reason + (is_of_all ? "; --reserve-share leaves the rest to other users"
                             : "; limit: --other-pool-share, or pool_share in --tenants");
}

}  // namespace

Error NoRoomError(Engine& engine, const ScheduledRequest& request, const Error& reason,
                  std::chrono::milliseconds waited) {
  const std::size_t tokens =
      request.is_admitted ? request.wanted_tokens() : request.step->promised_tokens();
  std::string text = Concat(wire::kNoRoomPrefix, tokens, tokens == 1 ? " token" : " tokens");
  if (waited.count() > 0) text += Concat(" after ", waited.count(), " ms");
  std::vector<RoomClaim> claims{{.handle = request.request->sequence(), .tokens = tokens}};
  engine.memory().steps().FindRoom(claims);
  const std::string_view why = reason.message;
  if (claims.front().is_owner_limit) {
    text += Concat(": ", LimitText(claims.front().reason.message));
  } else if (why.starts_with("state slots")) {
    text += Concat(": ", why, " (--state-slots)");
  } else if (IsOfCells(why) || claims.front().verdict != RoomVerdict::kFits) {
    text += Concat(": ", PoolText(engine, request.request->session().owner()));
  } else {
    text += Concat(": ", why);  // the list arena, the system's memory
  }
  return {Code::kNoSpace, std::move(text)};
}

}  // namespace kvd
