#include "http/answer/jobs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdio>
#include <ctime>
#include <utility>

#include "base/siphash.h"
#include "base/text.h"
#include "http/serve/error_reply.h"

namespace kvd::http {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kEnding = ".journal";
constexpr std::string_view kConversationHeader = "X-Conversation-Id";

// The name of a job's file. Ids are any text, so the name is a hash; the id is in the file.
std::string FileName(const std::string& tenant, const std::string& id) {
  const std::string key = Concat(tenant.size(), ":", tenant, id);
  char name[64];
  std::snprintf(name, sizeof name, "%016llx%016llx",
                static_cast<unsigned long long>(SipHash24(1, 2, key)),
                static_cast<unsigned long long>(SipHash24(3, 4, key)));
  return Concat(std::string_view(name), kEnding);
}

Status CheckId(const std::string& id) {
  if (!id.empty() && id.size() <= Jobs::kIdBytesMax) return {};
  return Fail(Code::kInvalidArgument, "conversation id: ", id.size(), " bytes, not within 1 to ",
              Jobs::kIdBytesMax);
}

}  // namespace

Result<std::unique_ptr<Jobs>> Jobs::Open(Loop& loop, const std::string& directory) {
  UniqueFd opened;
  if (!directory.empty()) {
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return FailErrno(directory);
    opened = UniqueFd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!opened) return FailErrno(directory);
  }
  return std::unique_ptr<Jobs>(new Jobs(loop, std::move(opened)));
}

void Jobs::AddHandler(const std::string& method, const std::string& path, Handler handler) {
  handlers_[{method, path}] = std::move(handler);
}

void Jobs::Add(const std::shared_ptr<Job>& job) {
  jobs_[{job->tenant, job->id}] = job;
  if (!job->conversation.empty()) by_conversation_[{job->tenant, job->conversation}] = job;
}

void Jobs::Erase(const std::shared_ptr<Job>& job) {
  if (job->buffer->journal()) job->buffer->journal()->Remove();
  jobs_.erase({job->tenant, job->id});
  const auto found = by_conversation_.find({job->tenant, job->conversation});
  if (found != by_conversation_.end() && found->second == job) by_conversation_.erase(found);
}

void Jobs::ForgetOld() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<Job>> old;
  for (const auto& [key, job] : jobs_) {
    if (job->completed_unix_s != 0 && now - job->over_at >= kKept) old.push_back(job);
  }
  for (const std::shared_ptr<Job>& job : old) Erase(job);
}

Await<void> Jobs::RunHandler(Handler handler, std::shared_ptr<Request> request,
                             std::shared_ptr<Job> job) {
  const std::vector<std::string> no_parts;
  co_await handler(*request, no_parts, *job->buffer);
  job->buffer->Finish();
  job->completed_unix_s = std::time(nullptr);
  job->over_at = std::chrono::steady_clock::now();
  if (const auto& journal = job->buffer->journal(); journal) {
    journal->PutOver();
    journal->ClaimAll();
  }
}

void Jobs::Run(const std::shared_ptr<Job>& job, Request request) {
  const Handler& handler = handlers_.at({request.method, request.path});
  asio::co_spawn(loop_, RunHandler(handler, std::make_shared<Request>(std::move(request)), job),
                 asio::detached);
}

Result<std::shared_ptr<Job>> Jobs::Start(const std::string& id, const std::string& path,
                                         const Request& given) {
  Request request = given;
  request.path = path;  // without the prefix of all paths
  const std::string conversation(request.header(kConversationHeader));
  KVD_CHECK_OK(CheckId(id));
  if (!conversation.empty()) KVD_CHECK_OK(CheckId(conversation));
  ForgetOld();
  Remove(request.tenant, id);
  if (!conversation.empty()) Remove(request.tenant, conversation);
  if (jobs_.size() >= kJobsMax) {
    return Fail(Code::kNoSpace, "streams: ", kJobsMax, " are kept; delete some");
  }
  std::shared_ptr<AnswerJournal> journal;
  if (directory_) {
    KVD_TRY(journal,
            AnswerJournal::Create(directory_.get(), FileName(request.tenant, id), id, request));
  }
  auto job = std::make_shared<Job>(
      Job{.id = id,
          .tenant = request.tenant,
          .conversation = conversation == id ? std::string() : conversation,
          .started_unix_s = request.unix_s,
          .buffer = std::make_shared<StreamBuffer>(loop_, std::move(journal))});
  Add(job);
  Run(job, std::move(request));
  return job;
}

std::shared_ptr<Job> Jobs::Find(const std::string& tenant, const std::string& id) {
  ForgetOld();
  if (const auto found = jobs_.find({tenant, id}); found != jobs_.end()) return found->second;
  const auto found = by_conversation_.find({tenant, id});
  return found == by_conversation_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Job>> Jobs::FindAll(const std::string& tenant, const std::string& id) {
  ForgetOld();
  std::vector<std::shared_ptr<Job>> found;
  const std::string variants = id + "::";
  for (const auto* const jobs : {&jobs_, &by_conversation_}) {
    for (auto i = jobs->lower_bound({tenant, id}); i != jobs->end(); ++i) {
      if (i->first.first != tenant || !i->first.second.starts_with(id)) break;
      const bool is_found = i->first.second == id || i->first.second.starts_with(variants);
      if (is_found) found.push_back(i->second);
    }
  }
  return found;
}

void Jobs::Remove(const std::string& tenant, const std::string& id) {
  const std::shared_ptr<Job> job = Find(tenant, id);
  if (!job) return;
  job->buffer->Cancel();
  Erase(job);
}

std::vector<std::string> Jobs::JournalNames() const {
  std::vector<std::string> names;
  DIR* const directory =
      directory_ ? ::fdopendir(::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC))
                 : nullptr;
  if (directory == nullptr) return names;
  while (const dirent* const entry = ::readdir(directory)) {
    if (std::string_view(entry->d_name).ends_with(kEnding)) names.emplace_back(entry->d_name);
  }
  ::closedir(directory);
  return names;
}

