// How the jobs of an earlier process run again, one at a time.
//
// The next job runs when the attempt of the one before is not open any more: then the handler has
// made progress, has ended, or waits for a slot or the daemon, which takes milliseconds. So an end
// of the process is blamed on one job, and streams beside a request that ends the process are not
// set aside with it. Jobs with attempts come last, so that the others have made progress when the
// process ends again.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdio>
#include <utility>

#include "base/file_calls.h"
#include "base/text.h"
#include "http/answer/jobs.h"

namespace kvd::http {
namespace {

using std::chrono::steady_clock;

void SayOfJournal(std::string_view text) {
  std::fprintf(stderr, "kvd-http: %.*s\n", static_cast<int>(text.size()), text.data());
}

// Sets a journal aside, and says so.
void SetAsideAndSay(const JournalFolder& folder, const AnswerJournal& journal) {
  const auto bad = folder.SetAside(journal.name());
  const std::string cause = Concat("journal ", journal.name(), ": the gateway has ended ",
                                   journal.attempts(), " times while it ran this request again; ");
  if (bad) {
    SayOfJournal(Concat(cause, "its stream is lost, and the journal is kept as ", *bad));
  } else {
    SayOfJournal(Concat(cause, "it is not run, and cannot be set aside: ", bad.error().message));
  }
}

}  // namespace

std::map<std::string, std::set<SequenceHandle>> Jobs::ReadJournals() {
  std::map<std::string, std::set<SequenceHandle>> used;
  const auto names = folder_.Names();
  if (!names) {
    SayOfJournal(Concat(names.error().message, "; no stream is resumed"));
    return used;
  }
  for (const std::string& name : *names) {
    auto journal = AnswerJournal::Open(folder_.descriptor(), name);
    if (!journal) {
      SayOfJournal(journal.error().message);
      // A file that could not be read now may be read at the next start.
      if (journal.error().code == Code::kCorrupt) {
        (void)FileCalls::Unlink(folder_.descriptor(), name);
      }
      continue;
    }
    if (const auto at = (*journal)->damaged_at()) {
      SayOfJournal(
          Concat("journal ", name, ": damaged at byte ", *at, "; what follows is removed"));
    }
    if (!(*journal)->is_over() && (*journal)->attempts() >= kAttemptsMax) {
      SetAsideAndSay(folder_, **journal);
      continue;
    }
    for (const auto& [answer, sequence] : (*journal)->unclaimed()) {
      used[(*journal)->request().tenant].insert(sequence);
    }
    read_.push_back(std::move(*journal));
  }
  return used;
}

Jobs::JobPointer Jobs::Restore(std::shared_ptr<AnswerJournal> journal) {
  const Request& request = journal->request();
  const std::chrono::seconds age(
      std::max<std::int64_t>(Request::UnixSeconds() - journal->over_unix_s(), 0));
  const bool is_over = journal->is_over();
  const bool is_known = handlers_.contains({request.method, request.path});
  // Jobs that have ended are kept only where there is room; the others were admitted before.
  if (!is_known || (is_over && (age >= limits_.kept || shares_->FindLack(request.tenant, {1})))) {
    journal->Remove();
    return nullptr;
  }
  const std::string conversation(request.header(kConversationHeader));
  auto share = std::make_shared<JobShare>(shares_, request.tenant);
  journal->CountIn(share);
  auto job =
      std::make_shared<Job>(Job{.id = journal->id(),
                                .tenant = request.tenant,
                                .conversation = conversation == journal->id() ? "" : conversation,
                                .started_unix_s = request.unix_s,
                                .completed_unix_s = journal->over_unix_s(),
                                .share = share,
                                .buffer = std::make_shared<StreamBuffer>(loop_, journal, share)});
  index_.Add(job);
  if (is_over) {
    job->over_at = steady_clock::now() - age;
    ended_.emplace(job->over_at, job);
  }
  return job;
}

Await<std::size_t> Jobs::Recover() {
  std::vector<JobPointer> computed;  // in flight when the process was killed
  std::vector<JobPointer> waiting;
  for (std::shared_ptr<AnswerJournal>& journal : std::exchange(read_, {})) {
    const JobPointer job = Restore(std::move(journal));
    if (!job || job->buffer->journal()->is_over()) continue;
    (job->buffer->journal()->is_claimed() ? waiting : computed).push_back(job);
  }
  ForgetOld();
  const auto attempts = [](const JobPointer& job) { return job->buffer->journal()->attempts(); };
  std::ranges::stable_sort(computed, {}, attempts);
  std::ranges::stable_sort(waiting, {}, attempts);
  const std::size_t count = computed.size() + waiting.size();
  claims_until_ = steady_clock::now() + kClaimTime;
  boost::asio::co_spawn(loop_, RunInTurn(std::move(computed), std::move(waiting)),
                        boost::asio::detached);
  while (!is_turn_over_) {
    const auto rest = claims_until_ - steady_clock::now();
    if (rest.count() <= 0) break;
    co_await turn_.WaitFor(rest);
  }
  co_return count;
}

Await<void> Jobs::RunInTurn(std::vector<JobPointer> computed, std::vector<JobPointer> waiting) {
  for (const JobPointer& job : computed) co_await RunAlone(job);
  co_await WaitForClaims(computed);
  for (const JobPointer& job : waiting) co_await RunAlone(job);
  is_turn_over_ = true;
  turn_.Notify();
}

Await<void> Jobs::WaitForClaims(const std::vector<JobPointer>& computed) {
  for (const JobPointer& job : computed) {
    while (!job->buffer->journal()->is_claimed()) {
      const auto rest = claims_until_ - steady_clock::now();
      if (rest.count() <= 0) break;
      const bool is_claimed = co_await claimed_.WaitFor(rest);
      if (!is_claimed) break;
    }
    job->buffer->journal()->OnClaimed(nullptr);
  }
}

Await<void> Jobs::RunAlone(JobPointer job) {
  AnswerJournal& journal = *job->buffer->journal();
  if (is_ending_ || !index_.Has(*job)) co_return;
  const Status noted = journal.PutAttempt();
  if (!noted) {
    SayOfJournal(
        Concat(noted.error().message, "; the stream is not resumed before the next start"));
    journal.Leave();
    journal.ClaimAll();
    job->buffer->Cancel();
    Forget(job);
    co_return;
  }
  journal.OnClaimed([this] { claimed_.Notify(); });
  journal.OnSettled([this] { settled_.Notify(); });
  Run(job, journal.TakeRequest());
  const auto until = steady_clock::now() + kAloneTime;
  while (journal.is_attempt_open()) {
    const auto rest = until - steady_clock::now();
    if (rest.count() <= 0) break;
    co_await settled_.WaitFor(rest);
  }
  journal.OnSettled(nullptr);
}

void Jobs::EndAttempts() {
  is_ending_ = true;
  for (const JobPointer& job : index_.all()) {
    if (job->buffer->journal()) job->buffer->journal()->EndAttempt();
  }
}

}  // namespace kvd::http
