#include "tests/fuzz/between_loads.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace kvd::test {
namespace {

BetweenLoads* g_current = nullptr;

}  // namespace

BetweenLoads::BetweenLoads(std::span<std::byte> segment, Counts counts)
    : segment_(segment), counts_(counts) {
  KVD_ASSERT(g_current == nullptr);
  g_current = this;
}

BetweenLoads::~BetweenLoads() { g_current = nullptr; }

void BetweenLoads::Store(std::uint32_t loads, std::size_t offset, std::uint64_t value) {
  offset = offset / sizeof value * sizeof value;
  KVD_ASSERT(offset + sizeof value <= segment_.size());
  changes_.push_back(
      {loads_ + loads, reinterpret_cast<std::uint64_t*>(segment_.data() + offset), value});
  next_change_ = std::min(next_change_, loads_ + loads);
}

void BetweenLoads::OnLoad(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  const bool is_inside = !std::less<>()(byte, segment_.data()) &&
                         std::less<>()(byte, segment_.data() + segment_.size());
  if (counts_ == Counts::kLoadsFromSegment && !is_inside) return;
  if (loads_ == next_change_) Change();
  ++loads_;
}

void BetweenLoads::Change() {
  next_change_ = kNever;
  std::erase_if(changes_, [this](const PendingChange& change) {
    if (change.load != loads_) {
      next_change_ = std::min(next_change_, change.load);
      return false;
    }
    __atomic_store_n(change.place, change.value, __ATOMIC_RELAXED);
    return true;
  });
}

}  // namespace kvd::test

// Defines the hooks that compiled code calls before each load.
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the compiler defines the names of the __sanitizer
// functions.
void __sanitizer_cov_load1(std::uint8_t* address);
void __sanitizer_cov_load2(std::uint16_t* address);
void __sanitizer_cov_load4(std::uint32_t* address);
void __sanitizer_cov_load8(std::uint64_t* address);
void __sanitizer_cov_load16(__int128* address);
// NOLINTEND(readability-identifier-naming)

void __sanitizer_cov_load1(std::uint8_t* address) {
  if (kvd::test::g_current != nullptr) kvd::test::g_current->OnLoad(address);
}
void __sanitizer_cov_load2(std::uint16_t* address) {
  if (kvd::test::g_current != nullptr) kvd::test::g_current->OnLoad(address);
}
void __sanitizer_cov_load4(std::uint32_t* address) {
  if (kvd::test::g_current != nullptr) kvd::test::g_current->OnLoad(address);
}
void __sanitizer_cov_load8(std::uint64_t* address) {
  if (kvd::test::g_current != nullptr) kvd::test::g_current->OnLoad(address);
}
void __sanitizer_cov_load16(__int128* address) {
  if (kvd::test::g_current != nullptr) kvd::test::g_current->OnLoad(address);
}
}