std::map<std::string, std::set<SequenceHandle>> Jobs::ReadJournals() {
  std::map<std::string, std::set<SequenceHandle>> used;
  for (const std::string& name : JournalNames()) {
    auto journal = AnswerJournal::Open(directory_.get(), name);
    if (!journal) {
      std::fprintf(stderr, "kvd-http: %s\n", journal.error().message.c_str());
      (void)::unlinkat(directory_.get(), name.c_str(), 0);
      continue;
    }
    if (const auto at = (*journal)->damaged_at()) {
      std::fprintf(stderr, "kvd-http: journal %s: damaged at byte %llu; what follows is removed\n",
                   name.c_str(), static_cast<unsigned long long>(*at));
    }
    for (const auto& [answer, sequence] : (*journal)->unclaimed()) {
      used[(*journal)->request().tenant].insert(sequence);
    }
    read_.push_back(std::move(*journal));
  }
  return used;
}

std::shared_ptr<Job> Jobs::Restore(std::shared_ptr<AnswerJournal> journal) {
  const Request& request = journal->request();
  const std::int64_t age = Request::UnixSeconds() - journal->over_unix_s();
  const bool is_known = handlers_.contains({request.method, request.path});
  const bool is_old = journal->is_over() && age > kKept.count();
  if (!is_known || is_old || jobs_.size() >= kJobsMax) {
    journal->Remove();
    return nullptr;
  }
  const std::string conversation(request.header(kConversationHeader));
  auto job =
      std::make_shared<Job>(Job{.id = journal->id(),
                                .tenant = request.tenant,
                                .conversation = conversation == journal->id() ? "" : conversation,
                                .started_unix_s = request.unix_s,
                                .completed_unix_s = journal->over_unix_s(),
                                .buffer = std::make_shared<StreamBuffer>(loop_, journal)});
  job->over_at = std::chrono::steady_clock::now() - std::chrono::seconds(age);
  Add(job);
  return job;
}

Await<std::size_t> Jobs::Recover() {
  std::vector<std::shared_ptr<Job>> computed;  // in flight when the process was killed
  std::vector<std::shared_ptr<Job>> waiting;
  for (std::shared_ptr<AnswerJournal>& journal : std::exchange(read_, {})) {
    const std::shared_ptr<Job> job = Restore(std::move(journal));
    if (!job || job->buffer->journal()->is_over()) continue;
    (job->buffer->journal()->is_claimed() ? waiting : computed).push_back(job);
  }
  for (const std::shared_ptr<Job>& job : computed) {
    job->buffer->journal()->OnClaimed([this] { claimed_.Notify(); });
    Run(job, job->buffer->journal()->request());
  }
  const auto until = std::chrono::steady_clock::now() + kClaimTime;
  for (const std::shared_ptr<Job>& job : computed) {
    while (!job->buffer->journal()->is_claimed()) {
      const auto rest = until - std::chrono::steady_clock::now();
      if (rest.count() <= 0) break;
      const bool is_claimed = co_await claimed_.WaitFor(rest);
      if (!is_claimed) break;
    }
    job->buffer->journal()->OnClaimed(nullptr);
  }
  for (const std::shared_ptr<Job>& job : waiting) Run(job, job->buffer->journal()->request());
  co_return computed.size() + waiting.size();
}

namespace {

// A coroutine keeps its arguments, so it takes them by value, but for what outlives it.
Await<void> FollowJob(Jobs& jobs, std::string id, std::string path, const Request& request,
                      Responder& responder) {
  const auto job = jobs.Start(id, path, request);
  if (!job) {
    const int status = job.error().code == Code::kInvalidArgument ? 400 : 503;
    Reply reply = ErrorReply(status, job.error().message);
    co_await responder.Send(std::move(reply));
    co_return;
  }
  const std::shared_ptr<StreamBuffer> buffer = (*job)->buffer;
  co_await buffer->Follow(0, responder);
  responder.OnGone(nullptr);
  // A request that failed before its stream began leaves nothing behind.
  if (buffer->is_whole() && jobs.Find(request.tenant, id) == *job) jobs.Remove(request.tenant, id);
}

}  // namespace

Handler Resumable(Jobs& jobs, const std::string& method, const std::string& path, Handler handler) {
  jobs.AddHandler(method, path, handler);
  return [&jobs, path, handler](const Request& request, const std::vector<std::string>& parts,
                                Responder& responder) -> Await<void> {
    const std::string id(request.header(kConversationHeader));
    if (id.empty()) return handler(request, parts, responder);
    return FollowJob(jobs, id, path, request, responder);
  };
}

}  // namespace kvd::http
