// KVD_ASSERT: for our own bugs, on in every build. Bytes of a peer, a file or a flag never reach
// it: they are validated.
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
