// BreakerSearch: finds the tokens of DRY's breakers in a vocabulary, as llama.cpp does: the tokens
// that contain a breaker's text, and the tokens that end with the beginning of the text, with the
// tokens of the rest of the text (DryBreakers).
//
// A search goes through the vocabulary in parts, because it reads the text of every token; the
// parts run on the engine thread between steps. BreakerCache keeps the results, so that the default
// breakers are searched once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/sampling/dry.h"
#include "engine/vocabulary/vocabulary.h"

namespace kvd {

// llama.cpp's default breakers.
const std::vector<std::string>& DefaultBreakers();

class BreakerSearch {
 public:
  // A search in a vocabulary without a tokenizer finds nothing. The vocabulary outlives the search.
  // REQUIRES: no breaker is empty.
  BreakerSearch(const Vocabulary& vocabulary, std::vector<std::string> breakers);

  bool is_done() const { return next_token_ == token_count_; }
  // Searches the next tokens, at most `tokens_max`.
  void Advance(std::size_t tokens_max);
  const std::vector<std::string>& breakers() const { return breakers_; }
  // Returns the result. REQUIRES: is_done(); Take is called once.
  std::shared_ptr<const DryBreakers> Take();

 private:
  void LookAt(TokenId token);
  void LookFor(std::size_t breaker, TokenId token, const std::string& word);
  // Index of the tokens of the breaker's text from byte `begin` on.
  std::uint32_t TailOf(std::size_t breaker, std::size_t begin);

  const Vocabulary& vocabulary_;
  const std::vector<std::string> breakers_;
  const std::size_t token_count_;
  std::size_t next_token_ = 0;
  std::vector<bool> whole_;
  std::vector<DryBreakers::Head> heads_;
  std::vector<std::vector<TokenId>> tails_;
  std::map<std::pair<std::size_t, std::size_t>, std::uint32_t> tail_of_;
};

// The results of the last searches. Any number of threads may use a BreakerCache.
class BreakerCache {
 public:
  // Returns null if the cache does not have the breakers.
  std::shared_ptr<const DryBreakers> Find(const std::vector<std::string>& breakers);
  void Put(std::vector<std::string> breakers, std::shared_ptr<const DryBreakers> found);

 private:
  struct Entry {
    std::vector<std::string> breakers;
    std::shared_ptr<const DryBreakers> found;
  };
  Mutex mutex_;
  std::vector<Entry> entries_ KVD_GUARDED_BY(mutex_);  // the one used last comes last
};

}  // namespace kvd
