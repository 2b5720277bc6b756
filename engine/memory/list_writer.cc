#include "engine/memory/list_writer.h"

#include <optional>

#include "base/crc32c.h"

namespace kvd {

Result<layout::ListRoot> AllocateList(MemoryStore& store, std::uint32_t entry_count) {
  if (entry_count == 0) return kEmptyList;
  const std::uint32_t units = ListUnitsFor(entry_count);
  const std::optional<std::uint32_t> first = store.tables.lists.Allocate(units);
  if (!first) return store.NoListUnits(units);
  return layout::ListRoot{*first, units, entry_count, 0};
}

Result<layout::ListRoot> WriteList(MemoryStore& store, std::span<const BlockRange> ranges,
                                   std::uint32_t first_cell) {
  KVD_TRY(layout::ListRoot root, AllocateList(store, static_cast<std::uint32_t>(ranges.size())));
  if (root.entry_count == 0) return root;
  StoreExtents(ranges, first_cell, store.meta.list(root.first_unit));
  root.crc = Crc32c(0, std::as_bytes(store.meta.entries(root)));
  return root;
}

void FreeList(MemoryStore& store, const layout::ListRoot& root) {
  if (root.capacity_units != 0) store.tables.lists.Free(root.first_unit, root.capacity_units);
}

}  // namespace kvd
