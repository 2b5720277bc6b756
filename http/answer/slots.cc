#include "http/answer/slots.h"

#include <algorithm>
#include <utility>

namespace kvd::http {
namespace {

// The tokens of a slot that a prompt may continue.
std::span<const TokenId> Reusable(const Slot& slot) {
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
  return static_cast<std::uint32_t>(std::ranges::count_if(slots_, &Slot::is_busy));
}

void Slots::Reset() {
  for (Slot& slot : slots_) {
    slot.sequence = SequenceHandle::kNone;
    slot.tokens.clear();
    slot.are_tokens_unknown = false;
    slot.is_edited = false;
  }
}

void Slots::Keep(SlotFile file) {
  file_ = std::move(file);
  for (Slot& slot : slots_) {
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
  for (Slot& slot : slots_) slot.are_tokens_unknown = slot.sequence != SequenceHandle::kNone;
}

Slot* Slots::Choose(const Waiter& waiter) {
  if (waiter.number) {
    Slot& slot = slots_[*waiter.number];
    return slot.is_busy ? nullptr : &slot;
  }
  Slot* best = nullptr;
  std::size_t best_common = 0;
  for (Slot& slot : slots_) {
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

void Slots::Take(Slot& slot) {
  slot.is_busy = true;
  slot.last_use = ++uses_;
  slot.task = ++tasks_;
}

void Slots::Release(Slot& slot) {
  slot.is_busy = false;
  slot.last_use = ++uses_;
  file_.Put(slot.number, slot.sequence);
  for (auto i = waiting_.begin(); i != waiting_.end(); ++i) {
    Waiter& waiter = **i;
    Slot* const free = Choose(waiter);
    if (free == nullptr) continue;
    Take(*free);
    waiter.granted = free;
    waiter.signal->Notify();
    waiting_.erase(i);
    return;
  }
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
  if (Slot* const free = slots.Choose(waiter); free != nullptr) {
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
