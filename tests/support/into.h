// Into: moves the value of a Result to a given place and returns its Status.
#pragma once

#include <utility>

#include "base/error.h"

namespace kvd {

template <class T>
Status Into(Result<T> result, T* value) {
  if (!result) return std::unexpected(std::move(result).error());
  *value = std::move(*result);
  return {};
}

}  // namespace kvd
