// Into: the value of a result goes where the caller has room for it; what is left is the status.
#pragma once

#include <utility>

#include "shm/error.h"

namespace kvd {

template <class T>
Status Into(Result<T> result, T* value) {
  if (!result) return std::unexpected(std::move(result).error());
  *value = std::move(*result);
  return {};
}

}  // namespace kvd
