// PromptCache: policy of the prompt cache on disk: which retained prefixes are written, and when
// one is read for a prompt instead of computing it.
//
// Owner: main. Retained sequences are written in the background as soon as they are let go, so that
// an eviction finds them on disk and costs nothing; one that has to make room before is lost to the
// disk, and counted. A prompt that finds more on disk than in the pool waits for its file, if reading
// that is expected to be faster than computing: others go on meanwhile. Prompts with one beginning
// read it once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/measured_rate.h"
#include "daemon/shares.h"
#include "engine/engine.h"
#include "engine/saved_state/prompt_store.h"
#include "shm/mutex.h"
#include "shm/verb_table.h"

namespace kvd {

// A file that is read for prompts.
class PromptLoad {
 public:
  // Any thread.
  bool is_done() const { return is_done_.load(std::memory_order_acquire); }
  // REQUIRES: is_done(). The retained sequence that holds it now; kNone: there is none.
  SequenceHandle sequence() const { return sequence_; }

 private:
  friend class PromptCache;
  StoredPrefix prefix_;
  SequenceOwner owner_;
  std::vector<TokenId> prompt_;
  SequenceHandle sequence_ = SequenceHandle::kNone;
  std::atomic<bool> is_done_ = false;
};

class PromptCache {
 public:
  struct Options {
    std::string path;
    std::uint64_t bytes_max = 0;
    std::uint32_t tokens_min = 0;  // shorter ones are not written
    const Shares* shares =
        nullptr;  // null: an owner may have all of it; else it outlives the cache
  };
  // Has a call made soon, on another thread, one after the other. Both outlive the cache's calls.
  struct Threads {
    std::function<void(std::function<void()>)> load;
    std::function<void(std::function<void()>)> spill;
  };
  // The engine outlives it. Errors: those of PromptStore::Open.
  static Result<std::unique_ptr<PromptCache>> Open(Engine& engine, const Options& options,
                                                   Threads threads);

  // Called on the load thread after each load. To be set before the first prompt.
  void OnLoaded(std::function<void()> call) { on_loaded_ = std::move(call); }
  // Any thread: what runs ends soon, nothing begins any more.
  void Stop() { stops_.store(true, std::memory_order_relaxed); }
  // Any thread. The sequence was let go, and may be evicted: it is written when its turn comes.
  void Offer(SequenceHandle handle);
  // All that may be evicted.
  void OfferAll();

  // What the disk has for a prompt.
  enum class Found : std::uint8_t {
    kNothing,
    kLoading,     // *load is set; on_loaded is called when it is done
    kNotWorthIt,  // computing is expected to be faster
  };
  // Any thread. More than `held` tokens of the prompt.
  Found Look(std::uint32_t uid, std::uint64_t salt, std::span<const TokenId> prompt,
             std::uint32_t held, std::shared_ptr<PromptLoad>* load);
  // Tokens that were computed in that time.
  void NoteComputed(std::size_t tokens, std::chrono::nanoseconds time);

  PromptStore& store() { return *store_; }
  wire::CacheReply Describe() const;

 private:
  PromptCache(Engine& engine, const Options& options, Threads threads);
  void SpillNext();
  void Spill(SequenceHandle handle);
  void Run(const std::shared_ptr<PromptLoad>& load);
  bool IsWorthIt(const StoredPrefix& prefix, std::uint32_t tokens);

  Engine& engine_;
  const Options options_;
  const Threads threads_;
  std::unique_ptr<PromptStore> store_;
  std::function<void()> on_loaded_;
  std::atomic<bool> stops_{false};
  MeasuredRate load_bytes_;
  MeasuredRate computed_tokens_;

  mutable Mutex mutex_;
  std::deque<SequenceHandle> offered_ KVD_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<PromptLoad>> loading_ KVD_GUARDED_BY(mutex_);  // by entry
  wire::CacheReply counts_ KVD_GUARDED_BY(mutex_) = {};
};

}  // namespace kvd
