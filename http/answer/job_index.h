// The replies that continue when their clients are gone, found by their ids.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/siphash.h"
#include "http/answer/job_shares.h"
#include "http/answer/stream_buffer.h"
#include "http/serve/request.h"

namespace kvd::http {

// Job: one reply that continues when its client is gone (answer/jobs.h).
struct Job {
  std::string id;  // chosen by the client, or of a response; unique for its tenant
  std::string tenant;
  std::string conversation;  // another id by which it is found; empty: none
  std::int64_t started_unix_s = 0;
  std::int64_t completed_unix_s = 0;  // 0: not yet
  std::shared_ptr<JobShare> share;
  std::shared_ptr<StreamBuffer> buffer;
  std::chrono::steady_clock::time_point over_at{};
};

// A hash of texts with a random key.
struct KeyedHash {
  std::uint64_t key0 = Request::NewNonce();
  std::uint64_t key1 = Request::NewNonce();
  std::size_t operator()(const std::string& text) const { return SipHash24(key0, key1, text); }
};

// JobIndex: finds jobs by tenant and id with a hash, which is keyed so that clients cannot choose
// ids that collide.
//
// A job is found by its id and by its conversation. Clients make variants of an id by appending
// "::" and a text, and ask for all variants of an id at once. Therefore each name is also found by
// its stems: the parts before its first and before its last "::". A lookup costs what it finds.
class JobIndex {
 public:
  using JobPointer = std::shared_ptr<Job>;

  // A job with the same tenant and id, or conversation, is not found any more.
  void Add(const JobPointer& job);
  // Does nothing for what is not here.
  void Remove(const JobPointer& job);
  bool Has(const Job& job) const;
  // By its id, or else by its conversation; null: there is none.
  JobPointer Find(const std::string& tenant, std::string_view name) const;
  // The job that Find finds, and those that have `name` as a stem.
  std::vector<JobPointer> FindAll(const std::string& tenant, std::string_view name) const;
  std::vector<JobPointer> all() const;
  std::size_t size() const { return by_id_.size(); }

 private:
  std::unordered_map<std::string, JobPointer, KeyedHash> by_id_;
  std::unordered_map<std::string, JobPointer, KeyedHash> by_conversation_;
  std::unordered_map<std::string, std::vector<JobPointer>, KeyedHash> by_stem_;
};

}  // namespace kvd::http
