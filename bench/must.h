// Must: returns the value of a Result. If the Result is an error, Must prints it and exits with 1.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/error.h"

namespace kvd::bench {

inline void Must(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, status.error().message.c_str());
  std::exit(1);
}
template <class T>
T Must(Result<T> result) {
  if (!result) Must(Status(std::unexpected(result.error())));
  return std::move(*result);
}

}  // namespace kvd::bench
