// GrammarWorker: compiles the grammars of generations, and computes the masks of their next tokens
// beside the forward pass.
//
// Owner: main; the worker outlives the scheduler and the service. Work runs through `post`, in the
// daemon on a thread of its own. Begin is called on the io thread, PrepareMask on the engine
// thread; a GrammarJob is used by the request that it belongs to and by the worker.
//
// Compiled grammars are kept for their owner, so that a grammar that is used again is compiled
// once; no owner can learn which grammars another owner uses. A kept grammar counts as held bytes
// of its owner (Resource::kHeldBytes) and gives way to a new one. Jobs take turns between owners.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "daemon/sessions/shares.h"
#include "engine/grammar/answer_grammar.h"
#include "engine/vocabulary/vocabulary.h"

namespace kvd {

// The grammar of one generation.
struct GrammarWanted {
  OwnerId owner{};
  std::shared_ptr<OwnerAccount> account;  // null: the grammar's bytes are not counted
  std::string text;                       // GBNF
  // Identifies the text and the triggers (wire::GenerateRequest::grammar_hash).
  std::uint64_t hash = 0;
  std::vector<GrammarTrigger> triggers;
  // The tokens that the grammar has already read, if an earlier generation is resumed.
  std::vector<TokenId> past;
};

class GrammarJob {
 public:
  explicit GrammarJob(GrammarWanted wanted) : wanted_(std::move(wanted)) {}

  // Returns whether the grammar is ready, or has failed.
  bool is_done() const { return is_done_.load(std::memory_order_acquire); }
  // Makes the job end soon; called when its request has ended.
  void Cancel() { is_cancelled_.store(true, std::memory_order_relaxed); }
  // Errors: kInvalidArgument (the grammar's text, with line and column), kUnsupported, kNoSpace
  // (the owner's held bytes), kConflict (the past tokens are not in the language). REQUIRES:
  // is_done(); called once.
  Result<AnswerGrammar> Take() { return std::move(*result_); }

 private:
  friend class GrammarWorker;
  GrammarWanted wanted_;
  std::optional<Result<AnswerGrammar>> result_;
  std::atomic<bool> is_done_ = false;
  std::atomic<bool> is_cancelled_ = false;
};

class GrammarWorker {
 public:
  // Largest number of grammars that are kept for one owner, and for all owners.
  static constexpr std::size_t kKeptPerOwner = 8;
  static constexpr std::size_t kKeptMax = 64;
  // Bytes of states and masks that a grammar keeps at most.
  static constexpr std::size_t kCacheBytes = 16u << 20;

  using Post = std::function<void(std::function<void()> call)>;
  // `row_size`: the length of a row of logits. `post` runs a call soon, or at once; `wake` is
  // called after each job. The vocabulary outlives the worker.
  GrammarWorker(const Vocabulary& vocabulary, std::uint32_t row_size, Post post,
                std::function<void()> wake);

  std::shared_ptr<GrammarJob> Begin(GrammarWanted wanted);
  // Computes the mask of the matcher's state, if it is not known yet, for the call of Mask that
  // follows the step. A call of Mask that comes earlier waits, or computes the mask itself.
  void PrepareMask(const GrammarMatcher& matcher);

 private:
  struct HeldGrammar {
    std::shared_ptr<Grammar> grammar;
    Share share;
  };
  struct Kept {
    OwnerId owner{};
    std::uint64_t hash = 0;
    std::shared_ptr<HeldGrammar> held;
  };

  void RunNext();
  Result<AnswerGrammar> Do(GrammarJob& job);
  Result<std::shared_ptr<Grammar>> FindOrCompile(GrammarJob& job);
  Result<Share> TakeBytes(const GrammarWanted& wanted, std::uint64_t bytes);
  // Drops the owner's kept grammar that was used longest ago and that no request uses. Returns
  // false if there is none.
  bool DropOne(OwnerId owner);
  void Keep(Kept kept);

  const Vocabulary& vocabulary_;
  const std::uint32_t row_size_;
  const Post post_;
  const std::function<void()> wake_;

  Mutex mutex_;
  // The owners with waiting jobs; the first one has the next turn.
  std::list<std::pair<OwnerId, std::deque<std::shared_ptr<GrammarJob>>>> waiting_
      KVD_GUARDED_BY(mutex_);

  // Only the worker's calls use the following members.
  std::shared_ptr<const GrammarVocabulary> grammar_vocabulary_;  // null until the first grammar
  std::list<Kept> kept_;                                         // the one used last comes last
};

}  // namespace kvd
