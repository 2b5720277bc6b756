// Verbs of an episode. Each verb is applied to the memory and to the reference.
#include "tests/engine/memory/attention_episode.h"

#include <optional>
#include <string>

namespace kvd::memory_model {

void AttentionEpisode::Verb() {
  const std::int64_t choice = random_.In(0, 99);
  if (reference_.CheckRoom(1) != Code::kOk && random_.OneIn(4)) return Drop();
  if (choice < 9) return Create();
  if (choice < 22) return Fork();
  if (choice < 36) return CopyRange();
  if (choice < 55) return RemoveRange();
  if (choice < 57) return Clear();
  if (choice < 66) return Drop();
  if (choice < 68) return DropTwo();
  if (choice < 69) return Keep();
  if (choice < 86) return AddPositions();
  if (choice < 91) return Publish();
  if (choice < 94) return Unpublish();
  return SetOwner();
}

void AttentionEpisode::Create() {
  const SequenceOwner owner = AnyOwner();
  const Result<SequenceHandle> handle = memory_->sequences().Create(owner);
  const bool done = Judge("create", reference_.CheckRoom(1), ToStatus(handle), false);
  if (done) {
    ReferenceSequence sequence;
    sequence.owner = static_cast<std::uint64_t>(owner.id);
    sequence.session = static_cast<std::uint64_t>(owner.session);
    sequence.salt = owner.namespace_salt;
    reference_.sequences[*handle] = sequence;
  }
  Check(done);
}

void AttentionEpisode::Fork() {
  const SequenceHandle source = AnyHandle();
  const SequenceOwner owner = AnyOwner();
  std::vector<SequenceHandle> forks(
      static_cast<std::size_t>(random_.OneIn(30) ? 0 : random_.In(1, 3)));
  if (random_.OneIn(2) && !forks.empty()) forks.resize(1);
  std::optional<std::uint32_t> cells;
  if (random_.OneIn(3)) {
    const ReferenceSequence* sequence = reference_.Find(source);
    const auto most = sequence == nullptr ? 5 : static_cast<std::int64_t>(sequence->cells.size());
    cells = static_cast<std::uint32_t>(random_.OneIn(20) ? most + 1 : random_.In(0, most));
  }
  const Code expected = reference_.CheckFork(source, forks.size(), cells);
  const bool done =
      Judge("fork", expected, memory_->sequences().Fork(source, owner, forks, cells), true);
  if (done) {
    for (const SequenceHandle fork : forks) {
      reference_.Fork(source, fork, static_cast<std::uint64_t>(owner.id),
                      static_cast<std::uint64_t>(owner.session), owner.namespace_salt, cells);
    }
  }
  Check(done);
}

void AttentionEpisode::CopyRange() {
  const SequenceHandle source = AnyHandle();
  SequenceHandle destination = AnyHandle();
  if (random_.OneIn(2)) {
    for (const auto& [handle, sequence] : reference_.sequences) {
      if (sequence.cells.empty() && handle != source) destination = handle;
    }
  }
  const PosRange range = AnyRange(source);
  const Result<std::uint32_t> copied = memory_->sequences().CopyRange(source, destination, range);
  const bool done =
      Judge("copy", reference_.CheckCopy(source, destination, range), ToStatus(copied), true);
  if (done) {
    const std::uint32_t expected = reference_.Copy(source, destination, range);
    EXPECT_EQ(*copied, expected);
  }
  Check(done);
}

void AttentionEpisode::RemoveRange() {
  const SequenceHandle handle = AnyHandle();
  const PosRange range = AnyRange(handle);
  const Result<std::uint32_t> removed = memory_->sequences().RemoveRange(handle, range);
  const bool done = Judge("remove", reference_.CheckRemove(handle, range), ToStatus(removed), true);
  if (done) {
    const std::uint32_t expected = reference_.Remove(handle, range);
    EXPECT_EQ(*removed, expected);
  }
  Check(done);
}

void AttentionEpisode::Clear() {
  const SequenceHandle handle = AnyHandle();
  const bool done =
      Judge("clear", reference_.CheckRemove(handle, {}), memory_->sequences().Clear(handle), false);
  if (done) reference_.Remove(handle, {});
  Check(done);
}

void AttentionEpisode::Drop() {
  SequenceHandle handle = AnyHandle();
  const ReferenceSequence* sequence = reference_.Find(handle);
  if (sequence != nullptr && sequence->cells.size() > 96 && !random_.OneIn(4)) handle = AnyHandle();
  const bool done =
      Judge("drop", reference_.CheckMutable(handle), memory_->sequences().Drop(handle), false);
  if (done) Bury(handle);
  Check(done);
}

void AttentionEpisode::DropTwo() {
  const SequenceHandle handles[] = {AnyHandle(), AnyHandle()};
  Code expected = reference_.CheckMutable(handles[0]);
  if (expected == Code::kOk) expected = reference_.CheckMutable(handles[1]);
  if (expected == Code::kOk && handles[0] == handles[1]) expected = Code::kInvalidArgument;
  const bool done = Judge("drop two", expected, memory_->sequences().DropAll(handles), false);
  if (done) {
    Bury(handles[0]);
    Bury(handles[1]);
  }
  Check(done);
}

void AttentionEpisode::Keep() {
  const SequenceHandle handle = AnyHandle();
  const auto session = static_cast<std::uint64_t>(random_.In(1, 3));
  const Code expected = reference_.CheckKeep(handle, session);
  const bool done =
      Judge("keep", expected, memory_->sequences().Keep(handle, SessionId{session}), false);
  if (done) reference_.Keep(handle, session);
  Check(done);
}

void AttentionEpisode::AddPositions() {
  const SequenceHandle handle = AnyHandle();
  PosRange range = AnyRange(handle);
  if (random_.OneIn(3)) range.end = kPosEnd;  // the most common kind of shift: to the end
  if (random_.OneIn(3)) range = AnyWholeExtents(handle);
  const std::int32_t delta = AnyDelta(range);
  const Code expected = reference_.CheckAdd(handle, range, delta);
  const bool done =
      Judge("add", expected, memory_->sequences().AddPositions(handle, range, delta), true);
  if (done) reference_.Add(handle, range, delta);
  Check(done);
}

void AttentionEpisode::Publish() {
  const SequenceHandle source = AnyHandle();
  const SequenceOwner owner = AnyOwner();
  const std::string name = random_.OneIn(30) ? std::string(65, 'x') : AnyName();
  const bool is_public = random_.OneIn(2);
  const bool replace = random_.OneIn(2);
  Code expected = Code::kOk;
  const std::pair key(name, static_cast<std::uint64_t>(owner.id));
  const auto existing = reference_.snapshots.find(key);
  const bool replaces = existing != reference_.snapshots.end();
  const bool is_taken = std::ranges::any_of(reference_.snapshots, [&](const auto& entry) {
    return entry.first.first == name && entry.first.second != key.second && entry.second.is_public;
  });
  if (name.size() > 64) {
    expected = Code::kInvalidArgument;
  } else if (reference_.Find(source) == nullptr) {
    expected = Code::kNotFound;
  } else if ((replaces && !replace) || (is_public && is_taken)) {
    expected = Code::kExists;
  } else if (!replaces && reference_.snapshots.size() == reference_.snapshot_capacity) {
    expected = Code::kNoSpace;
  } else {
    expected = reference_.CheckRoom(1);
  }
  const Result<SequenceHandle> handle =
      memory_->snapshots().Publish(source, owner, name, is_public, replace);
  const bool done = Judge("publish", expected, ToStatus(handle), true);
  if (done) {
    reference_.Fork(source, *handle, static_cast<std::uint64_t>(owner.id),
                    static_cast<std::uint64_t>(owner.session), owner.namespace_salt, std::nullopt);
    reference_.sequences.at(*handle).is_published = true;
    if (replaces) Bury(existing->second.sequence);
    reference_.snapshots[key] = {*handle, static_cast<std::uint64_t>(owner.id), is_public};
  }
  Check(done);
}

void AttentionEpisode::Unpublish() {
  const std::string name = AnyName();
  const OwnerId owner = AnyOwner().id;
  const auto existing = reference_.snapshots.find({name, static_cast<std::uint64_t>(owner)});
  const bool exists = existing != reference_.snapshots.end();
  // The owner sees its own snapshot of the name, or else the public one.
  const bool is_visible =
      exists || std::ranges::any_of(reference_.snapshots, [&](const auto& entry) {
        return entry.first.first == name && entry.second.is_public;
      });
  EXPECT_EQ(is_visible, memory_->snapshots().Find(name, owner).has_value());
  const bool done = Judge("unpublish", exists ? Code::kOk : Code::kNotFound,
                          memory_->snapshots().Unpublish(name, owner), false);
  if (done) {
    Bury(existing->second.sequence);
    reference_.snapshots.erase(existing);
  }
  Check(done);
}

void AttentionEpisode::SetOwner() {
  const SequenceHandle handle = AnyHandle();
  const SequenceOwner owner = AnyOwner();
  // A value of 4 gives kSequencePublished, which SetOwner must refuse.
  const auto set = static_cast<std::uint32_t>(random_.In(0, 4)) << 1;
  const auto clear = static_cast<std::uint32_t>(random_.In(0, 3)) << 1;
  Code expected = Code::kInvalidArgument;
  if (set <= 6 && (set & clear) == 0) expected = reference_.CheckMutable(handle);
  const bool done =
      Judge("set owner", expected, memory_->sequences().SetOwner(handle, owner, set, clear), false);
  if (done) {
    ReferenceSequence& sequence = reference_.sequences.at(handle);
    sequence.owner = static_cast<std::uint64_t>(owner.id);
    sequence.session = static_cast<std::uint64_t>(owner.session);
    sequence.salt = owner.namespace_salt;
    sequence.is_retained = (sequence.is_retained || (set & layout::kSequenceRetained) != 0) &&
                           (clear & layout::kSequenceRetained) == 0;
    sequence.is_pinned = (sequence.is_pinned || (set & layout::kSequencePinned) != 0) &&
                         (clear & layout::kSequencePinned) == 0;
    ++sequence.edit_number;
  }
  Check(done);
}

void AttentionEpisode::Bury(SequenceHandle handle) {
  dead_.push_back(handle);
  reference_.sequences.erase(handle);
}

}  // namespace kvd::memory_model
