// PromptStore: beginnings of prompts on disk, found by their tokens. The store knows the entries of
// a PromptDirectory that belong to this model and configuration, and has an index of their tokens.
//
// An entry is a state file (state_layout.h) with one pristine sequence. An entry belongs to a
// namespace (owner and salt) and contains the keyed hash of the namespace. Other processes may add
// and remove entries at any time, so an entry is checked against the index when it is opened. A
// damaged entry is removed and reported. Threads: any; the mutex is held while the index is read or
// changed, never during file access.
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

#include "base/mutex.h"
#include "engine/engine.h"
#include "engine/memory/prefix_index.h"
#include "engine/saved_state/load_sequence.h"
#include "engine/saved_state/prompt_directory.h"
#include "engine/saved_state/sequence_export.h"

namespace kvd {

// The part of a prompt that an entry provides.
struct StoredPrefix {
  std::string name;
  std::uint32_t cells = 0;       // number of the prompt's first cells that the entry provides
  std::uint32_t cells_read = 0;  // number of leading cells of the entry that are read
  std::uint64_t bytes_read = 0;  // approximate
};

struct PromptStoreCounts {
  std::uint64_t entries = 0;          // of this model
  std::uint64_t entry_bytes = 0;      // of those entries
  std::uint64_t entries_dropped = 0;  // removed because they were damaged
  std::uint64_t entries_removed = 0;  // removed to make room, or because another entry covers them
};

class PromptStore {
 public:
  static constexpr std::uint32_t kEntriesMax = 1u << 14;

  struct Options {
    std::string path;
    // Limit for all entries in the directory, of any model. The number of entries is limited to
    // kEntriesMax.
    std::uint64_t bytes_max = 0;
    // Limit of each owner; empty: the limit for all entries.
    std::function<PromptUse(OwnerId)> part_of = {};
    OwnerId main_owner{};  // PromptLimits::main_owner
    // Called for each damaged entry that was dropped. May be null.
    std::function<void(const std::string& name, const std::string& reason)> on_damaged;
  };
  // Reads the existing entries. The engine outlives the store. Errors: those of
  // PromptDirectory::Open; kUnsupported (a model with cross attention: its cells also depend on the
  // encoded text).
  static Result<std::unique_ptr<PromptStore>> Open(Engine& engine, Options options);

  // The entry that provides the longest prefix of the prompt without its last token, if that prefix
  // is longer than `held` tokens.
  std::optional<StoredPrefix> Find(OwnerId owner, std::uint64_t salt,
                                   std::span<const TokenId> prompt, std::uint32_t held) const;

  // Writes the sequence unless an existing entry already provides it. Returns the number of bytes
  // written; 0: an existing entry provides the sequence, or another process is writing the entry.
  // Errors: those of SaveBriefly; kUnsupported (not all cells are pristine); kNoSpace (the owner's
  // limit). REQUIRES: `from` is paused.
  Result<std::uint64_t> Write(SequenceExport& from, const std::atomic<bool>* cancelled);

  // Loads the entry that `prefix` names into a new sequence of the owner. Errors: kNotFound (the
  // entry was removed); kCorrupt (the entry was damaged and has been removed); kNoSpace, kConflict,
  // kCancelled.
  Result<SequenceHandle> Load(const StoredPrefix& prefix, const SequenceOwner& owner,
                              std::span<const TokenId> prompt, const std::atomic<bool>* cancelled);

  // Applies entries added and removed by other processes to the index.
  void Refresh();
  // A descriptor that is readable when Refresh has work to do; -1: changes are not reported.
  int changes_descriptor() const { return directory_.changes_descriptor(); }
  std::uint64_t bytes_max() const { return options_.bytes_max; }
  PromptStoreCounts counts() const;

 private:
  using NameSpace = std::array<std::uint64_t, 2>;
  struct Entry {
    std::uint32_t index = 0;  // index of the entry in tokens_by_ and names_
    std::uint64_t bytes = 0;
    std::uint32_t cells = 0;
    // The fewest cells that the entry can provide: in layers with a window, the entry lacks the
    // cells that a shorter prefix would need.
    std::uint32_t cells_min = 0;
  };
  struct Read {
    NameSpace name_space = {};
    Entry entry;
    std::vector<TokenId> tokens;
    std::vector<std::uint32_t> points;  // cell counts after which a state is kept
  };

  PromptStore(Engine& engine, Options options, PromptDirectory directory);
  NameSpace NameSpaceOf(OwnerId owner, std::uint64_t salt) const;
  static PrefixSpace SpaceOf(const NameSpace& name_space);
  std::uint64_t HashOf(const NameSpace& name_space, std::span<const TokenId> tokens) const;
  Status Scan();
  // Reads the part of a file that the index needs. Errors: as Load.
  Result<Read> ReadEntry(const std::string& name) const;
  void Notice(const std::string& name);
  void Add(const std::string& name, const Read& read);
  void Remove(const std::string& name);
  void DropDamaged(const std::string& name, const Error& why);
  // Removes entries until the owner may add one of `bytes` bytes. Errors: kNoSpace, kIo.
  Status MakeRoom(OwnerId owner, std::uint64_t bytes);
  // Removes the entries whose tokens are a prefix of the tokens of the entry `name`, which `read`
  // contains.
  void RemoveCovered(const std::string& name, const Read& read);
  Result<SequenceHandle> LoadOpen(const StateFileReader& file, const StoredPrefix& prefix,
                                  const SequenceOwner& owner, std::span<const TokenId> prompt,
                                  const std::atomic<bool>* cancelled);

  Engine& engine_;
  const Options options_;
  const PromptDirectory directory_;
  const bool has_state_;
  const bool serves_any_depth_;  // the model keeps neither states nor windows
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
