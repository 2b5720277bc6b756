// AnswerJournal: a file with all that a gateway needs to continue a reply after it was killed:
// the request, what was asked of the daemon, each piece that the daemon has sent, and the bytes of
// the reply.
//
// A piece is written before anything is made from it, and the reply's bytes are written before a
// client sees them. A gateway that reads the journal shows the same bytes, makes the answers again
// from the pieces without the daemon, and the daemon then continues behind the last token: no token
// is lost or doubled. The file is written without fsync: it survives the process, not the machine.
// When it cannot be written (a full disk, kBytesMax, the tenant's share), it is removed, and the
// reply ends with this process. Of the request's headers only those that handlers read are stored.
//
// Recovery notes an attempt before it runs a reply again, so that a reply that ends the process is
// not run at every start. An attempt is open until the reply makes progress, ends, or waits for a
// slot or the daemon. Progress is a record that is written once only: a piece, a result, the head,
// a text or the end of the reply; every run may write its starts, events and ends of answers again.
// An attempt without progress counts against the reply if the process has ended while the attempt
// was open. It is withdrawn when the reply waits or the process ends in order, since an end of the
// process then says nothing against the reply.
//
// A reply has one answer or several ones, numbered from 0; the pieces of several answers are mixed
// in the reply in the order that the journal notes (PutEvent).
//
// Format: records {u32 kind, u32 byte_count, bytes, u32 crc32c of the bytes}, little-endian. The
// first record is the request. A last record that is cut was being written when the process ended,
// and is removed. A record whose checksum is wrong is removed with those behind it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "base/ids.h"
#include "base/unique_fd.h"
#include "http/answer/cache_report.h"
#include "http/answer/job_shares.h"
#include "http/backend/daemon_session.h"
#include "http/serve/request.h"

namespace kvd::http {

// The header whose requests run as jobs (answer/jobs.h).
inline constexpr std::string_view kConversationHeader = "X-Conversation-Id";

// A generation that was asked of the daemon.
struct LoggedStart {
  std::uint64_t request = 0;   // the id of the daemon's request
  std::uint64_t sequence = 0;  // handle
  std::uint64_t session = 0;   // MarkOf(session) of the session that owns the sequence
  std::uint32_t slot = 0;      // AnswerEnd::slot
  std::uint32_t cells = 0;     // of the sequence when its prompt is computed
  std::uint32_t first = 0;     // index of the first token of the prompt that was sent
  std::uint32_t flags = 0;     // of GenerateOptions
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  // as expected
  bool has_counted_prompt = false;  // cached_tokens is exact
  bool is_branch = false;           // the sequence belongs to no slot
  bool is_first = false;            // of its answer; otherwise it continues after a shift
  CacheReport cache = {};
};

class AnswerJournal {
 public:
  static constexpr std::uint64_t kBytesMax = 64u << 20;
  static constexpr std::uint32_t kAnswersMax = 1u << 17;  // 1024 prompts, 128 answers to each

  // Creates a new file (0600). `share` (may be null): where its bytes are counted. Errors: kIo,
  // kNoSpace (the share); there is no file then.
  static Result<std::shared_ptr<AnswerJournal>> Create(int directory, const std::string& name,
                                                       const std::string& id,
                                                       const Request& request,
                                                       std::shared_ptr<JobShare> share = nullptr);
  // Reads a file of an earlier process. Errors: kIo; kCorrupt: it is no file of a journal, or has
  // no whole request.
  static Result<std::shared_ptr<AnswerJournal>> Open(int directory, const std::string& name);
  // The bytes that the file of such a request begins with.
  static std::uint64_t FirstBytes(const std::string& id, const Request& request);
  // Counts the bytes of a journal that was read.
  void CountIn(std::shared_ptr<JobShare> share);

  const std::string& id() const { return id_; }
  // Where Open has found a damaged record and removed the rest of the file.
  std::optional<std::uint64_t> damaged_at() const { return damaged_at_; }
  const std::string& name() const { return name_; }
  // Without its body, unless it was read and not taken.
  const Request& request() const { return request_; }
  // The request that was read, to run it again.
  Request TakeRequest();
  // The reply is complete; the time of its end.
  bool is_over() const { return is_over_; }
  std::int64_t over_unix_s() const { return over_unix_s_; }

  // What an earlier process has logged of an answer, in its order; nullopt: the next record is of
  // another kind, or there is none.
  std::optional<LoggedStart> TakeStart(std::uint32_t answer = 0);
  std::optional<AnswerPiece> TakePiece(std::uint32_t answer = 0);
  std::optional<wire::GenerateResult> TakeResult(std::uint32_t answer = 0);
  // The next record, if it is a start; null: it is not.
  const LoggedStart* FindStart(std::uint32_t answer) const;
  // The answer is complete: the daemon is not needed for it.
  bool HasEnd(std::uint32_t answer) const;
  // Forgets what an earlier process has logged of an answer.
  void Forget(std::uint32_t answer) { answers_.erase(answer); }
  // The order of the pieces of several answers.
  std::deque<std::uint32_t> TakeEvents() { return std::exchange(events_, {}); }
  // The reply that a client may have seen: its head, and the texts that were written one by one. A
  // whole reply has one text.
  struct LoggedReply {
    GatewayReply head;
    bool is_whole = false;
    std::deque<std::string> texts;
  };
  std::optional<LoggedReply> TakeReply() { return std::exchange(reply_, std::nullopt); }

