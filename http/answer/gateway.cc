#include "http/answer/gateway.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/siphash.h"

namespace kvd::http {
namespace {

// Between two attempts to reach a daemon.
constexpr std::chrono::milliseconds kPause{50};

}  // namespace

Result<std::shared_ptr<DaemonSession>> TenantSession::session() {
  if (session_ && !session_->is_failed()) return session_;
  session_.reset();
  KVD_TRY(session_, open_());
  const auto& token = session_->session().session_token;
  const std::string_view bytes(reinterpret_cast<const char*>(token.data()), token.size());
  slots_.Begin(SipHash24(11, 12, bytes) | 1);
  return session_;
}

Await<Result<std::shared_ptr<DaemonSession>>> TenantSession::WaitForSession() {
  boost::asio::steady_timer timer(loop_);
  const auto until = std::chrono::steady_clock::now() + kDaemonTime;
  for (;;) {
    auto opened = session();
    if (opened) co_return opened;
    const Code code = opened.error().code;
    const bool may_come = code == Code::kDisconnected || code == Code::kTimeout;
    if (!may_come || std::chrono::steady_clock::now() > until) co_return opened;
    timer.expires_after(kPause);
    co_await timer.async_wait(boost::asio::use_awaitable);
  }
}

Await<void> TenantSession::RetainUnused(std::set<SequenceHandle> used) {
  const auto opened = co_await WaitForSession();
  if (!opened) co_return;
  for (const GatewaySlot& slot : slots_.all()) used.insert(slot.sequence);
  const auto listed = co_await (*opened)->List();
  if (!listed) co_return;
  for (const wire::SequenceEntry& entry : *listed) {
    const auto handle = static_cast<SequenceHandle>(entry.handle);
    const bool is_own = entry.session == (*opened)->session().session;
    const bool is_shared =
        (entry.flags & (layout::kSequencePublished | layout::kSequenceRetained)) != 0;
    if (is_own && !is_shared && !used.contains(handle)) (*opened)->RetainLater(handle);
  }
}

std::string Backend::SlotsPath(const std::string& tenant) const {
  if (slots_prefix.empty()) return {};
  char digits[32];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(SipHash24(9, 10, tenant)));
  return slots_prefix + digits;
}

std::vector<Backend*> Gateway::BackendsOf(const std::string& tenant) const {
  std::vector<Backend*> usable;
  const TenantRecord* const record = find_record_ ? find_record_(tenant) : nullptr;
  for (const auto& backend : backends_) {
    const bool may_use =
        find_record_ == nullptr || (record != nullptr && record->MayUse(backend->model->names()));
    if (may_use) usable.push_back(backend.get());
  }
  return usable;
}

std::uint64_t Gateway::ResponseBytesOf(const std::string& tenant) const {
  const TenantRecord* const record = find_record_ ? find_record_(tenant) : nullptr;
  const bool is_own = record != nullptr && record->response_bytes;
  return is_own ? *record->response_bytes : settings_.response_bytes;
}

SlotFolder Gateway::SlotFolderOf(const std::string& tenant) const {
  constexpr std::size_t kFilesMax = 1000;
  constexpr std::size_t kAnyCount = std::numeric_limits<std::size_t>::max();
  if (find_record_ == nullptr) {
    return {.directory = settings_.slot_directory,
            .folder = {},
            .bytes_max = std::numeric_limits<std::uint64_t>::max(),
            .count_max = kAnyCount};
  }
  const TenantRecord* const record = find_record_(tenant);
  const bool is_own = record != nullptr && record->slot_bytes;
  return {.directory = settings_.slot_directory,
          .folder = "tenant-" + tenant,
          .bytes_max = is_own ? *record->slot_bytes : settings_.slot_bytes,
          .count_max = kFilesMax};
}

bool Gateway::SeesAll(const std::string& tenant) const {
  if (find_record_ == nullptr) return true;
  const TenantRecord* const record = find_record_(tenant);
  return record != nullptr && record->is_operator;
}

Result<TenantSession*> Gateway::Find(const std::string& tenant, std::string_view model_name) {
  const std::vector<Backend*> usable = BackendsOf(tenant);
  Backend* backend = nullptr;
  for (Backend* const candidate : usable) {
    const std::vector<std::string>& names = candidate->model->names();
    if (std::ranges::find(names, model_name) != names.end()) backend = candidate;
  }
  const bool is_any = backends_.size() == 1 || model_name.empty();
  if (backend == nullptr && is_any && !usable.empty()) backend = usable.front();
  if (backend == nullptr) {
    std::string names;
    for (const Backend* const candidate : usable) names += " " + candidate->model->id();
    return Fail(Code::kNotFound, "model: no model is named \"", model_name,
                "\"; there are:", names.empty() ? " none" : names);
  }
  std::unique_ptr<TenantSession>& found = backend->tenants[tenant];
  if (!found) {
    found = std::make_unique<TenantSession>(
        loop_, tenant, *backend->model, workers_,
        [backend, tenant] { return backend->open(tenant); }, backend->SlotsPath(tenant));
  }
  return found.get();
}

}  // namespace kvd::http
