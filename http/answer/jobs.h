// Jobs: replies that continue when their client is gone, and when the gateway was killed: the
// streams of requests with an X-Conversation-Id, and responses in the background.
//
// A job runs a handler with a StreamBuffer as its client, and has a journal in the gateway's state
// directory. Recover runs the handlers of all journals of an earlier process again: they make the
// same bytes from the logged pieces, and then continue. A job that has ended stays for kKept, so
// that a client that comes back finds the end of its stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "http/answer/answer_journal.h"
#include "http/answer/stream_buffer.h"
#include "http/loop/await.h"
#include "http/loop/signal.h"
#include "http/serve/router.h"

namespace kvd::http {

struct Job {
  std::string id;  // chosen by the client, or of a response; unique for its tenant
  std::string tenant;
  std::string conversation;  // another id by which Find finds it; empty: none
  std::int64_t started_unix_s = 0;
  std::int64_t completed_unix_s = 0;  // 0: not yet
  std::shared_ptr<StreamBuffer> buffer;
  std::chrono::steady_clock::time_point over_at{};
};

class Jobs {
 public:
  static constexpr std::chrono::seconds kKept{300};
  static constexpr std::size_t kJobsMax = 4096;  // of all tenants
  static constexpr std::size_t kIdBytesMax = 1024;
  // How long Recover waits for the slots of answers in flight.
  static constexpr std::chrono::seconds kClaimTime{10};

  // `directory`: of the journals, made with mode 0700 if it does not exist; empty: jobs do not
  // outlive the process. Errors: kIo.
  static Result<std::unique_ptr<Jobs>> Open(Loop& loop, const std::string& directory);

  // The handler of a route whose replies may be jobs. Recover finds it by method and path.
  void AddHandler(const std::string& method, const std::string& path, Handler handler);

  // Runs the handler of POST `path` as a job; a job of the same tenant and id is cancelled and
  // replaced. If the request has an X-Conversation-Id, Find finds the job by it, too. Errors:
  // kInvalidArgument (an id), kNoSpace (too many jobs), kIo. REQUIRES: AddHandler was called for
  // the path.
  Result<std::shared_ptr<Job>> Start(const std::string& id, const std::string& path,
                                     const Request& request);
  // Returns null if there is no such job.
  std::shared_ptr<Job> Find(const std::string& tenant, const std::string& id);
  // The tenant's jobs with this id, or with an id that begins with "ID::".
  std::vector<std::shared_ptr<Job>> FindAll(const std::string& tenant, const std::string& id);
  // Cancels the job and forgets it. Does nothing if there is none.
  void Remove(const std::string& tenant, const std::string& id);

  // Reads the journals of an earlier process. Returns, for each tenant, the sequences in which
  // their answers were computed. Called once, before Recover.
  std::map<std::string, std::set<SequenceHandle>> ReadJournals();
  // Runs the jobs of an earlier process again. Waits until each job whose answer was partly
  // computed has its slot again; the gateway accepts requests only after that, so that no request
  // takes such a slot. Returns the number of jobs.
  Await<std::size_t> Recover();

 private:
  using Key = std::pair<std::string, std::string>;  // tenant, id

  Jobs(Loop& loop, UniqueFd directory)
      : loop_(loop), directory_(std::move(directory)), claimed_(loop) {}
  std::vector<std::string> JournalNames() const;
  // Makes a job of a journal that was read. Returns null if it is not wanted any more.
  std::shared_ptr<Job> Restore(std::shared_ptr<AnswerJournal> journal);
  void Add(const std::shared_ptr<Job>& job);
  void Erase(const std::shared_ptr<Job>& job);
  void Run(const std::shared_ptr<Job>& job, Request request);
  static Await<void> RunHandler(Handler handler, std::shared_ptr<Request> request,
                                std::shared_ptr<Job> job);
  void ForgetOld();

  Loop& loop_;
  UniqueFd directory_;
  std::map<std::pair<std::string, std::string>, Handler> handlers_;  // by method and path
  std::map<Key, std::shared_ptr<Job>> jobs_;
  std::map<Key, std::shared_ptr<Job>> by_conversation_;
  std::vector<std::shared_ptr<AnswerJournal>> read_;  // between ReadJournals and Recover
  Signal claimed_;
};

// Wraps a handler: a request with an X-Conversation-Id runs as a job, whose stream the client
// follows; every other request runs as it is. REQUIRES: `jobs` outlives the handler.
Handler Resumable(Jobs& jobs, const std::string& method, const std::string& path, Handler handler);

}  // namespace kvd::http
