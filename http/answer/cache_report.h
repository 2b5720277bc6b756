// CacheReport: what the cache did for a prompt.
#pragma once

#include <cstdint>
#include <string>

namespace kvd::http {

struct CacheReport {
  std::uint32_t reused = 0;     // prompt tokens that were not computed
  std::string source = "none";  // "slot", "snapshot", or a name of PrefixOrigin
  std::string limit = "none";   // why no more: a name of PrefixLimit
  // Where the prompt and cached tokens differ first, as text; empty: nothing differed.
  std::string prompt_text;
  std::string cached_text;
};

}  // namespace kvd::http
