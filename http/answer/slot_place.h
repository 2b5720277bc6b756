// SlotPlace: the folder of a tenant's slot files, and its limits. Files of one tenant have no names
// that another tenant could give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvd::http {

struct SlotPlace {
  std::string directory = {};  // --slot-save-path; empty: there are no slot files
  std::string folder = {};     // below the directory; empty: the directory itself
  std::uint64_t bytes_max = 0;
  std::size_t count_max = 0;
};

}  // namespace kvd::http
