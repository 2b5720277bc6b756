// StreamFolder: a folder of journals for tests of Jobs, and handlers of the jobs.
//
// The handlers answer as the real ones do: they take what the journal has, and log what is new
// before they write it.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "http/answer/jobs.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd::test {

// The state of a journal before a start.
struct StreamState {
  std::string id;
  std::string path = "/healthy";
  std::uint32_t pieces = 0;  // that were logged and written
  std::uint32_t attempts = 0;
  bool is_started = false;  // an answer was begun, which has a sequence
  bool is_over = false;
};

class StreamFolder {
 public:
  // The reply of /healthy.
  static constexpr const char* kReply = "abc";

  std::string path() const { return folder_.path().string() + "/streams"; }
  // The file of a stream; `ending`: "journal" or "bad".
  std::string PathOf(const std::string& id, const std::string& ending = "journal") const;
  bool Has(const std::string& id, const std::string& ending = "journal") const;
  // The names of all files.
  std::vector<std::string> Files() const;

  // Writes a journal.
  void Put(const StreamState& state) const;
  void PutBytes(const std::string& name, const std::string& bytes) const;
  // Reads a journal, also one that was set aside.
  std::shared_ptr<http::AnswerJournal> Read(const std::string& id,
                                            const std::string& ending = "journal") const;
  // The text of the reply that a journal has.
  std::string ReplyIn(const std::string& id) const;
  void Clear() const;

 private:
  UniqueFd Open() const;

  TemporaryFolder folder_;
};

// A request with a conversation.
http::Request RequestOf(const std::string& id, const std::string& path,
                        const std::string& tenant = "");

// The jobs of one process, with the handlers /healthy and those that a test adds.
class JobsProcess {
 public:
  explicit JobsProcess(const std::string& folder, const http::JobLimits& limits = {});
  // Ends without a word, as a process that is killed.
  ~JobsProcess() = default;
  JobsProcess(const JobsProcess&) = delete;
  JobsProcess& operator=(const JobsProcess&) = delete;

  void Add(const std::string& path, http::Handler handler) {
    jobs_->AddHandler("POST", path, std::move(handler));
  }
  // Reads the journals, and runs the loop until Recover has returned.
  void Recover();
  // Reads the journals, and runs what is ready.
  void BeginToRecover();
  // Runs what is ready.
  void Poll();

  http::Loop& loop() { return loop_; }
  http::Jobs& jobs() { return *jobs_; }

 private:
  http::Loop loop_;
  std::unique_ptr<http::Jobs> jobs_;
  bool is_recovered_ = false;
};

// Never ends.
http::Await<void> Forever();
// The handler /healthy: three pieces.
http::Await<void> AnswerHealthily(const http::Request& request, http::Responder& responder);

}  // namespace kvd::test
