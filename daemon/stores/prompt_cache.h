// PromptCache: the policy of the prompt cache on disk.
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

#include "base/mutex.h"
#include "daemon/sessions/shares.h"
#include "engine/engine.h"
#include "engine/saved_state/prompt_store.h"
#include "shm/verb_table.h"

namespace kvd {

// MeasuredRate: a recent average rate, amount per second. Amounts and times are summed, and each
// addition first multiplies both sums by kFade, so that a long measurement weighs in proportion to
// its time. Any number of threads may use a MeasuredRate.
class MeasuredRate {
 public:
  void Add(double amount, std::chrono::nanoseconds time) {
    constexpr double kFade = 0.8;
    const MutexLock lock(mutex_);
    amount_ = amount_ * kFade + amount;
    seconds_ = seconds_ * kFade + std::chrono::duration<double>(time).count();
  }
  // Returns the average rate, or 0 if no measurement was added yet.
  double per_second() const {
    const MutexLock lock(mutex_);
    return seconds_ > 0 ? amount_ / seconds_ : 0;
  }

 private:
  mutable Mutex mutex_;
  double amount_ KVD_GUARDED_BY(mutex_) = 0;
  double seconds_ KVD_GUARDED_BY(mutex_) = 0;
};

// PromptCache: the policy of the prompt cache on disk: which retained sequences are written, and
// when an entry is read instead of computing a prompt.
//
// Owner: main. Retained sequences are written in the background as soon as they are released, so
// that an eviction does not have to write the sequence to disk. A sequence that is evicted before
// it is written is counted in CacheReply::spills_missed. If the disk holds more tokens of a prompt
// than the pool, the prompt waits until the entry is read, provided that reading is expected to be
// faster than computing; other requests continue in the meantime. Prompts that use the same entry
// share one read.

// An entry that is being read for one or more prompts.
class PromptLoad {
 public:
  // Any thread.
  bool is_done() const { return is_done_.load(std::memory_order_acquire); }
  // Returns the retained sequence that holds the loaded cells, or kNone if the load failed.
  // REQUIRES: is_done().
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
    // Smallest number of tokens of a sequence that is written to disk.
    std::uint32_t tokens_min = 0;
    const Shares* shares =
        // The limits of the owners, an object that outlives the cache; null: an owner may use the
        // whole cache.
        nullptr;
  };
  // `load` and `spill` are functions that run the calls given to them in order, each function on a
  // thread of its own. Both threads outlive the cache's calls.
  struct Threads {
    std::function<void(std::function<void()>)> load;
    std::function<void(std::function<void()>)> spill;
  };
  // The engine outlives the cache. Errors: those of PromptStore::Open.
  static Result<std::unique_ptr<PromptCache>> Open(Engine& engine, const Options& options,
                                                   Threads threads);

  // Sets a function that the load thread calls after each load. REQUIRES: no prompt has been looked
  // up.
  void OnLoaded(std::function<void()> call) { on_loaded_ = std::move(call); }
  // Stop may be called from any thread. Stop makes running loads and writes end soon, and prevents
  // new loads and writes.
  void Stop() { stops_.store(true, std::memory_order_relaxed); }
  // Offer may be called from any thread. Offer queues a released sequence, which may be evicted,
  // for writing.
  void Offer(SequenceHandle handle);
  // Offers all evictable sequences.
  void OfferAll();

  // The result of a look-up on disk.
  enum class Found : std::uint8_t {
    kNothing,
    // *load is set to the running load; the function given to OnLoaded is called when the load has
    // ended.
    kLoading,
    kNotWorthIt,  // an entry exists, but computing is expected to be faster than loading
  };
  // Look may be called from any thread. Look searches for an entry with more than `held` tokens of
  // the prompt, and begins to load the entry if loading is expected to be faster than computing.
  // Sometimes Look loads an entry although computing is expected to be faster, to measure the rate
  // of loading again.
  Found Look(OwnerId owner, std::uint64_t salt, std::span<const TokenId> prompt, std::uint32_t held,
             std::shared_ptr<PromptLoad>* load);
  // Records that computing `tokens` prompt tokens took `time`.
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
  // The running loads; the key is the entry's name.
  std::map<std::string, std::shared_ptr<PromptLoad>> loading_ KVD_GUARDED_BY(mutex_);
  wire::CacheReply counts_ KVD_GUARDED_BY(mutex_) = {};
};

}  // namespace kvd
