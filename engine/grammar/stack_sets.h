// StackSets: sets of stacks of open rules, each set stored once.
//
// A stack is a list of frames, the innermost first; a frame is a place in the program where reading
// resumes. A set is the sorted list of its stacks' first frames, each with the set of the stacks
// below it (`tail`). Two frames of one set differ in place or count: stacks with the same first
// frame are merged by uniting their tails. A set has a number, equal sets have equal numbers, and a
// set refers only to sets with smaller numbers.
//
// Owner: GrammarStates. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace kvd {

struct StackFrame {
  // The position of the frame that every stack ends with: the end of the grammar's root.
  static constexpr std::uint32_t kBottom = 0xffffffff;

  std::uint32_t position = 0;  // of a step
  std::uint32_t count = 0;     // inside the step (grammar_program.h)
  std::uint32_t tail = 0;      // a set
  friend auto operator<=>(const StackFrame&, const StackFrame&) = default;
};

class StackSets {
 public:
  static constexpr std::uint32_t kEmpty = 0;       // the set without a stack
  static constexpr std::uint32_t kBottomOnly = 1;  // the set of the stack that is only kBottom

  StackSets();

  // The frames of a set; valid until the next call of Intern or Union.
  std::span<const StackFrame> Frames(std::uint32_t set) const {
    return std::span(frames_).subspan(begins_[set], begins_[set + 1] - begins_[set]);
  }
  // The frames of the longest stack, kBottom not counted.
  std::uint32_t Depth(std::uint32_t set) const { return depths_[set]; }
  std::uint32_t set_count() const { return static_cast<std::uint32_t>(depths_.size()); }

  // Returns the set of the stacks that begin with `frames`, in any order; the order of `frames`
  // changes. `work` increases by the frames that unions compare.
  std::uint32_t Intern(std::vector<StackFrame>& frames, std::size_t& work);
  std::uint32_t Union(std::uint32_t a, std::uint32_t b, std::size_t& work);

  // Returns the number here of the set `set` of `others`, which is added with all sets that it
  // refers to. `copied`: the numbers of the sets copied so far.
  std::uint32_t Copy(const StackSets& others, std::uint32_t set,
                     std::unordered_map<std::uint32_t, std::uint32_t>& copied);

  std::size_t held_bytes() const;

 private:
  std::uint32_t InternSorted(std::span<const StackFrame> frames);
  void Rehash();

  std::vector<StackFrame> frames_;
  std::vector<std::uint32_t> begins_;  // [set_count + 1]
  std::vector<std::uint32_t> depths_;  // by set
  std::vector<std::uint32_t> table_;   // hash table; 0: free (set 0 is not in it)
  std::unordered_map<std::uint64_t, std::uint32_t> unions_;  // by the two numbers
};

}  // namespace kvd
