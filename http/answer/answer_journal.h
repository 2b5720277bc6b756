// AnswerJournal: a file with all that a gateway needs to go on with an answer after it was killed:
// the request, what was asked of the daemon, and each piece that the daemon has sent.
//
// The pieces are written before the client sees anything that was made from them, so a gateway that
// reads the journal makes the same bytes of the reply again, and the daemon then continues behind
// the last logged token: no token is lost or doubled. The file is written without fsync: it
// survives the process, not the machine.
//
// Format: records {u32 kind, u32 byte_count, bytes, u32 crc32c of the bytes}, little-endian. The
// first record is the request. A last record that is cut, or whose checksum is wrong, was being
// written when the process ended, and is removed.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/error.h"
#include "base/ids.h"
#include "base/unique_fd.h"
#include "http/backend/daemon_session.h"
#include "http/serve/request.h"

namespace kvd::http {

// A generation that was asked of the daemon.
struct LoggedStart {
  std::uint64_t request = 0;   // the id of the daemon's request
  std::uint64_t sequence = 0;  // handle
  std::uint64_t session = 0;   // MarkOf(session) of the session that owns the sequence
  std::uint32_t slot = 0;
  std::uint32_t cells = 0;  // of the sequence when its prompt is computed
  std::uint32_t first = 0;  // index of the first token of the prompt that was sent
};

class AnswerJournal {
 public:
  static constexpr std::uint64_t kBytesMax = 64u << 20;

  // Creates a new file (0600). Errors: kIo.
  static Result<std::shared_ptr<AnswerJournal>> Create(int directory, const std::string& name,
                                                       const std::string& id,
                                                       const Request& request);
  // Reads a file of an earlier process. Errors: kIo, kCorrupt (no whole request in it).
  static Result<std::shared_ptr<AnswerJournal>> Open(int directory, const std::string& name);

  const std::string& id() const { return id_; }
  const Request& request() const { return request_; }
  bool is_over() const { return is_over_; }

  // What an earlier process has logged, in its order; nullopt: the next record is of another kind,
  // or there is none.
  std::optional<LoggedStart> TakeStart();
  std::optional<GeneratedPiece> TakePiece();
  std::optional<wire::GenerateResult> TakeResult();
  // Whether records of an earlier process are left.
  bool has_more() const { return !records_.empty(); }

  // Errors: kIo, kNoSpace (kBytesMax).
  Status Put(const LoggedStart& start);
  Status Put(const GeneratedPiece& piece);
  Status Put(const wire::GenerateResult& result);
  // The reply is complete.
  Status PutOver();
  // Removes the file.
  void Remove();

 private:
  using Record = std::variant<LoggedStart, GeneratedPiece, wire::GenerateResult>;

  AnswerJournal(int directory, std::string name, UniqueFd file)
      : directory_(directory), name_(std::move(name)), file_(std::move(file)) {}
  Status Append(std::uint32_t kind, const std::string& bytes);
  // Takes a record that was read. Returns false if it is not well formed.
  bool Take(std::uint32_t kind, std::string_view bytes);
  bool TakeRequest(std::string_view bytes);

  int directory_;  // of the owner, which outlives the journal
  std::string name_;
  UniqueFd file_;
  std::uint64_t byte_count_ = 0;
  std::string id_;
  Request request_;
  bool has_request_ = false;
  bool is_over_ = false;
  std::deque<Record> records_;
};

}  // namespace kvd::http
