// What the checks of a memory's `meta` share: how they name what is wrong, and the check of a
// sequence's record that rebuild.cc makes before it believes the sequence's lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/memory/list_arena.h"
#include "engine/memory/meta_segment.h"
#include "shm/error.h"

namespace kvd::meta_check {

// kCorrupt: "meta: FIELD: TEXT".
inline std::unexpected<Error> Corrupt(const std::string& field, const std::string& text) {
  return Fail(Code::kCorrupt, "meta: " + field + ": " + text);
}
inline std::unexpected<Error> Corrupt(const std::string& field, std::uint64_t found) {
  return Corrupt(field, std::to_string(found));
}
// "TABLE INDEX": what a field's name begins with.
inline std::string Name(const char* table, std::uint32_t index) {
  return std::string(table) + " " + std::to_string(index);
}

template <class T, std::size_t count>
bool IsZero(const T (&values)[count]) {
  for (const T& value : values) {
    if (value != T{}) return false;
  }
  return true;
}

// What a damaged sequence alone could not have: its record says where lists lie, and a wrong place
// may be a neighbour's. Takes the lists' units.
// REQUIRES: the header is valid. Errors: kCorrupt.
Status ValidateRecord(ConstMetaView meta, std::uint32_t index, ListArena* lists);

}  // namespace kvd::meta_check
