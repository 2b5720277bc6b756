#include "http/answer/job_shares.h"

#include <utility>

#include "base/text.h"

namespace kvd::http {
namespace {

struct NamedAmount {
  std::uint64_t JobAmounts::* amount;
  const char* name;
};

constexpr NamedAmount kNamedAmounts[] = {
    {&JobAmounts::jobs, "streams that are kept"},
    {&JobAmounts::memory_bytes, "bytes of streams in memory"},
    {&JobAmounts::journal_bytes, "bytes of journals"},
};

}  // namespace

std::optional<JobShares::Lack> JobShares::FindLack(const std::string& tenant,
                                                   const JobAmounts& more) const {
  const JobAmounts own = of(tenant);
  for (const bool is_of_all : {false, true}) {
    const JobAmounts& limits = is_of_all ? limits_.of_all : limits_.of_each;
    const JobAmounts& present = is_of_all ? of_all_ : own;
    for (const auto& [amount, name] : kNamedAmounts) {
      if (more.*amount == 0 || present.*amount + more.*amount <= limits.*amount) continue;
      return Lack{
          .amount = amount,
          .is_of_all = is_of_all,
          .error = {Code::kNoSpace, Concat(name, ": ", present.*amount, " and ", more.*amount,
                                           " more are beyond the limit of ", limits.*amount,
                                           is_of_all ? " of all tenants" : "", "; delete some")}};
    }
  }
  return std::nullopt;
}

JobAmounts JobShares::of(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? JobAmounts() : found->second;
}

void JobShares::Change(const std::string& tenant, std::uint64_t JobAmounts::* amount,
                       std::uint64_t from, std::uint64_t to) {
  JobAmounts& own = tenants_[tenant];
  own.*amount += to - from;
  of_all_.*amount += to - from;
  if (own.jobs == 0 && own.memory_bytes == 0 && own.journal_bytes == 0) tenants_.erase(tenant);
}

JobShare::JobShare(std::shared_ptr<JobShares> shares, std::string tenant)
    : shares_(std::move(shares)), tenant_(std::move(tenant)) {
  Set(&JobAmounts::jobs, job_count_, 1);
}

JobShare::~JobShare() {
  Forget();
  SetRequest(0);
  SetReply(0);
  SetJournal(0);
}

void JobShare::Set(std::uint64_t JobAmounts::* amount, std::uint64_t& own, std::uint64_t value) {
  if (own == value) return;
  shares_->Change(tenant_, amount, std::exchange(own, value), value);
}

Status JobShare::CheckMemory(std::uint64_t more_bytes) const {
  auto lack = shares_->FindLack(tenant_, {.memory_bytes = more_bytes});
  if (lack) return std::unexpected(std::move(lack->error));
  return {};
}

Status JobShare::CheckJournal(std::uint64_t more_bytes) const {
  auto lack = shares_->FindLack(tenant_, {.journal_bytes = more_bytes});
  if (lack) return std::unexpected(std::move(lack->error));
  return {};
}

}  // namespace kvd::http
