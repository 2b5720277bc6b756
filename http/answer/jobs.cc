#include "http/answer/jobs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdio>
#include <ctime>

#include "base/siphash.h"
#include "base/text.h"
#include "http/serve/error_reply.h"

namespace kvd::http {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kEnding = ".journal";

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

void Jobs::ForgetOld() {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(jobs_, [&](const auto& entry) {
    const Job& job = *entry.second;
    if (job.completed_unix_s == 0 || now - job.over_at < kKept) return false;
    if (job.buffer->journal()) job.buffer->journal()->Remove();
    return true;
  });
}

Await<void> Jobs::RunHandler(Handler handler, std::shared_ptr<Request> request,
                             std::shared_ptr<Job> job) {
  const std::vector<std::string> no_parts;
  co_await handler(*request, no_parts, *job->buffer);
  job->buffer->Finish();
  job->completed_unix_s = std::time(nullptr);
  job->over_at = std::chrono::steady_clock::now();
  if (const auto& journal = job->buffer->journal(); journal) (void)journal->PutOver();
}

void Jobs::Run(const std::shared_ptr<Job>& job, std::shared_ptr<AnswerJournal> journal,
               Request request) {
  job->buffer = std::make_shared<StreamBuffer>(loop_, std::move(journal));
  jobs_[{job->tenant, job->id}] = job;
  const Handler& handler = handlers_.at({request.method, request.path});
  asio::co_spawn(loop_, RunHandler(handler, std::make_shared<Request>(std::move(request)), job),
                 asio::detached);
}

Result<std::shared_ptr<Job>> Jobs::Start(const std::string& id, const Request& request) {
  KVD_CHECK_OK(CheckId(id));
  ForgetOld();
  Remove(request.tenant, id);
  if (jobs_.size() >= kJobsMax) {
    return Fail(Code::kNoSpace, "streams: ", kJobsMax, " are kept; delete some");
  }
  std::shared_ptr<AnswerJournal> journal;
  if (directory_) {
    KVD_TRY(journal,
            AnswerJournal::Create(directory_.get(), FileName(request.tenant, id), id, request));
  }
  auto job = std::make_shared<Job>(Job{.id = id,
                                       .tenant = request.tenant,
                                       .started_unix_s = request.unix_s,
                                       .completed_unix_s = 0,
                                       .buffer = {},
                                       .over_at = {}});
  Run(job, std::move(journal), request);
  return job;
}

std::shared_ptr<Job> Jobs::Find(const std::string& tenant, const std::string& id) {
  ForgetOld();
  const auto found = jobs_.find({tenant, id});
  return found == jobs_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Job>> Jobs::FindAll(const std::string& tenant, const std::string& id) {
  ForgetOld();
  std::vector<std::shared_ptr<Job>> found;
  const std::string variants = id + "::";
  for (auto i = jobs_.lower_bound({tenant, id}); i != jobs_.end(); ++i) {
    if (i->first.first != tenant || !i->first.second.starts_with(id)) break;
    if (i->first.second == id || i->first.second.starts_with(variants)) found.push_back(i->second);
  }
  return found;
}

void Jobs::Remove(const std::string& tenant, const std::string& id) {
  const auto found = jobs_.find({tenant, id});
  if (found == jobs_.end()) return;
  const std::shared_ptr<Job> job = found->second;
  jobs_.erase(found);
  job->buffer->Cancel();
  if (job->buffer->journal()) job->buffer->journal()->Remove();
}

std::size_t Jobs::Recover() {
  if (!directory_) return 0;
  std::vector<std::string> names;
  const UniqueFd listed(::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const directory = listed ? ::fdopendir(::dup(listed.get())) : nullptr;
  if (directory == nullptr) return 0;
  while (const dirent* const entry = ::readdir(directory)) {
    if (std::string_view(entry->d_name).ends_with(kEnding)) names.emplace_back(entry->d_name);
  }
  ::closedir(directory);
  std::size_t count = 0;
  for (const std::string& name : names) {
    auto journal = AnswerJournal::Open(directory_.get(), name);
    if (!journal) {
      std::fprintf(stderr, "kvd-http: %s\n", journal.error().message.c_str());
      (void)::unlinkat(directory_.get(), name.c_str(), 0);
      continue;
    }
    Request request = (*journal)->request();
    const bool is_known = handlers_.contains({request.method, request.path});
    const bool is_old =
        (*journal)->is_over() && Request::UnixSeconds() - request.unix_s > kKept.count();
    if (!is_known || is_old || jobs_.size() >= kJobsMax) {
      (*journal)->Remove();
      continue;
    }
    auto job = std::make_shared<Job>(Job{.id = (*journal)->id(),
                                         .tenant = request.tenant,
                                         .started_unix_s = request.unix_s,
                                         .completed_unix_s = 0,
                                         .buffer = {},
                                         .over_at = {}});
    Run(job, std::move(*journal), std::move(request));
    ++count;
  }
  return count;
}

namespace {

// A coroutine keeps its arguments, so it takes them by value, but for what outlives it.
Await<void> FollowJob(Jobs& jobs, std::string id, const Request& request, Responder& responder) {
  const auto job = jobs.Start(id, request);
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
  return [&jobs, handler](const Request& request, const std::vector<std::string>& parts,
                          Responder& responder) -> Await<void> {
    const std::string id(request.header("X-Conversation-Id"));
    if (id.empty()) return handler(request, parts, responder);
    return FollowJob(jobs, id, request, responder);
  };
}

}  // namespace kvd::http
