#include "http/answer/jobs.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdio>
#include <ctime>
#include <exception>
#include <optional>
#include <utility>

#include "base/text.h"
#include "http/answer/stream_buffer.h"
#include "http/loop/turn_watch.h"
#include "http/serve/request.h"

namespace kvd::http {
namespace {

namespace asio = boost::asio;

Status CheckId(const std::string& id) {
  if (!id.empty() && id.size() <= Jobs::kIdBytesMax) return {};
  return Fail(Code::kInvalidArgument, "conversation id: ", id.size(), " bytes, not within 1 to ",
              Jobs::kIdBytesMax);
}

// Runs a handler. Returns what it has thrown: kvd's own code throws nothing, but libraries and the
// allocator do, and an exception must not leave the coroutine, which would end the process.
Await<std::optional<std::string>> RunCaught(const Handler& handler, const Request& request,
                                            Responder& responder) {
  const std::vector<std::string> no_parts;
  try {
    co_await handler(request, no_parts, responder);
  } catch (const std::exception& error) {
    co_return Concat("the request has failed: ", error.what());
  } catch (...) {
    co_return "the request has failed";
  }
  co_return std::nullopt;
}

}  // namespace

Jobs::Jobs(Loop& loop, JournalFolder folder, const JobLimits& limits)
    : loop_(loop),
      folder_(std::move(folder)),
      limits_(limits),
      shares_(std::make_shared<JobShares>(limits)),
      forget_(loop, [this] { ForgetOld(); }),
      claimed_(loop),
      settled_(loop),
      turn_(loop) {}

Result<std::unique_ptr<Jobs>> Jobs::Open(Loop& loop, const std::string& directory,
                                         const JobLimits& limits) {
  KVD_TRY(JournalFolder folder, JournalFolder::Open(directory));
  return std::unique_ptr<Jobs>(new Jobs(loop, std::move(folder), limits));
}

void Jobs::AddHandler(const std::string& method, const std::string& path, Handler handler) {
  handlers_[{method, path}] = std::move(handler);
}

void Jobs::Forget(const JobPointer& job) {
  index_.Remove(job);
  job->share->Forget();
  const auto [first, last] = ended_.equal_range(job->over_at);
  for (auto i = first; i != last; ++i) {
    if (i->second != job) continue;
    ended_.erase(i);
    break;
  }
}

void Jobs::Erase(const JobPointer& job) {
  if (job->buffer->journal()) job->buffer->journal()->Remove();
  Forget(job);
}

void Jobs::ForgetOld() {
  const auto now = std::chrono::steady_clock::now();
  while (!ended_.empty() && now - ended_.begin()->first >= limits_.kept) {
    Erase(JobPointer(ended_.begin()->second));
  }
  if (!ended_.empty()) forget_.Set(ended_.begin()->first + limits_.kept);
}

void Jobs::End(const JobPointer& job) {
  job->buffer->Finish();
  job->completed_unix_s = std::time(nullptr);
  job->over_at = std::chrono::steady_clock::now();
  if (const auto& journal = job->buffer->journal(); journal) {
    journal->PutOver();
    journal->ClaimAll();
  }
  if (!index_.Has(*job)) return;  // it was removed while it ran
  ended_.emplace(job->over_at, job);
  ForgetOld();
}

Await<void> Jobs::RunHandler(Handler handler, std::shared_ptr<Request> request, JobPointer job) {
  const auto thrown = co_await RunCaught(handler, *request, *job->buffer);
  if (thrown) co_await job->buffer->EndWithError(*thrown);
  // The messages of a conversation are those of the body, as values.
  const bool has_messages = !job->buffer->conversation()->messages.is_missing();
  job->share->SetRequest(has_messages ? request->body.size() : 0);
  request.reset();
  End(job);
}

void Jobs::Run(const JobPointer& job, Request request) {
  const auto& [route, handler] = *handlers_.find({request.method, request.path});
  job->share->SetRequest(request.body.size());
  asio::co_spawn(Labelled(loop_, &route.second),
                 RunHandler(handler, std::make_shared<Request>(std::move(request)), job),
                 asio::detached);
}

Jobs::JobPointer Jobs::OldestEnded(const std::string& tenant) const {
  for (const auto& [over_at, job] : ended_) {
    if (job->tenant == tenant) return job;
  }
  return nullptr;
}

Jobs::JobPointer Jobs::OldestEndedOfLargest(std::uint64_t JobAmounts::* amount) const {
  JobPointer oldest;
  std::uint64_t most = 0;
  for (const auto& [over_at, job] : ended_) {
    const std::uint64_t present = shares_->of(job->tenant).*amount;
    if (oldest && present <= most) continue;
    oldest = job;
    most = present;
  }
  return oldest;
}

Status Jobs::MakeRoom(const std::string& tenant, const JobAmounts& more) {
  for (;;) {
    auto lack = shares_->FindLack(tenant, more);
    if (!lack) return {};
    JobPointer ended = OldestEnded(tenant);
    // All tenants together have too much: the one that has most gives way.
    if (!ended && lack->is_of_all) ended = OldestEndedOfLargest(lack->amount);
    if (!ended) return std::unexpected(std::move(lack->error));
    Erase(ended);
  }
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
  JobAmounts more{.jobs = 1, .memory_bytes = request.body.size()};
  if (folder_) more.journal_bytes = AnswerJournal::FirstBytes(id, request);
  if (more.journal_bytes > AnswerJournal::kBytesMax) {
    return Fail(Code::kInvalidArgument, "body: ", request.body.size(),
                " bytes are too many for the journal of a stream, which has at most ",
                AnswerJournal::kBytesMax);
  }
  KVD_CHECK_OK(MakeRoom(request.tenant, more));
  auto share = std::make_shared<JobShare>(shares_, request.tenant);
  std::shared_ptr<AnswerJournal> journal;
  if (folder_) {
    KVD_TRY(journal,
            AnswerJournal::Create(folder_.descriptor(), JournalFolder::NameOf(request.tenant, id),
                                  id, request, share));
  }
  auto job = std::make_shared<Job>(
      Job{.id = id,
          .tenant = request.tenant,
          .conversation = conversation == id ? std::string() : conversation,
          .started_unix_s = request.unix_s,
          .share = share,
          .buffer = std::make_shared<StreamBuffer>(loop_, std::move(journal), share)});
  index_.Add(job);
  Run(job, std::move(request));
  return job;
}

std::shared_ptr<Job> Jobs::Find(const std::string& tenant, const std::string& id) {
  ForgetOld();
  return index_.Find(tenant, id);
}

std::vector<std::shared_ptr<Job>> Jobs::FindAll(const std::string& tenant, const std::string& id) {
  ForgetOld();
  return index_.FindAll(tenant, id);
}

void Jobs::Remove(const std::string& tenant, const std::string& id) {
  const JobPointer job = Find(tenant, id);
  if (!job) return;
  job->buffer->Cancel();
  Erase(job);
}

namespace {

// A coroutine keeps its arguments, so it takes them by value, but for what outlives it.
Await<void> FollowJob(Jobs& jobs, std::string id, std::string path, const Request& request,
                      Responder& responder) {
  const auto job = jobs.Start(id, path, request);
  if (!job) {
    GatewayReply reply = RefusalOf(job.error());
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

GatewayReply RefusalOf(const Error& error) {
  switch (error.code) {
    case Code::kInvalidArgument: return ErrorReply(400, error.message);
    case Code::kNoSpace: return ErrorReply(429, error.message);
    default:
      std::fprintf(stderr, "kvd-http: %s\n", error.message.c_str());
      return ErrorReply(503, "the server cannot write the journal of a stream");
  }
}

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