  // Claim: an answer whose generation an earlier process had begun and not ended has its slot
  // again, or has failed. `call` is called once there is no unclaimed answer.
  void Claim(std::uint32_t answer);
  void ClaimAll();
  bool is_claimed() const { return unclaimed_.empty(); }
  void OnClaimed(std::function<void()> call) { on_claimed_ = std::move(call); }
  // The sequences that the unclaimed answers use.
  const std::map<std::uint32_t, SequenceHandle>& unclaimed() const { return unclaimed_; }

  // Attempts of this and earlier processes that count against the reply.
  std::uint32_t attempts() const { return attempts_; }
  // Notes that the reply is run again. Errors: kIo; nothing is noted.
  Status PutAttempt();
  bool is_attempt_open() const { return attempt_ == Attempt::kOpen; }
  // `call` is called when the attempt is not open any more.
  void OnSettled(std::function<void()> call) { on_settled_ = std::move(call); }
  // The process ends in order: withdraws an attempt that is open.
  void EndAttempt();
  // The reply has several answers, so that one that waits says nothing about the others.
  void KeepAttemptOpen() { may_pause_ = false; }

  void Put(const LoggedStart& start, std::uint32_t answer = 0);
  void Put(const AnswerPiece& piece, std::uint32_t answer = 0);
  void Put(const wire::GenerateResult& result, std::uint32_t answer = 0);
  void PutEnd(std::uint32_t answer = 0);
  void PutEvent(std::uint32_t answer);
  // `text`: of a whole reply.
  void PutHead(const GatewayReply& head, bool is_whole, const std::string& text);
  void PutText(const std::string& text);
  // The reply is complete.
  void PutOver();
  // Removes the file. What is logged later is lost.
  void Remove();
  // Leaves the file to the next process. What is logged later is lost.
  void Leave();

 private:
  using Record = std::variant<LoggedStart, AnswerPiece, wire::GenerateResult>;
  struct LoggedAnswer {
    std::deque<Record> records;
    bool is_ended = false;
  };
  enum class Attempt : std::uint8_t { kNone, kOpen, kPaused };
  friend class AttemptPause;

  AnswerJournal(int directory, std::string name, UniqueFd file)
      : directory_(directory), name_(std::move(name)), file_(std::move(file)) {}
  Status Append(std::uint32_t kind, const std::string& bytes);
  void SettleAs(Attempt next);
  void Withdraw(Attempt next);
  void Log(std::uint32_t kind, const std::string& bytes);
  // Takes a record that was read. Returns false if it is not well formed.
  bool Take(std::uint32_t kind, std::string_view bytes);
  bool ReadRequest(std::string_view bytes);
  bool TakeOfAnswer(std::uint32_t kind, std::string_view bytes);
  bool TakeOfReply(std::uint32_t kind, std::string_view bytes);
  void FindUnclaimed();
  template <class Kind>
  std::optional<Kind> TakeRecord(std::uint32_t answer);

  int directory_;  // of the owner, which outlives the journal
  std::string name_;
  UniqueFd file_;
  std::shared_ptr<JobShare> share_;
  std::uint64_t byte_count_ = 0;
  std::optional<std::uint64_t> damaged_at_;
  bool is_removed_ = false;
  std::string id_;
  Request request_;
  bool has_request_ = false;
  bool is_over_ = false;
  std::int64_t over_unix_s_ = 0;
  std::map<std::uint32_t, LoggedAnswer> answers_;
  std::deque<std::uint32_t> events_;
  std::optional<LoggedReply> reply_;
  std::map<std::uint32_t, SequenceHandle> unclaimed_;  // by answer
  std::function<void()> on_claimed_;
  Attempt attempt_ = Attempt::kNone;  // of this process
  std::uint32_t attempts_ = 0;
  bool may_pause_ = true;
  std::function<void()> on_settled_;
};

// An answer waits for a slot or the daemon: an attempt that is open is withdrawn, and noted again
// behind the wait.
class AttemptPause {
 public:
  // `journal` (may be null) outlives the pause.
  explicit AttemptPause(AnswerJournal* journal);
  ~AttemptPause();
  AttemptPause(const AttemptPause&) = delete;
  AttemptPause& operator=(const AttemptPause&) = delete;

 private:
  AnswerJournal* journal_;
};

}  // namespace kvd::http
