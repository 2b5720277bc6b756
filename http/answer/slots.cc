#include "http/answer/slots.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "base/file_calls.h"

namespace kvd::http {

Result<SlotFile> SlotFile::Open(const std::string& path, std::uint32_t slot_count) {
  SlotFile file;
  file.handles_.resize(slot_count, SequenceHandle::kNone);
  if (path.empty()) return file;
  file.file_ =
      UniqueFd(FileCalls::Open(AT_FDCWD, path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.file_) return FailErrno(path);
  std::vector<std::uint64_t> stored(1 + std::size_t{slot_count});
  const ssize_t bytes =
      FileCalls::Read(file.file_.get(), stored.data(), stored.size() * sizeof(std::uint64_t), 0);
  if (bytes < 0) return FailErrno(path);
  stored.resize(static_cast<std::size_t>(bytes) / sizeof(std::uint64_t));
  if (!stored.empty()) file.session_ = stored.front();
  for (std::size_t i = 1; i < stored.size(); ++i) {
    file.handles_[i - 1] = static_cast<SequenceHandle>(stored[i]);
  }
  return file;
}

void SlotFile::Begin(std::uint64_t session) {
  session_ = session;
  std::ranges::fill(handles_, SequenceHandle::kNone);
  if (!file_) return;
  // Cut first, so that no handle is ever behind the number of another session.
  const bool is_written =
      FileCalls::Truncate(file_.get(), 0) == 0 &&
      FileCalls::WriteAt(file_.get(), &session, sizeof session, 0) == sizeof session;
  if (!is_written) file_.reset();
}

void SlotFile::Put(std::uint32_t slot, SequenceHandle handle) {
  if (!file_ || handles_[slot] == handle) return;
  const auto number = static_cast<std::uint64_t>(handle);
  const auto offset = static_cast<off_t>((1 + std::size_t{slot}) * sizeof number);
  if (FileCalls::WriteAt(file_.get(), &number, sizeof number, offset) == sizeof number) {
    handles_[slot] = handle;
  }
}

namespace {

void Empty(GatewaySlot& slot) {
  slot.sequence = SequenceHandle::kNone;
  slot.tokens.clear();
  slot.are_tokens_unknown = false;
  slot.is_edited = false;
}

// The tokens of a slot that a prompt may continue.
std::span<const TokenId> Reusable(const GatewaySlot& slot) {
  if (slot.are_tokens_unknown) return {};
  const std::span<const TokenId> tokens(slot.tokens);
  return slot.is_edited ? tokens.first(std::min<std::size_t>(slot.kept, tokens.size())) : tokens;
}

}  // namespace

std::size_t CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

Slots::Slots(Loop& loop, std::uint32_t count) : loop_(loop), slots_(count) {
  for (std::uint32_t i = 0; i < count; ++i) slots_[i].number = i;
}

std::uint32_t Slots::busy_count() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(slots_, &GatewaySlot::is_busy));
}

void Slots::Reset() {
  for (GatewaySlot& slot : slots_) Empty(slot);
}

void Slots::NoteParking(bool is_parked) {
  if (!is_parked) {
    --parked_count_;
    return;
  }
  ++parked_count_;
  std::vector<GatewaySlot*> idle;
  for (GatewaySlot& slot : slots_) {
    if (!slot.is_busy) idle.push_back(&slot);
  }
  std::ranges::sort(idle, {}, &GatewaySlot::last_use);
  for (GatewaySlot* const slot : idle) GiveUp(*slot);
}

void Slots::GiveUp(GatewaySlot& slot) {
  if (slot.sequence == SequenceHandle::kNone) return;
  if (retain_) retain_(slot.sequence);
  Empty(slot);
  file_.Put(slot.number, slot.sequence);
}

void Slots::Keep(SlotFile file) {
  file_ = std::move(file);
  for (GatewaySlot& slot : slots_) {
    slot.sequence = file_.handles()[slot.number];
    slot.are_tokens_unknown = slot.sequence != SequenceHandle::kNone;
  }
}

void Slots::Begin(std::uint64_t session) {
  if (file_.session() != session) {
    Reset();
    file_.Begin(session);
    return;
  }
  for (GatewaySlot& slot : slots_) slot.are_tokens_unknown = slot.sequence != SequenceHandle::kNone;
}

GatewaySlot* Slots::Choose(const Waiter& waiter) {
  if (waiter.number) {
    GatewaySlot& slot = slots_[*waiter.number];
    return slot.is_busy ? nullptr : &slot;
  }
  GatewaySlot* best = nullptr;
  std::size_t best_common = 0;
  for (GatewaySlot& slot : slots_) {
    if (slot.is_busy) continue;
    const std::size_t common = CommonPrefix(Reusable(slot), waiter.prompt);
    if (best == nullptr || common > best_common ||
        (common == best_common && slot.last_use < best->last_use)) {
      best = &slot;
      best_common = common;
    }
  }
  return best;
}

void Slots::Take(GatewaySlot& slot) {
  slot.is_busy = true;
  slot.last_use = ++uses_;
  slot.task = ++tasks_;
}

void Slots::Release(GatewaySlot& slot) {
  slot.is_busy = false;
  slot.last_use = ++uses_;
  file_.Put(slot.number, slot.sequence);
  for (auto i = waiting_.begin(); i != waiting_.end(); ++i) {
    Waiter& waiter = **i;
    GatewaySlot* const free = Choose(waiter);
    if (free == nullptr) continue;
    Take(*free);
    waiter.granted = free;
    waiter.signal->Notify();
    waiting_.erase(i);
    return;
  }
  if (parked_count_ > 0) GiveUp(slot);
}

SlotLease::SlotLease(SlotLease&& other) noexcept
    : slots_(other.slots_), slot_(std::exchange(other.slot_, nullptr)) {}

SlotLease& SlotLease::operator=(SlotLease&& other) noexcept {
  std::swap(slots_, other.slots_);
  std::swap(slot_, other.slot_);
  return *this;
}

SlotLease::~SlotLease() {
  if (slot_ != nullptr) slots_->Release(*slot_);
}

void SlotLease::Note() const { slots_->file_.Put(slot_->number, slot_->sequence); }

Await<SlotLease> SlotLease::Acquire(Slots& slots, std::optional<std::uint32_t> number,
                                    std::span<const TokenId> prompt) {
  Slots::Waiter waiter{.number = number, .prompt = prompt};
  if (GatewaySlot* const free = slots.Choose(waiter); free != nullptr) {
    slots.Take(*free);
    co_return SlotLease(slots, *free);
  }
  Signal granted(slots.loop_);
  waiter.signal = &granted;
  slots.waiting_.push_back(&waiter);
  while (waiter.granted == nullptr) co_await granted.Wait();
  co_return SlotLease(slots, *waiter.granted);
}

}  // namespace kvd::http
