// AppendPromise: blocks and a state slot that are kept free for the tokens of one request, so that
// a request that takes several steps finds a free block or slot in every step.
//
// The promised blocks and slot count as held by the sequence's owner. The class is move-only; its
// destructor frees the promised blocks and slot that were not used. The memory must outlive the
// promise. Threads: any.
#pragma once

#include <cstdint>
#include <utility>

#include "engine/memory/memory_store.h"

namespace kvd {

class AppendPromise {
 public:
  AppendPromise() = default;  // promises nothing
  AppendPromise(MemoryStore& store, std::uint32_t index, std::uint64_t number)
      : store_(&store), index_(index), number_(number) {}
  AppendPromise(AppendPromise&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)),
        index_(other.index_),
        number_(other.number_) {}
  AppendPromise& operator=(AppendPromise&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(index_, other.index_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~AppendPromise() {
    if (store_ == nullptr) return;
    const MutexLock lock(store_->mutex);
    EndPromise(*store_, index_, number_);
  }

 private:
  MemoryStore* store_ = nullptr;
  std::uint32_t index_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace kvd
