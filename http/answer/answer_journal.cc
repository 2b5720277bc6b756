#include "http/answer/answer_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/text.h"
#include "http/answer/record_bytes.h"

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
};
constexpr std::size_t kFrameBytes = 12;  // of a record, around its bytes

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

// The headers as the journal stores them: without the keys of clients.
std::vector<Header> WithoutKeys(std::vector<Header> headers) {
  for (Header& header : headers) {
    if (header.name == "Authorization" || header.name == "X-Api-Key") header.value.clear();
  }
  return headers;
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
        ::pread(file, bytes.data() + have, bytes.size() - have, static_cast<off_t>(have));
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
                                                             const Request& request) {
  (void)::unlinkat(directory, name.c_str(), 0);
  UniqueFd file(::openat(directory, name.c_str(),
                         O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return FailErrno(Concat("journal ", name));
  std::shared_ptr<AnswerJournal> journal(new AnswerJournal(directory, name, std::move(file)));
  journal->id_ = id;
  journal->request_ = request;
  RecordWriter writer;
  writer.PutEach(id, request.method, request.path, request.body, request.tenant, request.nonce,
                 request.unix_s);
  PutHeaders(writer, WithoutKeys(request.headers));
  KVD_CHECK_OK(journal->Append(kRequest, writer.bytes()));
  return journal;
}

Result<std::shared_ptr<AnswerJournal>> AnswerJournal::Open(int directory, const std::string& name) {
  UniqueFd file(
      ::openat(directory, name.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return FailErrno(Concat("journal ", name));
  std::shared_ptr<AnswerJournal> journal(new AnswerJournal(directory, name, std::move(file)));
  KVD_TRY(const std::string bytes, ReadWhole(journal->file_.get()));
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
  if (!rest.empty() && ::ftruncate(journal->file_.get(), static_cast<off_t>(whole)) != 0) {
    return FailErrno(Concat("journal ", name));
  }
  journal->byte_count_ = whole;
  journal->FindUnclaimed();
  return journal;
}

bool AnswerJournal::TakeRequest(std::string_view bytes) {
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
      GeneratedPiece piece;
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
  switch (kind) {
    case kRequest: has_request_ = TakeRequest(bytes); return has_request_;
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

std::optional<GeneratedPiece> AnswerJournal::TakePiece(std::uint32_t answer) {
  return TakeRecord<GeneratedPiece>(answer);
}

std::optional<wire::GenerateResult> AnswerJournal::TakeResult(std::uint32_t answer) {
  return TakeRecord<wire::GenerateResult>(answer);
}

bool AnswerJournal::HasStart(std::uint32_t answer) const {
  const auto found = answers_.find(answer);
  return found != answers_.end() && !found->second.records.empty() &&
         std::holds_alternative<LoggedStart>(found->second.records.front());
}

bool AnswerJournal::HasEnd(std::uint32_t answer) const {
  const auto found = answers_.find(answer);
  return found != answers_.end() && found->second.is_ended;
}

Status AnswerJournal::Append(std::uint32_t kind, const std::string& bytes) {
  if (byte_count_ + bytes.size() + kFrameBytes > kBytesMax) {
    return Fail(Code::kNoSpace, "journal: more than ", kBytesMax, " bytes");
  }
  RecordWriter record;
  record.Put(kind);
  record.Put(bytes);
  record.Put(ChecksumOf(bytes));
  const std::string& all = record.bytes();
  // One call: the kernel appends all of it, or fails for want of space.
  if (::write(file_.get(), all.data(), all.size()) != static_cast<ssize_t>(all.size())) {
    return FailErrno(Concat("journal ", name_));
  }
  byte_count_ += all.size();
  return {};
}

void AnswerJournal::Log(std::uint32_t kind, const std::string& bytes) {
  if (is_removed_) return;
  const Status logged = Append(kind, bytes);
  if (logged) return;
  std::fprintf(stderr, "kvd-http: %s: %s; a stream ends with this process\n", name_.c_str(),
               logged.error().message.c_str());
  Remove();
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

void AnswerJournal::Put(const GeneratedPiece& piece, std::uint32_t answer) {
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

void AnswerJournal::PutHead(const Reply& head, bool is_whole, const std::string& text) {
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
  if (!std::exchange(is_removed_, true)) (void)::unlinkat(directory_, name_.c_str(), 0);
}

}  // namespace kvd::http
