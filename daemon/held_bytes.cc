#include "daemon/held_bytes.h"

namespace kvd {

Status HeldAccount::Add(std::uint64_t bytes) {
  std::uint64_t held = bytes_.load(std::memory_order_relaxed);
  do {
    KVD_CHECK_OK(quotas_.CheckHeldBytes(uid_, held, bytes));
  } while (!bytes_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
  return {};
}

std::shared_ptr<HeldAccount> HeldBytes::AccountOf(std::uint32_t uid) {
  const MutexLock lock(mutex_);
  std::erase_if(accounts_,
                [uid](const auto& one) { return one.first != uid && one.second.expired(); });
  std::weak_ptr<HeldAccount>& known = accounts_[uid];
  std::shared_ptr<HeldAccount> account = known.lock();
  if (account == nullptr) {
    account = std::make_shared<HeldAccount>(quotas_, uid);
    known = account;
  }
  return account;
}

}  // namespace kvd
