// Functions for the checks of a memory's `meta`: error messages, and the check of a sequence's
// record that rebuild.cc makes before it reads the sequence's lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "engine/memory/list_arena.h"
#include "engine/memory/meta_segment.h"

namespace kvd::meta_check {

// A kCorrupt error with the message "meta: FIELD: TEXT".
inline std::unexpected<Error> Corrupt(const std::string& field, const std::string& text) {
  return Fail(Code::kCorrupt, "meta: ", field, ": ", text);
}
inline std::unexpected<Error> Corrupt(const std::string& field, std::uint64_t found) {
  return Corrupt(field, std::to_string(found));
}
// "TABLE INDEX": the beginning of a field's name.
inline std::string Name(const char* table, std::uint32_t index) {
  return Concat(table, " ", index);
}

template <class T, std::size_t count>
bool IsZero(const T (&values)[count]) {
  for (const T& value : values) {
    if (value != T{}) return false;
  }
  return true;
}

// Checks the fields of a sequence's record whose damage could affect other sequences, for instance
// lists at places that belong to another record. Marks the units of the record's lists as taken in
// `lists`. REQUIRES: the header is valid. Errors: kCorrupt.
Status ValidateRecord(ConstMetaView meta, std::uint32_t index, ListArena* lists);

}  // namespace kvd::meta_check
