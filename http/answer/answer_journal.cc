#include "http/answer/answer_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/text.h"

namespace kvd::http {
namespace {

enum Kind : std::uint32_t { kRequest = 1, kStart = 2, kPiece = 3, kResult = 4, kOver = 5 };

// Appends numbers and texts to a record, and reads them again.
class Writer {
 public:
  template <class Number>
  void Put(const Number& number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void Put(const std::string& text) {
    Put(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  template <class Item>
  void PutAll(const std::vector<Item>& items) {
    Put(static_cast<std::uint32_t>(items.size()));
    bytes_.append(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(Item));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class Number>
  bool Get(Number& number) {
    if (bytes_.size() < sizeof number) return false;
    std::memcpy(&number, bytes_.data(), sizeof number);
    bytes_.remove_prefix(sizeof number);
    return true;
  }
  bool Get(std::string& text) {
    std::uint32_t count = 0;
    if (!Get(count) || bytes_.size() < count) return false;
    text.assign(bytes_.substr(0, count));
    bytes_.remove_prefix(count);
    return true;
  }
  template <class Item>
  bool GetAll(std::vector<Item>& items) {
    std::uint32_t count = 0;
    if (!Get(count) || bytes_.size() / sizeof(Item) < count) return false;
    items.resize(count);
    if (count != 0) std::memcpy(items.data(), bytes_.data(), count * sizeof(Item));
    bytes_.remove_prefix(count * sizeof(Item));
    return true;
  }
  bool is_at_end() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

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
  Writer writer;
  writer.Put(id);
  writer.Put(request.method);
  writer.Put(request.path);
  writer.Put(request.body);
  writer.Put(request.tenant);
  writer.Put(request.nonce);
  writer.Put(request.unix_s);
  writer.Put(static_cast<std::uint32_t>(request.headers.size()));
  for (const Header& header : request.headers) {
    // Keys are not stored.
    const bool is_secret = header.name == "Authorization" || header.name == "X-Api-Key";
    writer.Put(header.name);
    writer.Put(is_secret ? std::string() : header.value);
  }
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
  std::uint64_t whole = 0;
  while (rest.size() >= 12) {
    std::uint32_t head[2];
    std::memcpy(head, rest.data(), sizeof head);
    if (head[1] > rest.size() - 12) break;
    const std::string_view payload = rest.substr(8, head[1]);
    std::uint32_t checksum = 0;
    std::memcpy(&checksum, rest.data() + 8 + head[1], sizeof checksum);
    if (checksum != ChecksumOf(payload) || !journal->Take(head[0], payload)) break;
    rest.remove_prefix(12 + head[1]);
    whole += 12 + head[1];
  }
  if (!journal->has_request_) {
    return Fail(Code::kCorrupt, "journal ", name, ": it begins with no request");
  }
  if (!rest.empty() && ::ftruncate(journal->file_.get(), static_cast<off_t>(whole)) != 0) {
    return FailErrno(Concat("journal ", name));
  }
  journal->byte_count_ = whole;
  return journal;
}

bool AnswerJournal::TakeRequest(std::string_view bytes) {
  Reader reader(bytes);
  std::uint32_t headers = 0;
  if (!reader.Get(id_) || !reader.Get(request_.method) || !reader.Get(request_.path) ||
      !reader.Get(request_.body) || !reader.Get(request_.tenant) || !reader.Get(request_.nonce) ||
      !reader.Get(request_.unix_s) || !reader.Get(headers)) {
    return false;
  }
  for (std::uint32_t i = 0; i < headers; ++i) {
    Header header;
    if (!reader.Get(header.name) || !reader.Get(header.value)) return false;
    request_.headers.push_back(std::move(header));
  }
  return reader.is_at_end();
}

bool AnswerJournal::Take(std::uint32_t kind, std::string_view bytes) {
  if (has_request_ == (kind == kRequest)) return false;
  Reader reader(bytes);
  switch (kind) {
    case kRequest: has_request_ = TakeRequest(bytes); return has_request_;
    case kStart: {
      LoggedStart start;
      if (!reader.Get(start) || !reader.is_at_end()) return false;
      records_.push_back(start);
      return true;
    }
    case kPiece: {
      GeneratedPiece piece;
      if (!reader.GetAll(piece.tokens) || !reader.Get(piece.text) ||
          !reader.GetAll(piece.logprobs) || !reader.is_at_end()) {
        return false;
      }
      records_.push_back(std::move(piece));
      return true;
    }
    case kResult: {
      wire::GenerateResult result;
      if (!reader.Get(result) || !reader.is_at_end()) return false;
      records_.push_back(result);
      return true;
    }
    case kOver: is_over_ = true; return true;
    default: return false;
  }
}

std::optional<LoggedStart> AnswerJournal::TakeStart() {
  if (records_.empty() || !std::holds_alternative<LoggedStart>(records_.front())) return {};
  const LoggedStart start = std::get<LoggedStart>(records_.front());
  records_.pop_front();
  return start;
}

std::optional<GeneratedPiece> AnswerJournal::TakePiece() {
  if (records_.empty() || !std::holds_alternative<GeneratedPiece>(records_.front())) return {};
  GeneratedPiece piece = std::move(std::get<GeneratedPiece>(records_.front()));
  records_.pop_front();
  return piece;
}

std::optional<wire::GenerateResult> AnswerJournal::TakeResult() {
  if (records_.empty() || !std::holds_alternative<wire::GenerateResult>(records_.front())) {
    return {};
  }
  const wire::GenerateResult result = std::get<wire::GenerateResult>(records_.front());
  records_.pop_front();
  return result;
}

Status AnswerJournal::Append(std::uint32_t kind, const std::string& bytes) {
  if (byte_count_ + bytes.size() + 12 > kBytesMax) {
    return Fail(Code::kNoSpace, "journal: more than ", kBytesMax, " bytes");
  }
  Writer record;
  record.Put(kind);
  record.Put(bytes);
  record.Put(ChecksumOf(bytes));
  const std::string& all = record.bytes();
  // One call: the kernel appends all of it, or fails for want of space.
  if (::write(file_.get(), all.data(), all.size()) != static_cast<ssize_t>(all.size())) {
    const std::unexpected<Error> failed = FailErrno(Concat("journal ", name_));
    // A record that is cut would hide those behind it.
    if (::ftruncate(file_.get(), static_cast<off_t>(byte_count_)) != 0) byte_count_ = kBytesMax;
    return failed;
  }
  byte_count_ += all.size();
  return {};
}

Status AnswerJournal::Put(const LoggedStart& start) {
  Writer writer;
  writer.Put(start);
  return Append(kStart, writer.bytes());
}

Status AnswerJournal::Put(const GeneratedPiece& piece) {
  if (piece.is_progress) return {};
  Writer writer;
  writer.PutAll(piece.tokens);
  writer.Put(piece.text);
  writer.PutAll(piece.logprobs);
  return Append(kPiece, writer.bytes());
}

Status AnswerJournal::Put(const wire::GenerateResult& result) {
  Writer writer;
  writer.Put(result);
  return Append(kResult, writer.bytes());
}

Status AnswerJournal::PutOver() {
  is_over_ = true;
  return Append(kOver, {});
}

void AnswerJournal::Remove() { (void)::unlinkat(directory_, name_.c_str(), 0); }

}  // namespace kvd::http
