// The slots of a tenant, the file that remembers them, and the folder of their saved files.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/unique_fd.h"
#include "http/loop/await.h"

namespace kvd::http {

// SlotFolder: the folder of a tenant's slot files, and its limits. Files of one tenant have no
// names that another tenant could give.
struct SlotFolder {
  std::string directory = {};  // --slot-save-path; empty: there are no slot files
  std::string folder = {};     // below the directory; empty: the directory itself
  std::uint64_t bytes_max = 0;
  std::size_t count_max = 0;
};

// SlotFile: the sequences of a tenant's slots in a file, so that a gateway that was killed finds
// them again in the session that it resumes.
//
// The file (0600) has a u64 that tells sessions apart, then a u64 handle for each slot, 0 for none.
// It is written without fsync. Another session may have given the same handles to other sequences,
// so the handles are of use only together with their session.
class SlotFile {
 public:
  // An empty path: nothing is kept. Errors: kIo.
  static Result<SlotFile> Open(const std::string& path, std::uint32_t slot_count);
  SlotFile() = default;

  // The session of the handles; 0: none.
  std::uint64_t session() const { return session_; }
  // Notes another session, and no sequences. A session that cannot be written is lost with the
  // process, and its handles with it.
  void Begin(std::uint64_t session);
  // The handles of an earlier process, one for each slot.
  const std::vector<SequenceHandle>& handles() const { return handles_; }
  // Writes a handle if it has changed. A handle that cannot be written is lost with the process.
  void Put(std::uint32_t slot, SequenceHandle handle);

 private:
  UniqueFd file_;
  std::uint64_t session_ = 0;
  std::vector<SequenceHandle> handles_;
};

// Slots: the sequences in which a tenant's answers are computed, as many as may be computed at
// once.
//
// A slot has a number, as llama-server's slots have, and keeps its sequence when an answer ends, so
// that the next answer of the same conversation continues it. A request that names no slot gets the
// free slot whose tokens have the longest common prefix with its prompt; a sequence that would lose
// tokens by that is forked, and stays cached in the daemon as a retained prefix. Requests wait in
// order until a slot is free.
struct GatewaySlot {
  std::uint32_t number = 0;
  SequenceHandle sequence = SequenceHandle::kNone;
  std::vector<TokenId> tokens;      // of the sequence's cells, unless are_tokens_unknown
  bool are_tokens_unknown = false;  // an answer was cancelled: ask the daemon
  bool is_edited = false;           // the context was shifted: only its first `kept` tokens count
  std::uint32_t kept = 0;
  bool is_busy = false;
  std::uint64_t task = 0;           // number of the answer that uses it, or used it last
  std::uint64_t last_use = 0;       // order of use
  std::uint32_t prompt_tokens = 0;  // of the present or last answer
  std::uint32_t cached_tokens = 0;
  std::uint32_t decoded_tokens = 0;
  // When the answer began to wait for room in the daemon's pool; nullopt: it does not.
  std::optional<std::chrono::steady_clock::time_point> parked_since;
  bool lacks_last = false;  // the answer's last token is not one of `tokens` (kSkipLast)
};

class Slots {
 public:
  Slots(Loop& loop, std::uint32_t count);

  std::uint32_t count() const { return static_cast<std::uint32_t>(slots_.size()); }
  GatewaySlot& at(std::uint32_t number) { return slots_[number]; }
  const std::vector<GatewaySlot>& all() const { return slots_; }
  std::uint32_t busy_count() const;
  std::size_t waiting_count() const { return waiting_.size(); }
  bool has_free() const { return busy_count() != count(); }

  // Forgets all sequences: the session that owned them is gone.
  void Reset();
  // Takes the sequences that an earlier process has noted, and notes changes from now on. The
  // tokens of the sequences are unknown until a slot is used. REQUIRES: no slot was used yet.
  void Keep(SlotFile file);
  // `retain` is called with the sequence of each slot that is given up.
  void OnGiveUp(std::function<void(SequenceHandle)> retain) { retain_ = std::move(retain); }
  // An answer begins or ends to wait for room in the daemon's pool. As long as one waits, the
  // sequences of idle slots are given up, the least recently used first, so that the daemon can
  // evict them; a later prompt of their conversations finds what is left in the prefix cache.
  void NoteParking(bool is_parked);
  // A session was opened: keeps the sequences if they are of this session, which was resumed, and
  // forgets them otherwise. `session`: tells sessions apart; not 0.
  void Begin(std::uint64_t session);

 private:
  friend class SlotLease;
  struct Waiter {
    std::optional<std::uint32_t> number;
    std::span<const TokenId> prompt;
    GatewaySlot* granted = nullptr;
    Signal* signal = nullptr;
  };
  // The best free slot for a waiter; null: none is free.
  GatewaySlot* Choose(const Waiter& waiter);
  void Take(GatewaySlot& slot);
  void Release(GatewaySlot& slot);
  void GiveUp(GatewaySlot& slot);

  Loop& loop_;
  SlotFile file_;
  std::vector<GatewaySlot> slots_;
  std::deque<Waiter*> waiting_;
  std::function<void(SequenceHandle)> retain_;
  std::uint32_t parked_count_ = 0;  // answers that wait for room
  std::uint64_t uses_ = 0;
  std::uint64_t tasks_ = 0;
};

// The right to use one slot, which ends with the lease.
class SlotLease {
 public:
  SlotLease() = default;
  SlotLease(SlotLease&& other) noexcept;
  SlotLease& operator=(SlotLease&& other) noexcept;
  ~SlotLease();

  // Waits for a slot. `number`: this slot; nullopt: any. `prompt` must live until the lease is
  // returned. REQUIRES: number < slots.count().
  static Await<SlotLease> Acquire(Slots& slots, std::optional<std::uint32_t> number,
                                  std::span<const TokenId> prompt);

  explicit operator bool() const { return slot_ != nullptr; }
  GatewaySlot& slot() const { return *slot_; }
  // Notes the slot's sequence in the file, so that a process that is killed does not lose it.
  void Note() const;

 private:
  SlotLease(Slots& slots, GatewaySlot& slot) : slots_(&slots), slot_(&slot) {}

  Slots* slots_ = nullptr;
  GatewaySlot* slot_ = nullptr;
};

// The number of tokens at the beginning of both.
std::size_t CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b);

}  // namespace kvd::http
