// The functions of kvd.h for the live map: these functions copy the content of a LiveMap.
#include <vector>

#include "client/c_api.h"

struct kvd_map {
  explicit kvd_map(kvd::LiveMap opened) : map(std::move(opened)) {}
  kvd::LiveMap map;
};

using namespace kvd;

static_assert(static_cast<int>(MapState::kStopped) == KVD_MAP_STOPPED &&
              static_cast<int>(MapState::kKilled) == KVD_MAP_KILLED);

int kvd_map_open(kvd_client* client, kvd_map** map) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(map, "map"));
    KVD_TRY(LiveMap opened, client->client.OpenMap());
    *map = new kvd_map(std::move(opened));
    return {};
  });
}

int kvd_map_refresh(kvd_map* map, int* state) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(map, "map"));
    KVD_TRY(const MapState now, map->map.Refresh());
    if (state != nullptr) *state = static_cast<int>(now);
    return {};
  });
}

int kvd_map_read_totals(const kvd_map* map, kvd_map_totals* totals) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(map, "map"));
    KVD_CHECK_OK(NotNull(totals, "totals"));
    const layout::MapTotals& found = map->map.content().totals();
    return WriteSized(
        kvd_map_totals{0, found.live_cells, found.tokens_computed, found.tokens_sampled,
                       found.steps, layout::kBlockCells, found.total_blocks, found.free_blocks,
                       found.reclaimable_blocks, found.live_sequences, found.sessions,
                       found.state_slots, found.free_state_slots, found.checkpoint_slots,
                       map->map.content().daemon_pid()},
        totals);
  });
}

int kvd_map_read_sequences(const kvd_map* map, kvd_map_sequence** sequences, size_t* count) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(map, "map"));
    KVD_CHECK_OK(NotNull(sequences, "sequences"));
    KVD_CHECK_OK(NotNull(count, "count"));
    std::vector<kvd_map_sequence> found;
    for (const layout::MapSequence& entry : map->map.content().sequences()) {
      if (entry.handle == 0) continue;
      found.push_back({entry.handle, entry.session, entry.owner_uid, entry.flags, entry.cell_count,
                       entry.shared_cells, entry.checkpoint_count, entry.next_pos});
    }
    *sequences = CopyForCaller(found.data(), found.size());
    *count = found.size();
    return {};
  });
}

int kvd_map_read_blocks(const kvd_map* map, kvd_map_block** blocks, size_t* count) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(map, "map"));
    KVD_CHECK_OK(NotNull(blocks, "blocks"));
    KVD_CHECK_OK(NotNull(count, "count"));
    const MapReader& content = map->map.content();
    std::vector<kvd_map_block> found;
    found.reserve(content.blocks().size());
    for (const layout::MapBlock& block : content.blocks()) {
      // block.sequence is the sequence's index + 1. MapReader has checked that the sequence's index
      // is less than the number of sequence entries.
      const bool is_known = block.sequence != 0;
      found.push_back({is_known ? content.sequences()[block.sequence - 1].handle : 0,
                       block.used_cells, block.shared_cells});
    }
    *blocks = CopyForCaller(found.data(), found.size());
    *count = found.size();
    return {};
  });
}

void kvd_map_close(kvd_map* map) { delete map; }
