// TextCache: the daemon's answers to a session's short tokenize and detokenize requests, so that a
// text that comes again needs no round trip. The answer to such a request never changes.
//
// A session has one cache, so no tenant can find out by the time of an answer what another one has
// sent. Used by the event loop only. The most recently used entries are kept: at least
// kEntriesOfHalf, at most twice as many; an entry has at most kQuestionBytesMax + kAnswerBytesMax
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "shm/verb_table.h"

namespace kvd::http {

class TextCache {
 public:
  static constexpr std::size_t kEntriesOfHalf = 256;
  static constexpr std::size_t kQuestionBytesMax = 1024;
  static constexpr std::size_t kAnswerBytesMax = 4096;

  // The name of a request among the entries; empty: the request is too long to be kept.
  static std::string KeyOf(wire::Verb verb, std::uint16_t flags,
                           std::span<const std::byte> payload);

  // Null: not kept. The bytes live until the next call.
  const std::vector<std::byte>* Find(const std::string& key);
  // Keeps nothing if the key is empty or the answer is too long.
  void Put(const std::string& key, std::span<const std::byte> answer);

 private:
  using Half = std::unordered_map<std::string, std::vector<std::byte>>;
  const std::vector<std::byte>* Insert(const std::string& key, std::vector<std::byte> answer);

  Half recent_;
  Half older_;  // what was recent before recent_ was full the last time
};

}  // namespace kvd::http
