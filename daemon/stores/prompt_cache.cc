#include "daemon/stores/prompt_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/text.h"
#include "daemon/process/log.h"
#include "daemon/sessions/owners.h"

namespace kvd {
namespace {

using Clock = std::chrono::steady_clock;

// If computing a prompt is expected to be faster than reading its entry, the prompt is computed;
// but the entry of every 32nd such prompt is read from disk to measure the rate again, because the
// speed of the disk and the load of the machine change.
constexpr std::uint64_t kTryAgainAfter = 32;
static_assert(Quotas{}.prompt_cache_entries == PromptStore::kEntriesMax);

}  // namespace

Result<std::unique_ptr<PromptCache>> PromptCache::Open(Engine& engine, const Options& options,
                                                       Threads threads) {
  std::unique_ptr<PromptCache> cache(new PromptCache(engine, options, std::move(threads)));
  PromptStore::Options stored{.path = options.path,
                              .bytes_max = options.bytes_max,
                              .on_damaged = [](const std::string& name, const std::string& reason) {
                                Log(LogLevel::kWarning, "cache_entry_dropped",
                                    "entry=" + name + " reason=" + Quoted(reason));
                              }};
  if (options.shares != nullptr) {
    stored.main_owner = options.shares->own();
    stored.part_of = [&shares = *options.shares](OwnerId owner) {
      return PromptUse{.bytes = shares.LimitOf(owner, Resource::kPromptCacheBytes),
                       .entries = shares.LimitOf(owner, Resource::kPromptCacheEntries)};
    };
  }
  KVD_TRY(cache->store_, PromptStore::Open(engine, std::move(stored)));
  return cache;
}

PromptCache::PromptCache(Engine& engine, const Options& options, Threads threads)
    : engine_(engine), options_(options), threads_(std::move(threads)) {}

// ---- writing

void PromptCache::Offer(SequenceHandle handle) {
  {
    const MutexLock lock(mutex_);
    if (std::ranges::find(offered_, handle) != offered_.end()) return;
    offered_.push_back(handle);
  }
  threads_.spill([this] { SpillNext(); });
}

void PromptCache::OfferAll() {
  for (const SequenceInfo& info : engine_.memory().sequences().List()) {
    if (IsEvictable(info.flags)) Offer(info.handle);
  }
}

void PromptCache::SpillNext() {
  SequenceHandle handle = SequenceHandle::kNone;
  {
    const MutexLock lock(mutex_);
    if (offered_.empty() || stops_.load(std::memory_order_relaxed)) return;
    handle = offered_.front();
    offered_.pop_front();
  }
  Spill(handle);
}

void PromptCache::Spill(SequenceHandle handle) {
  const auto write = [&]() -> Result<std::uint64_t> {
    KVD_TRY(SequenceExport from, SequenceExport::OpenPaused(engine_, handle));
    // If a client has taken the sequence over, or the sequence is too short, the sequence is not
    // written.
    if (!IsEvictable(from.info().flags) || from.cell_count() < options_.tokens_min) return 0;
    // The entries of the prompt cache do not expire.
    if (from.info().owner.life.expires_unix_ms != 0) return 0;
    return store_->Write(from, &stops_);
  };
  const Result<std::uint64_t> written = write();
  const MutexLock lock(mutex_);
  if (written) {
    counts_.spills += *written > 0 ? 1 : 0;
    counts_.spilled_bytes += *written;
    return;
  }
  switch (written.error().code) {
    case Code::kCancelled: return;
    case Code::kNotFound:
    case Code::kConflict: ++counts_.spills_missed; return;
    default:
      // Only the 1st, 2nd, 4th, 8th … failure is logged, because once an owner's share is used up,
      // every write for that owner fails.
      if (!std::has_single_bit(++counts_.spills_failed)) return;
      Log(LogLevel::kWarning, "cache_write_failed",
          Concat("sequence=", static_cast<std::uint64_t>(handle),
                 " failures=", counts_.spills_failed, " ", Quoted(written.error().message)));
  }
}

// ---- reading

void PromptCache::NoteComputed(std::size_t tokens, std::chrono::nanoseconds time) {
  // Steps with fewer prompt tokens than kTokensMin are not measured, because these tokens may be
  // single tokens of several sequences instead of a prompt.
  constexpr std::size_t kTokensMin = 16;
  if (tokens >= kTokensMin) computed_tokens_.Add(static_cast<double>(tokens), time);
}

bool PromptCache::IsWorthIt(const StoredPrefix& prefix, std::uint32_t tokens) {
  const double bytes_per_second = load_bytes_.per_second();
  const double tokens_per_second = computed_tokens_.per_second();
  // If a rate was never measured, the entry is loaded to measure the rate.
  if (bytes_per_second <= 0 || tokens_per_second <= 0) return true;
  return static_cast<double>(prefix.bytes_read) / bytes_per_second <
         static_cast<double>(tokens) / tokens_per_second;
}

PromptCache::Found PromptCache::Look(OwnerId owner, std::uint64_t salt,
                                     std::span<const TokenId> prompt, std::uint32_t held,
                                     std::shared_ptr<PromptLoad>* load) {
  if (stops_.load(std::memory_order_relaxed)) return Found::kNothing;
  std::optional<StoredPrefix> prefix = store_->Find(owner, salt, prompt, held);
  if (!prefix) return Found::kNothing;
  {
    const MutexLock lock(mutex_);
    // The entry is already being read for another prompt if `loading_` contains it. If the running
    // load covers fewer tokens than the new prompt could use, the new prompt is looked up again
    // when the load has ended.
    if (const auto running = loading_.find(prefix->name); running != loading_.end()) {
      *load = running->second;
      return Found::kLoading;
    }
    if (!IsWorthIt(*prefix, prefix->cells - held) &&
        ++counts_.loads_not_worth_it % kTryAgainAfter != 0) {
      return Found::kNotWorthIt;
    }
    *load = std::make_shared<PromptLoad>();
    (*load)->prefix_ = std::move(*prefix);
    (*load)->owner_ = {.id = owner, .namespace_salt = salt};
    (*load)->prompt_.assign(prompt.begin(), prompt.end());
    loading_.emplace((*load)->prefix_.name, *load);
  }
  threads_.load([this, load = *load] { Run(load); });
  return Found::kLoading;
}

void PromptCache::Run(const std::shared_ptr<PromptLoad>& load) {
  const auto begin = Clock::now();
  const Result<SequenceHandle> loaded =
      store_->Load(load->prefix_, load->owner_, load->prompt_, &stops_);
  const auto time = Clock::now() - begin;
  bool stays = false;
  if (loaded) {
    load_bytes_.Add(static_cast<double>(load->prefix_.bytes_read), time);
    // Retain returns false if another sequence has received the same tokens in the meantime.
    stays = engine_.memory().prefixes().Retain(*loaded).value_or(false);
    Log(LogLevel::kDebug, "cache_load",
        Concat("entry=", load->prefix_.name, " cells=", load->prefix_.cells_read,
               " us=", std::chrono::duration_cast<std::chrono::microseconds>(time).count()));
  } else if (loaded.error().code != Code::kCorrupt && loaded.error().code != Code::kCancelled) {
    Log(LogLevel::kInfo, "cache_load_failed",
        "entry=" + load->prefix_.name + " " + Quoted(loaded.error().message));
  }
  {
    const MutexLock lock(mutex_);
    loading_.erase(load->prefix_.name);
    if (loaded) {
      ++counts_.loads;
      counts_.loaded_bytes += load->prefix_.bytes_read;
      counts_.loaded_tokens += load->prefix_.cells_read;
    } else {
      ++counts_.loads_failed;
    }
  }
  load->sequence_ = stays ? *loaded : SequenceHandle::kNone;
  load->is_done_.store(true, std::memory_order_release);
  if (on_loaded_) on_loaded_();
}

wire::CacheReply PromptCache::Describe() const {
  wire::CacheReply reply = {};
  {
    const MutexLock lock(mutex_);
    reply = counts_;
    reply.spills_waiting = offered_.size();
  }
  const PromptStoreCounts store = store_->counts();
  reply.is_on = 1;
  reply.entries = store.entries;
  reply.entry_bytes = store.entry_bytes;
  reply.bytes_max = store_->bytes_max();
  reply.entries_dropped = store.entries_dropped;
  reply.entries_removed = store.entries_removed;
  reply.load_bytes_per_s = static_cast<std::uint64_t>(load_bytes_.per_second());
  reply.computed_tokens_per_s = static_cast<std::uint64_t>(computed_tokens_.per_second());
  return reply;
}

}  // namespace kvd
