// KVD_ASSERT checks for bugs in kvd itself and is active in every build. Bytes from a peer, a file
// or a command line flag are validated before they can reach an assertion.
#pragma once

#include <cstdio>
#include <cstdlib>

#define KVD_ASSERT(condition)                                                                      \
  do {                                                                                             \
    if (!(condition)) [[unlikely]] {                                                               \
      std::fprintf(stderr, "kvd: bug: %s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                                \
    }                                                                                              \
  } while (0)
