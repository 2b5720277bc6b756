#include "http/answer/job_index.h"

#include <algorithm>

#include "base/text.h"

namespace kvd::http {
namespace {

constexpr std::string_view kVariantMark = "::";

std::string KeyOf(std::string_view tenant, std::string_view name) {
  return Concat(tenant.size(), ":", tenant, name);
}

// The stems of the job's names, each once.
std::vector<std::string> StemKeys(const Job& job) {
  std::vector<std::string> keys;
  const auto add = [&](std::string_view name, std::size_t end) {
    if (end == std::string_view::npos) return;
    std::string key = KeyOf(job.tenant, name.substr(0, end));
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(std::move(key));
  };
  for (const std::string* const name : {&job.id, &job.conversation}) {
    add(*name, name->find(kVariantMark));
    add(*name, name->rfind(kVariantMark));
  }
  return keys;
}

}  // namespace

void JobIndex::Add(const JobPointer& job) {
  const std::string key = KeyOf(job->tenant, job->id);
  if (const auto old = by_id_.find(key); old != by_id_.end()) Remove(JobPointer(old->second));
  by_id_[key] = job;
  if (!job->conversation.empty()) by_conversation_[KeyOf(job->tenant, job->conversation)] = job;
  for (const std::string& stem : StemKeys(*job)) by_stem_[stem].push_back(job);
}

void JobIndex::Remove(const JobPointer& job) {
  const auto erase = [&](auto& jobs, const std::string& name) {
    const auto found = jobs.find(KeyOf(job->tenant, name));
    if (found != jobs.end() && found->second == job) jobs.erase(found);
  };
  erase(by_id_, job->id);
  erase(by_conversation_, job->conversation);
  for (const std::string& key : StemKeys(*job)) {
    const auto found = by_stem_.find(key);
    if (found == by_stem_.end()) continue;
    std::erase(found->second, job);
    if (found->second.empty()) by_stem_.erase(found);
  }
}

bool JobIndex::Has(const Job& job) const {
  const auto found = by_id_.find(KeyOf(job.tenant, job.id));
  return found != by_id_.end() && found->second.get() == &job;
}

JobIndex::JobPointer JobIndex::Find(const std::string& tenant, std::string_view name) const {
  const std::string key = KeyOf(tenant, name);
  if (const auto found = by_id_.find(key); found != by_id_.end()) return found->second;
  const auto found = by_conversation_.find(key);
  return found == by_conversation_.end() ? nullptr : found->second;
}

std::vector<JobIndex::JobPointer> JobIndex::FindAll(const std::string& tenant,
                                                    std::string_view name) const {
  std::vector<JobPointer> found;
  const std::string key = KeyOf(tenant, name);
  if (const auto variants = by_stem_.find(key); variants != by_stem_.end()) {
    found = variants->second;
  }
  const JobPointer exact = Find(tenant, name);
  if (exact && std::ranges::find(found, exact) == found.end()) found.insert(found.begin(), exact);
  return found;
}

std::vector<JobIndex::JobPointer> JobIndex::all() const {
  std::vector<JobPointer> jobs;
  jobs.reserve(by_id_.size());
  for (const auto& [key, job] : by_id_) jobs.push_back(job);
  return jobs;
}

}  // namespace kvd::http
