// Jobs: replies that continue when their client is gone, and when the gateway was killed: the
// streams of requests with an X-Conversation-Id, and responses in the background.
//
// A job runs a handler with a StreamBuffer as its client, and has a journal in the gateway's state
// directory. Recover runs the handlers of all journals of an earlier process again: they make the
// same bytes from the logged pieces, and then continue. A job that has ended stays for
// JobLimits::kept, so that a client that comes back finds the end of its stream.
//
// A request that ends the process would do so at every start. Therefore Recover runs one job at a
// time, and notes the attempt in the job's journal before: if the process ends then, it was that
// job. A journal with kAttemptsMax attempts without progress is not run again; it is set aside.
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
#include "http/answer/answer_journal.h"
#include "http/answer/job_index.h"
#include "http/answer/job_shares.h"
#include "http/answer/journal_folder.h"
#include "http/loop/await.h"
#include "http/serve/router.h"

namespace kvd::http {

class Jobs {
 public:
  static constexpr std::size_t kIdBytesMax = 1024;
  static constexpr std::uint32_t kAttemptsMax = 2;
  // How long Recover waits for the slots of answers in flight, and for all jobs to run.
  static constexpr std::chrono::seconds kClaimTime{10};
  // How long a job that runs again runs alone at most.
  static constexpr std::chrono::seconds kAloneTime{2};

  // `directory`: of the journals, made with mode 0700 if it does not exist; empty: jobs do not
  // outlive the process. Errors: kIo.
  static Result<std::unique_ptr<Jobs>> Open(Loop& loop, const std::string& directory,
                                            const JobLimits& limits = {});

  // The handler of a route whose replies may be jobs. Recover finds it by method and path.
  void AddHandler(const std::string& method, const std::string& path, Handler handler);

  // Runs the handler of POST `path` as a job; a job of the same tenant and id is cancelled and
  // replaced. If the request has an X-Conversation-Id, Find finds the job by it, too. Jobs that
  // have ended are forgotten if there is no room otherwise. Errors: kInvalidArgument (an id, a
  // body that no journal takes), kNoSpace (a limit), kIo. REQUIRES: AddHandler was called for the
  // path.
  Result<std::shared_ptr<Job>> Start(const std::string& id, const std::string& path,
                                     const Request& request);
  // Returns null if there is no such job.
  std::shared_ptr<Job> Find(const std::string& tenant, const std::string& id);
  // The tenant's jobs with this id, and those of its variants "ID::..." (answer/job_index.h).
  std::vector<std::shared_ptr<Job>> FindAll(const std::string& tenant, const std::string& id);
  // Cancels the job and forgets it. Does nothing if there is none.
  void Remove(const std::string& tenant, const std::string& id);
  const JobShares& shares() const { return *shares_; }

  // Reads the journals of an earlier process, and sets aside those that have ended it too often.
  // Returns, for each tenant, the sequences in which their answers were computed. Called once,
  // before Recover.
  std::map<std::string, std::set<SequenceHandle>> ReadJournals();
  // Runs the jobs of an earlier process again, those with the fewest attempts first. Waits until
  // each job whose answer was partly computed has its slot again; the gateway accepts requests only
  // after that, so that no request takes such a slot. A job whose attempt cannot be noted is not
  // run, and its journal stays for the next start. Returns the number of jobs.
  Await<std::size_t> Recover();
  // The process ends in order: the jobs that run now have not ended it.
  void EndAttempts();

 private:
  using JobPointer = std::shared_ptr<Job>;

  Jobs(Loop& loop, JournalFolder folder, const JobLimits& limits);
  // Removes jobs that have ended until the tenant may have `more`. Errors: kNoSpace.
  Status MakeRoom(const std::string& tenant, const JobAmounts& more);
  // The job that has ended first: of a tenant; of the tenant, among those with such jobs, that has
  // most. Null: there is none.
  JobPointer OldestEnded(const std::string& tenant) const;
  JobPointer OldestEndedOfLargest(std::uint64_t JobAmounts::* amount) const;
  // Makes a job of a journal that was read. Returns null if it is not wanted any more.
  JobPointer Restore(std::shared_ptr<AnswerJournal> journal);
  Await<void> RunInTurn(std::vector<JobPointer> computed, std::vector<JobPointer> waiting);
  // Runs a job again, and waits until its attempt is not open any more.
  Await<void> RunAlone(JobPointer job);
  Await<void> WaitForClaims(const std::vector<JobPointer>& computed);
  void Run(const JobPointer& job, Request request);
  Await<void> RunHandler(Handler handler, std::shared_ptr<Request> request, JobPointer job);
  void End(const JobPointer& job);
  void Erase(const JobPointer& job);
  // Forgets a job, but not its journal.
  void Forget(const JobPointer& job);
  void ForgetOld();

  Loop& loop_;
  JournalFolder folder_;
  const JobLimits limits_;
  std::shared_ptr<JobShares> shares_;
  std::map<std::pair<std::string, std::string>, Handler> handlers_;  // by method and path
  JobIndex index_;
  std::multimap<std::chrono::steady_clock::time_point, JobPointer> ended_;  // by over_at
  Deadline forget_;
  std::vector<std::shared_ptr<AnswerJournal>> read_;  // between ReadJournals and Recover
  Signal claimed_;
  Signal settled_;
  Signal turn_;
  std::chrono::steady_clock::time_point claims_until_{};
  bool is_turn_over_ = false;
  bool is_ending_ = false;
};

// The reply to a request whose job could not be started: 400, 429 (a limit) or 503.
GatewayReply RefusalOf(const Error& error);

// Wraps a handler: a request with an X-Conversation-Id runs as a job, whose stream the client
// follows; every other request runs as it is. REQUIRES: `jobs` outlives the handler.
Handler Resumable(Jobs& jobs, const std::string& method, const std::string& path, Handler handler);

}  // namespace kvd::http
