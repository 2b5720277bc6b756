// Union merges two sorted lists. Where both have a frame with the same place, it unites the tails,
// which is a recursion as deep as the shorter stack; results are remembered.
#include "engine/grammar/stack_sets.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvd {
namespace {

std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 32)) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 29);
}

std::size_t HashOf(std::span<const StackFrame> frames) {
  std::uint64_t hash = frames.size();
  for (const StackFrame& frame : frames)
    hash = Mix(hash + ((std::uint64_t{frame.position} << 32 | frame.count) ^
                       Mix(frame.tail + 0x51ed270bu)));
  return static_cast<std::size_t>(hash);
}

bool IsSamePlace(const StackFrame& a, const StackFrame& b) {
  return a.position == b.position && a.count == b.count;
}

bool IsPlaceBefore(const StackFrame& a, const StackFrame& b) {
  return a.position < b.position || (a.position == b.position && a.count < b.count);
}

}  // namespace

StackSets::StackSets() : begins_{0, 0}, depths_{0}, table_(1024) {
  const StackFrame bottom{.position = StackFrame::kBottom};
  const std::uint32_t set = InternSorted({&bottom, 1});
  KVD_ASSERT(set == kBottomOnly);
  depths_[set] = 0;
}

void StackSets::Rehash() {
  std::vector<std::uint32_t> table(table_.size() * 2);
  for (std::uint32_t set = 1; set < set_count(); ++set) {
    std::size_t place = HashOf(Frames(set)) & (table.size() - 1);
    while (table[place] != 0) place = (place + 1) & (table.size() - 1);
    table[place] = set;
  }
  table_ = std::move(table);
}

// REQUIRES: `frames` is sorted, has no two frames of the same place, and is not part of frames_.
std::uint32_t StackSets::InternSorted(std::span<const StackFrame> frames) {
  if (frames.empty()) return kEmpty;
  std::size_t place = HashOf(frames) & (table_.size() - 1);
  for (; table_[place] != 0; place = (place + 1) & (table_.size() - 1))
    if (std::ranges::equal(Frames(table_[place]), frames)) return table_[place];
  const std::uint32_t set = set_count();
  table_[place] = set;
  std::uint32_t depth = 0;
  for (const StackFrame& frame : frames) depth = std::max(depth, depths_[frame.tail] + 1);
  frames_.insert(frames_.end(), frames.begin(), frames.end());
  begins_.push_back(static_cast<std::uint32_t>(frames_.size()));
  depths_.push_back(depth);
  if (set * std::size_t{2} > table_.size()) Rehash();
  return set;
}

std::uint32_t StackSets::Intern(std::vector<StackFrame>& frames, std::size_t& work) {
  std::ranges::sort(frames);
  std::size_t count = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (count > 0 && IsSamePlace(frames[count - 1], frames[i])) {
      frames[count - 1].tail = Union(frames[count - 1].tail, frames[i].tail, work);
    } else {
      frames[count++] = frames[i];
    }
  }
  frames.resize(count);
  return InternSorted(frames);
}

std::uint32_t StackSets::Union(std::uint32_t a, std::uint32_t b, std::size_t& work) {
  if (a == b || b == kEmpty) return a;
  if (a == kEmpty) return b;
  if (a > b) std::swap(a, b);
  const std::uint64_t key = std::uint64_t{a} << 32 | b;
  if (const auto found = unions_.find(key); found != unions_.end()) return found->second;
  std::vector<StackFrame> merged;
  merged.reserve(Frames(a).size() + Frames(b).size());
  // Indices, because Union moves the frames.
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < Frames(a).size() || j < Frames(b).size()) {
    ++work;
    if (j == Frames(b).size() ||
        (i < Frames(a).size() && IsPlaceBefore(Frames(a)[i], Frames(b)[j]))) {
      merged.push_back(Frames(a)[i++]);
    } else if (i == Frames(a).size() || IsPlaceBefore(Frames(b)[j], Frames(a)[i])) {
      merged.push_back(Frames(b)[j++]);
    } else {
      StackFrame frame = Frames(a)[i++];
      frame.tail = Union(frame.tail, Frames(b)[j++].tail, work);
      merged.push_back(frame);
    }
  }
  const std::uint32_t result = InternSorted(merged);
  unions_.emplace(key, result);
  return result;
}

std::uint32_t StackSets::Copy(const StackSets& others, std::uint32_t set,
                              std::unordered_map<std::uint32_t, std::uint32_t>& copied) {
  if (set <= kBottomOnly) return set;
  if (const auto found = copied.find(set); found != copied.end()) return found->second;
  const auto source = others.Frames(set);
  std::vector<StackFrame> frames(source.begin(), source.end());
  for (StackFrame& frame : frames) frame.tail = Copy(others, frame.tail, copied);
  const std::uint32_t number = InternSorted(frames);
  copied.emplace(set, number);
  return number;
}

std::size_t StackSets::held_bytes() const {
  constexpr std::size_t kUnionBytes = 48;  // an entry of a hash table of nodes
  return frames_.capacity() * sizeof(StackFrame) +
         (begins_.capacity() + depths_.capacity() + table_.capacity()) * sizeof(std::uint32_t) +
         unions_.size() * kUnionBytes;
}

}  // namespace kvd
