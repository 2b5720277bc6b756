// DerivedTables: everything that a memory keeps beside `meta` and could rebuild from it at any
// moment.
//
// The memory changes them along with each commit; RebuildTables makes them from the bytes alone.
// That both are equal after every operation is what the model test checks.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/memory/block_table.h"
#include "engine/memory/free_set.h"
#include "engine/memory/list_arena.h"

namespace kvd {

struct DerivedTables {
  BlockTable blocks;  // of group 0
  ListArena lists;
  FreeSet sequences;  // free records
  FreeSet snapshots;
  std::map<std::string, std::uint32_t, std::less<>> snapshots_by_name;  // index of the record

  DerivedTables() = default;
  // Of an empty meta.
  explicit DerivedTables(const layout::MetaGeometry& geometry)
      : blocks(geometry.block_count[0]),
        lists(geometry.list_unit_count),
        sequences(geometry.sequence_capacity),
        snapshots(geometry.snapshot_capacity) {}

  friend bool operator==(const DerivedTables&, const DerivedTables&) = default;
};

}  // namespace kvd
