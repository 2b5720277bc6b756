#include "http/answer/answer_journal.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/file_calls.h"
#include "base/text.h"
#include "http/answer/record_bytes.h"
#include "http/serve/header_text.h"

namespace kvd::http {
namespace {

enum RecordKind : std::uint32_t {
  kRequest = 1,
  kStart = 2,
  kPiece = 3,
  kResult = 4,
  kOver = 5,
  kEnd = 6,
  kEvent = 7,
  kHead = 8,
  kText = 9,
  kAttempt = 10,
  kWithdrawn = 11,
};
constexpr std::size_t kFrameBytes = 12;  // of a record, around its bytes

// The headers that handlers read. A header that is not here may hold a secret of the client.
constexpr std::string_view kStoredHeaders[] = {kConversationHeader};

// Whether the record is written by one run of the reply only.
bool IsProgress(std::uint32_t kind) {
  switch (kind) {
    case kPiece:
    case kResult:
    case kHead:
    case kText:
    case kOver: return true;
    default: return false;
  }
}

bool IsOfAttempts(std::uint32_t kind) { return kind == kAttempt || kind == kWithdrawn; }

void PutHeaders(RecordWriter& writer, const std::vector<Header>& headers) {
  writer.Put(static_cast<std::uint32_t>(headers.size()));
  for (const Header& header : headers) writer.PutEach(header.name, header.value);
}

bool GetHeaders(RecordReader& reader, std::vector<Header>& headers) {
  std::uint32_t count = 0;
  if (!reader.Get(count)) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    Header header;
    if (!reader.GetEach(header.name, header.value)) return false;
    headers.push_back(std::move(header));
  }
  return true;
}

std::vector<Header> StoredHeaders(const std::vector<Header>& headers) {
  std::vector<Header> stored;
  for (const Header& header : headers) {
    const auto is_name = [&](std::string_view name) {
      return EqualsIgnoringCase(header.name, name);
    };
    if (std::ranges::any_of(kStoredHeaders, is_name)) stored.push_back(header);
  }
  return stored;
}

std::string RequestBytes(const std::string& id, const Request& request) {
  RecordWriter writer;
  writer.PutEach(id, request.method, request.path, request.body, request.tenant, request.nonce,
                 request.unix_s);
  PutHeaders(writer, StoredHeaders(request.headers));
  return writer.bytes();
}

std::uint32_t ChecksumOf(std::string_view bytes) {
  return Crc32c(0, std::as_bytes(std::span(bytes)));
}

Result<std::string> ReadWhole(int file) {
  struct stat status{};
  if (::fstat(file, &status) != 0) return FailErrno("journal");
  if (!S_ISREG(status.st_mode) ||
      static_cast<std::uint64_t>(status.st_size) > 2 * AnswerJournal::kBytesMax) {
    return Fail(Code::kCorrupt, "journal: no regular file, or too long");
  }
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t count =
        FileCalls::Read(file, bytes.data() + have, bytes.size() - have, static_cast<off_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FailErrno("journal");
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  bytes.resize(have);
  return bytes;
}

}  // namespace

Result<std::shared_ptr<AnswerJournal>> AnswerJournal::Create(int directory, const std::string& name,
                                                             const std::string& id,
                                                             const Request& request,
                                                             std::shared_ptr<JobShare> share) {
  (void)FileCalls::Unlink(directory, name);
  UniqueFd file(FileCalls::Open(
      directory, name, O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return FailErrno(Concat("journal ", name));
  std::shared_ptr<AnswerJournal> journal(new AnswerJournal(directory, name, std::move(file)));
  journal->share_ = std::move(share);
  journal->id_ = id;
  journal->request_ = {.method = request.method,
                       .path = request.path,
                       .query = {},
                       .headers = StoredHeaders(request.headers),
                       .body = {},
                       .key = {},
                       .tenant = request.tenant,
                       .nonce = request.nonce,
                       .unix_s = request.unix_s};
  Status written = journal->Append(kRequest, RequestBytes(id, request));
  if (!written) {
    journal->Remove();
    return std::unexpected(std::move(written).error());
  }
  return journal;
}

std::uint64_t AnswerJournal::FirstBytes(const std::string& id, const Request& request) {
  return RequestBytes(id, request).size() + kFrameBytes;
}

void AnswerJournal::CountIn(std::shared_ptr<JobShare> share) {
  share_ = std::move(share);
  if (share_) share_->SetJournal(byte_count_);
}

Request AnswerJournal::TakeRequest() {
  std::string body = std::exchange(request_.body, {});
  Request taken = request_;
  taken.body = std::move(body);
  return taken;
}

Result<std::shared_ptr<AnswerJournal>> AnswerJournal::Open(int directory, const std::string& name) {
  UniqueFd file(
      FileCalls::Open(directory, name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ELOOP) {
    return Fail(Code::kCorrupt, "journal ", name, ": a symbolic link; removed");
  }
  if (!file) return FailErrno(Concat("journal ", name));
  std::shared_ptr<AnswerJournal> journal(new AnswerJournal(directory, name, std::move(file)));
  auto read = ReadWhole(journal->file_.get());
  if (!read) return FailWithin(name, read.error());
  const std::string bytes = std::move(*read);
  std::string_view rest = bytes;
  bool is_damaged = false;
  while (rest.size() >= kFrameBytes) {
    std::uint32_t head[2];
    std::memcpy(head, rest.data(), sizeof head);
    if (head[1] > rest.size() - kFrameBytes) break;
    const std::string_view payload = rest.substr(sizeof head, head[1]);
    std::uint32_t checksum = 0;
    std::memcpy(&checksum, rest.data() + sizeof head + head[1], sizeof checksum);
    is_damaged = checksum != ChecksumOf(payload) || !journal->Take(head[0], payload);
    if (is_damaged) break;
    rest.remove_prefix(kFrameBytes + head[1]);
  }
  const std::uint64_t whole = bytes.size() - rest.size();
  if (!journal->has_request_) {
    return Fail(Code::kCorrupt, "journal ", name, ": it begins with no request; removed");
  }
  if (is_damaged) journal->damaged_at_ = whole;
  if (!rest.empty() && FileCalls::Truncate(journal->file_.get(), static_cast<off_t>(whole)) != 0) {
    return FailErrno(Concat("journal ", name));
  }
  journal->byte_count_ = whole;
  journal->FindUnclaimed();
  if (journal->is_over_) {  // the handler does not run again
    journal->request_.body = {};
    journal->answers_ = {};
    journal->events_ = {};
  }
  return journal;
}

bool AnswerJournal::ReadRequest(std::string_view bytes) {
  RecordReader reader(bytes);
  return reader.GetEach(id_, request_.method, request_.path, request_.body, request_.tenant,
                        request_.nonce, request_.unix_s) &&
         GetHeaders(reader, request_.headers) && reader.is_at_end();
}

bool AnswerJournal::TakeOfAnswer(std::uint32_t kind, std::string_view bytes) {
  RecordReader reader(bytes);
  std::uint32_t number = 0;
  if (!reader.Get(number) || number >= kAnswersMax) return false;
  if (kind == kEvent) {
    events_.push_back(number);
    return reader.is_at_end();
  }
  LoggedAnswer& answer = answers_[number];
  switch (kind) {
    case kStart: {
      LoggedStart start;
      CacheReport& cache = start.cache;
      if (!reader.GetEach(start.request, start.sequence, start.session, start.slot, start.cells,
                          start.first, start.flags, start.prompt_tokens, start.cached_tokens,
                          start.has_counted_prompt, start.is_branch, start.is_first, cache.reused,
                          cache.source, cache.limit, cache.prompt_text, cache.cached_text)) {
        return false;
      }
      if (start.is_first) answer = {};
      answer.records.emplace_back(std::move(start));
      return reader.is_at_end();
    }
    case kPiece: {
      AnswerPiece piece;
      if (!reader.GetEach(piece.tokens, piece.text, piece.logprobs, piece.is_progress, piece.done,
                          piece.total)) {
        return false;
      }
      answer.records.emplace_back(std::move(piece));
      return reader.is_at_end();
    }
    case kResult: {
      wire::GenerateResult result;
      if (!reader.Get(result)) return false;
      answer.records.emplace_back(result);
      return reader.is_at_end();
    }
    default: answer.is_ended = true; return reader.is_at_end();
  }
}

bool AnswerJournal::TakeOfReply(std::uint32_t kind, std::string_view bytes) {
  RecordReader reader(bytes);
  if (kind == kText) {
    if (!reply_) return false;
    reply_->texts.emplace_back(bytes);
    return true;
  }
  LoggedReply reply;
  std::string text;
  if (reply_ || !reader.GetEach(reply.head.status, reply.is_whole, reply.head.content_type, text) ||
      !GetHeaders(reader, reply.head.headers)) {
    return false;
  }
  if (reply.is_whole) reply.texts.push_back(std::move(text));
  reply_ = std::move(reply);
  return reader.is_at_end();
}

bool AnswerJournal::Take(std::uint32_t kind, std::string_view bytes) {
  if (has_request_ == (kind == kRequest)) return false;
  if (IsProgress(kind)) attempts_ = 0;
  switch (kind) {
    case kAttempt: ++attempts_; return bytes.empty();
    case kWithdrawn: attempts_ -= std::min(attempts_, 1u); return bytes.empty();
    case kRequest: has_request_ = ReadRequest(bytes); return has_request_;
    case kStart:
    case kPiece:
    case kResult:
    case kEnd:
    case kEvent: return TakeOfAnswer(kind, bytes);
    case kHead:
    case kText: return TakeOfReply(kind, bytes);
    case kOver: {
      RecordReader reader(bytes);
      is_over_ = reader.Get(over_unix_s_) && reader.is_at_end();
      return is_over_;
    }
    default: return false;
  }
}

void AnswerJournal::FindUnclaimed() {
  for (const auto& [number, answer] : answers_) {
    if (answer.is_ended || is_over_) continue;
    for (const Record& record : answer.records) {
      if (const auto* const start = std::get_if<LoggedStart>(&record)) {
        unclaimed_[number] = static_cast<SequenceHandle>(start->sequence);
      }
    }
  }
}

void AnswerJournal::Claim(std::uint32_t answer) {
  if (unclaimed_.erase(answer) != 0 && unclaimed_.empty() && on_claimed_) on_claimed_();
}

void AnswerJournal::ClaimAll() {
  if (unclaimed_.empty()) return;
  unclaimed_.clear();
  if (on_claimed_) on_claimed_();
}

template <class Kind>
std::optional<Kind> AnswerJournal::TakeRecord(std::uint32_t answer) {
  const auto found = answers_.find(answer);
  if (found == answers_.end() || found->second.records.empty()) return std::nullopt;
  std::deque<Record>& records = found->second.records;
  if (!std::holds_alternative<Kind>(records.front())) return std::nullopt;
  Kind record = std::move(std::get<Kind>(records.front()));
  records.pop_front();
  return record;
}

std::optional<LoggedStart> AnswerJournal::TakeStart(std::uint32_t answer) {
  return TakeRecord<LoggedStart>(answer);
}

std::optional<AnswerPiece> AnswerJournal::TakePiece(std::uint32_t answer) {
  return TakeRecord<AnswerPiece>(answer);
}

std::optional<wire::GenerateResult> AnswerJournal::TakeResult(std::uint32_t answer) {
  return TakeRecord<wire::GenerateResult>(answer);
}

const LoggedStart* AnswerJournal::FindStart(std::uint32_t answer) const {
  const auto found = answers_.find(answer);
  if (found == answers_.end() || found->second.records.empty()) return nullptr;
  return std::get_if<LoggedStart>(&found->second.records.front());
}

bool AnswerJournal::HasEnd(std::uint32_t answer) const {
  const auto found = answers_.find(answer);
  return found != answers_.end() && found->second.is_ended;
}

Status AnswerJournal::Append(std::uint32_t kind, const std::string& bytes) {
  const std::uint64_t more = bytes.size() + kFrameBytes;
  // Attempts are few and short, and a reply whose attempts cannot be noted is not run.
  if (!IsOfAttempts(kind)) {
    if (byte_count_ + more > kBytesMax) {
      return Fail(Code::kNoSpace, "journal: more than ", kBytesMax, " bytes");
    }
    if (share_) KVD_CHECK_OK(share_->CheckJournal(more));
  }
  RecordWriter record;
  record.Put(kind);
  record.Put(bytes);
  record.Put(ChecksumOf(bytes));
  const Status written =
      FileCalls::WriteAll(file_.get(), record.bytes(), Concat("journal ", name_));
  if (!written) {
    // A part of a record would hide the records behind it; the next process would remove them.
    (void)FileCalls::Truncate(file_.get(), static_cast<off_t>(byte_count_));
    return written;
  }
  byte_count_ += more;
  if (share_) share_->SetJournal(byte_count_);
  return {};
}

void AnswerJournal::Log(std::uint32_t kind, const std::string& bytes) {
  if (is_removed_) return;
  const Status logged = Append(kind, bytes);
  if (!logged) {
    std::fprintf(stderr, "kvd-http: %s: %s; a stream ends with this process\n", name_.c_str(),
                 logged.error().message.c_str());
    return Remove();
  }
  if (!IsProgress(kind)) return;
  attempts_ = 0;
  SettleAs(Attempt::kNone);
}

void AnswerJournal::SettleAs(Attempt next) {
  const bool was_open = std::exchange(attempt_, next) == Attempt::kOpen;
  if (was_open && next != Attempt::kOpen && on_settled_) on_settled_();
}

Status AnswerJournal::PutAttempt() {
  if (is_removed_) return {};
  KVD_CHECK_OK(Append(kAttempt, {}));
  ++attempts_;
  attempt_ = Attempt::kOpen;
  return {};
}

void AnswerJournal::Withdraw(Attempt next) {
  if (attempt_ == Attempt::kOpen && !is_removed_ && Append(kWithdrawn, {})) {
    attempts_ -= std::min(attempts_, 1u);
  }
  SettleAs(next);
}

void AnswerJournal::EndAttempt() { Withdraw(Attempt::kNone); }

AttemptPause::AttemptPause(AnswerJournal* journal) : journal_(journal) {
  const bool pauses = journal_ != nullptr && journal_->may_pause_ && journal_->is_attempt_open();
  if (pauses) {
    journal_->Withdraw(AnswerJournal::Attempt::kPaused);
  } else {
    journal_ = nullptr;
  }
}

AttemptPause::~AttemptPause() {
  const bool continues =
      journal_ != nullptr && journal_->attempt_ == AnswerJournal::Attempt::kPaused;
  // A reply that runs already is not stopped by a full disk; its next record is not written either.
  if (continues) (void)journal_->PutAttempt();
}

void AnswerJournal::Put(const LoggedStart& start, std::uint32_t answer) {
  const CacheReport& cache = start.cache;
  RecordWriter writer;
  writer.PutEach(answer, start.request, start.sequence, start.session, start.slot, start.cells,
                 start.first, start.flags, start.prompt_tokens, start.cached_tokens,
                 start.has_counted_prompt, start.is_branch, start.is_first, cache.reused,
                 cache.source, cache.limit, cache.prompt_text, cache.cached_text);
  Log(kStart, writer.bytes());
}

void AnswerJournal::Put(const AnswerPiece& piece, std::uint32_t answer) {
  RecordWriter writer;
  writer.PutEach(answer, piece.tokens, piece.text, piece.logprobs, piece.is_progress, piece.done,
                 piece.total);
  Log(kPiece, writer.bytes());
}

void AnswerJournal::Put(const wire::GenerateResult& result, std::uint32_t answer) {
  RecordWriter writer;
  writer.PutEach(answer, result);
  Log(kResult, writer.bytes());
}

void AnswerJournal::PutEnd(std::uint32_t answer) {
  RecordWriter writer;
  writer.Put(answer);
  Log(kEnd, writer.bytes());
}

void AnswerJournal::PutEvent(std::uint32_t answer) {
  RecordWriter writer;
  writer.Put(answer);
  Log(kEvent, writer.bytes());
}

void AnswerJournal::PutHead(const GatewayReply& head, bool is_whole, const std::string& text) {
  RecordWriter writer;
  writer.PutEach(head.status, is_whole, head.content_type, text);
  PutHeaders(writer, head.headers);
  Log(kHead, writer.bytes());
}

void AnswerJournal::PutText(const std::string& text) { Log(kText, text); }

void AnswerJournal::PutOver() {
  is_over_ = true;
  RecordWriter writer;
  writer.Put(over_unix_s_ = Request::UnixSeconds());
  Log(kOver, writer.bytes());
}

void AnswerJournal::Remove() {
  if (is_removed_) return;
  (void)FileCalls::Unlink(directory_, name_);
  Leave();
}

void AnswerJournal::Leave() {
  if (std::exchange(is_removed_, true)) return;
  file_.reset();
  if (share_) share_->SetJournal(0);
  SettleAs(Attempt::kNone);
}

}  // namespace kvd::http
