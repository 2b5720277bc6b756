// ResumedStream: a client of one stream that connects again whenever it loses its connection, and
// asks for what it has not received.
//
// Follow runs on a thread of its own; the other functions are for the time after it has returned.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace kvd::http::test {

// A request whose reply is a stream.
struct StreamQuestion {
  enum class Kind : std::uint8_t {
    kConversation,  // resumed by its X-Conversation-Id and a number of bytes
    kResponse,      // resumed by its id and a number of events
    kBackground,    // as kResponse; the request itself has no stream
  };
  std::string name;
  Kind kind = Kind::kConversation;
  std::string path;
  std::string body;
};

class ResumedStream {
 public:
  ResumedStream(StreamQuestion question, std::string conversation)
      : question_(std::move(question)), conversation_(std::move(conversation)) {}

  // Asks, and reads the stream to its end. `port`: of the gateway, which may change.
  void Follow(const std::atomic<std::uint16_t>& port);

  const StreamQuestion& question() const { return question_; }
  const std::string& bytes() const { return bytes_; }
  // Empty: the stream has come to its end.
  const std::string& failure() const { return failure_; }
  // The stream from its beginning, read again. Empty after an error.
  std::string ReadAgain(std::uint16_t port) const;
  // The data of the events without what differs from run to run: ids, times, numbers of the cache.
  std::vector<std::string> Events() const;
  // The different ids that the events have in their member "id".
  std::size_t CountIds() const;

 private:
  // Returns whether the stream has ended or failed.
  bool Attempt(std::uint16_t port);
  std::string Target(std::size_t received) const;
  void DropPartOfEvent();

  StreamQuestion question_;
  std::string conversation_;
  std::string response_;  // id
  bool has_asked_ = false;
  std::string bytes_;
  std::string failure_;
};

}  // namespace kvd::http::test
