// PromptStore: beginnings of prompts on disk, found by their tokens: the entries of a
// PromptDirectory that are of this model and configuration, and the index over them.
//
// An entry is a state file (state_layout.h) with one pristine sequence, in the name of a namespace
// (owner and salt) of which it holds a keyed hash. Others may add and remove entries at any time:
// what the index says is checked when the entry is opened. A damaged one is removed and told of.
// Threads: any; the mutex is held while the index is read or changed, never while a file is.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/memory/prefix_index.h"
#include "engine/saved_state/load_sequence.h"
#include "engine/saved_state/prompt_directory.h"
#include "engine/saved_state/sequence_export.h"
#include "shm/mutex.h"

namespace kvd {

// What an entry serves of a prompt.
struct StoredPrefix {
  std::string name;
  std::uint32_t cells = 0;       // of the prompt
  std::uint32_t cells_read = 0;  // of the entry: it is read up to there
  std::uint64_t bytes_read = 0;  // about
};

struct PromptStoreCounts {
  std::uint64_t entries = 0;          // of this model
  std::uint64_t entry_bytes = 0;      // of those
  std::uint64_t entries_dropped = 0;  // damaged
  std::uint64_t entries_removed = 0;  // by us, for others
};

class PromptStore {
 public:
  static constexpr std::uint32_t kEntriesMax = 1u << 14;

  struct Options {
    std::string path;
    // Of all entries in the directory, of any model; of the entries kEntriesMax at most.
    std::uint64_t bytes_max = 0;
    std::function<PromptUse(OwnerId)> part_of = {};  // of each owner; empty: all
    OwnerId main_owner{};                            // PromptLimits
    // Of each entry that was dropped, and why. May be null.
    std::function<void(const std::string& name, const std::string& reason)> on_damaged;
  };
  // Reads what is there. The engine outlives the store. Errors: PromptDirectory::Open's; kUnsupported
  // (a model that attends to an encoded text: its cells belong to that as well).
  static Result<std::unique_ptr<PromptStore>> Open(Engine& engine, Options options);

  // The entry that begins with most of the prompt, all but its last token at most, if that is more
  // than `held` tokens.
  std::optional<StoredPrefix> Find(OwnerId owner, std::uint64_t salt,
                                   std::span<const TokenId> prompt, std::uint32_t held) const;

  // Writes the sequence, unless some entry already serves what it would. Returns the bytes written;
  // 0: nothing had to be, or somebody else does. Errors: those of SaveBriefly; kUnsupported (its
  // cells are not all pristine); kNoSpace (more bytes than its owner may have).
  // REQUIRES: `from` is paused.
  Result<std::uint64_t> Write(SequenceExport& from, const std::atomic<bool>* cancelled);

  // The entry in a fresh sequence of that owner. Errors: kNotFound (the entry is gone); kCorrupt (it
  // was damaged, and is gone now); kNoSpace, kConflict, kCancelled.
  Result<SequenceHandle> Load(const StoredPrefix& prefix, const SequenceOwner& owner,
                              std::span<const TokenId> prompt, const std::atomic<bool>* cancelled);

  // Takes notice of what others added and removed.
  void Refresh();
  // Readable when Refresh has something to do; -1: then it is not told.
  int changes_descriptor() const { return directory_.changes_descriptor(); }
  std::uint64_t bytes_max() const { return options_.bytes_max; }
  PromptStoreCounts counts() const;

 private:
  using NameSpace = std::array<std::uint64_t, 2>;
  struct Entry {
    std::uint32_t index = 0;  // in tokens_by_
    std::uint64_t bytes = 0;
    std::uint32_t cells = 0;
    std::uint32_t cells_min = 0;  // it serves no fewer: windows have dropped what those would need
  };
  struct Read {
    NameSpace name_space = {};
    Entry entry;
    std::vector<TokenId> tokens;
    std::vector<std::uint32_t> points;  // cells behind which a state is kept
  };

  PromptStore(Engine& engine, Options options, PromptDirectory directory);
  NameSpace NameSpaceOf(OwnerId owner, std::uint64_t salt) const;
  static PrefixSpace SpaceOf(const NameSpace& name_space);
  std::uint64_t HashOf(const NameSpace& name_space, std::span<const TokenId> tokens) const;
  Status Scan();
  // What the index needs of a file. Errors: as Load.
  Result<Read> ReadEntry(const std::string& name) const;
  void Notice(const std::string& name);
  void Add(const std::string& name, const Read& read);
  void Remove(const std::string& name);
  void DropDamaged(const std::string& name, const Error& why);
  // Entries go until the owner may have another one of so many bytes. Errors: kNoSpace, kIo.
  Status MakeRoom(OwnerId owner, std::uint64_t bytes);
  // Those that serve nothing that this one does not.
  void RemoveCovered(const std::string& name, const Read& read);
  Result<SequenceHandle> LoadOpen(const StateFileReader& file, const StoredPrefix& prefix,
                                  const SequenceOwner& owner, std::span<const TokenId> prompt,
                                  const std::atomic<bool>* cancelled);

  Engine& engine_;
  const Options options_;
  const PromptDirectory directory_;
  const bool has_state_;
  const bool serves_any_depth_;  // neither states nor windows
  std::uint64_t model_ = 0;      // hash of model and configuration

  mutable Mutex mutex_;
  PrefixIndex tokens_by_ KVD_GUARDED_BY(mutex_);
  std::map<std::string, Entry> entries_ KVD_GUARDED_BY(mutex_);
  std::vector<std::string> names_ KVD_GUARDED_BY(mutex_);  // by index; empty: free
  std::vector<std::uint32_t> free_indices_ KVD_GUARDED_BY(mutex_);
  std::uint64_t entry_bytes_ KVD_GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ KVD_GUARDED_BY(mutex_) = 0;
  std::uint64_t removed_ KVD_GUARDED_BY(mutex_) = 0;
};

}  // namespace kvd
