// JobShares: how many jobs, bytes in memory and bytes of journals the tenants have, and whether
// there is room for more.
//
// A JobShare is the part of one job. The job, its buffer and its journal share it, and report what
// they hold; the part is given back when the last of them is destroyed. Everything runs on the
// loop's thread.
//
// Counted in memory: the request's body while the job runs, the bytes of the reply, and the
// conversation that a later request may continue. Not counted: the pieces of a journal that was
// read at the start, until the job has taken them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"

namespace kvd::http {

struct JobAmounts {
  std::uint64_t jobs = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t journal_bytes = 0;
};

struct JobLimits {
  JobAmounts of_each = kOfAll;  // tenant
  JobAmounts of_all = kOfAll;
  std::chrono::milliseconds kept = std::chrono::minutes(5);  // a job that has ended

  static constexpr JobAmounts kOfAll = {
      .jobs = 4096, .memory_bytes = 1u << 30, .journal_bytes = std::uint64_t{4} << 30};
  static constexpr JobAmounts kOfTenant = {
      .jobs = 512, .memory_bytes = 256u << 20, .journal_bytes = 1u << 30};
  // A gateway without tenants is one tenant, which may have everything.
  static constexpr JobLimits ForTenants() { return {.of_each = kOfTenant, .of_all = kOfAll}; }
};

class JobShares {
 public:
  explicit JobShares(const JobLimits& limits) : limits_(limits) {}

  // A limit that leaves no room.
  struct Lack {
    std::uint64_t JobAmounts::* amount;
    bool is_of_all = false;  // and the tenant's own limit leaves room
    Error error;             // kNoSpace, with the limit
  };
  // nullopt: the tenant may have `more`.
  std::optional<Lack> FindLack(const std::string& tenant, const JobAmounts& more) const;
  // The tenant that has most; empty if there are none.
  std::string Largest(std::uint64_t JobAmounts::* amount) const;
  JobAmounts of(const std::string& tenant) const;
  const JobAmounts& of_all() const { return of_all_; }

 private:
  friend class JobShare;
  void Change(const std::string& tenant, std::uint64_t JobAmounts::* amount, std::uint64_t from,
              std::uint64_t to);

  JobLimits limits_;
  std::map<std::string, JobAmounts> tenants_;  // those that have something
  JobAmounts of_all_;
};

class JobShare {
 public:
  // Counts one job.
  JobShare(std::shared_ptr<JobShares> shares, std::string tenant);
  ~JobShare();
  JobShare(const JobShare&) = delete;
  JobShare& operator=(const JobShare&) = delete;

  // Errors: kNoSpace, with the limit.
  Status CheckMemory(std::uint64_t more_bytes) const;
  Status CheckJournal(std::uint64_t more_bytes) const;
  // What is held now, whether there is room or not.
  void SetRequest(std::uint64_t bytes) { Set(&JobAmounts::memory_bytes, request_bytes_, bytes); }
  void SetReply(std::uint64_t bytes) { Set(&JobAmounts::memory_bytes, reply_bytes_, bytes); }
  void SetJournal(std::uint64_t bytes) { Set(&JobAmounts::journal_bytes, journal_bytes_, bytes); }
  // The job is not found any more; its memory counts until it is given back.
  void Forget() { Set(&JobAmounts::jobs, job_count_, 0); }

 private:
  void Set(std::uint64_t JobAmounts::* amount, std::uint64_t& own, std::uint64_t value);

  std::shared_ptr<JobShares> shares_;
  std::string tenant_;
  std::uint64_t job_count_ = 0;
  std::uint64_t request_bytes_ = 0;
  std::uint64_t reply_bytes_ = 0;
  std::uint64_t journal_bytes_ = 0;
};

}  // namespace kvd::http
