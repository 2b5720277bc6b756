// The closure has two parts.
//
// 1. Frames after a byte are walked to the next reading step. Where a rule ends, the frames of its
//    tail are walked too; a set is resumed at most once.
// 2. Rules that are called are entered in the order of their ranks. All calls of a rule in one
//    closure have then been seen, and the rule is walked once, with the union of the frames below
//    it. A walk of an entered rule ignores the rule's end, because the walk that calls a rule that
//    may be empty also continues behind the call.
//
// A call at the end of its rule pushes no frame; the called rule inherits the tail. Right recursion
// therefore needs no depth.
#include "engine/grammar/grammar_states.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace kvd {

GrammarStates::GrammarStates(const GrammarProgram& program, const GrammarLimits& limits)
    : program_(program), limits_(limits), stride_(program.class_count) {
  place_of_rule_.resize(program.rules.size());
  StateOf(StackSets::kEmpty);
}

std::uint32_t GrammarStates::StateOf(std::uint32_t set) {
  if (state_of_set_.size() <= set) state_of_set_.resize(sets_.set_count(), kUnknown);
  if (state_of_set_[set] != kUnknown) return state_of_set_[set];
  State state{.set = set};
  for (const StackFrame& frame : sets_.Frames(set)) {
    if (frame.position == StackFrame::kBottom) {
      state.may_end = true;
    } else if (program_.steps[frame.position].kind == StepKind::kToken) {
      state.has_terminals = true;
    }
  }
  const std::uint32_t number = state_count();
  states_.push_back(std::move(state));
  transitions_.resize(states_.size() * stride_, set == StackSets::kEmpty ? kDead : kUnknown);
  state_of_set_[set] = number;
  return number;
}

void GrammarStates::SetMask(std::uint32_t state, std::shared_ptr<const TokenMask> mask) {
  mask_bytes_ += mask->held_bytes();
  states_[state].mask = std::move(mask);
}

std::size_t GrammarStates::held_bytes() const {
  return sets_.held_bytes() + states_.capacity() * sizeof(State) + mask_bytes_ +
         (state_of_set_.capacity() + transitions_.capacity()) * sizeof(std::uint32_t);
}

std::uint32_t GrammarStates::Copy(const GrammarStates& others, std::uint32_t state,
                                  std::unordered_map<std::uint32_t, std::uint32_t>& copied) {
  return StateOf(sets_.Copy(others.sets_, others.SetOf(state), copied));
}

std::uint32_t GrammarStates::Start() {
  BeginClosure();
  Enter(program_.root, {.position = StackFrame::kBottom});
  if (program_.rules[program_.root].may_be_empty)
    reading_.push_back({.position = StackFrame::kBottom});
  return Close();
}

std::uint32_t GrammarStates::Union(std::uint32_t a, std::uint32_t b) {
  return StateOf(sets_.Union(SetOf(a), SetOf(b), union_work_));
}

std::uint32_t GrammarStates::MakeTransition(std::uint32_t state, std::uint8_t byte) {
  BeginClosure();
  for (const StackFrame& frame : sets_.Frames(SetOf(state))) Advance(frame, byte);
  std::uint32_t& transition =
      transitions_[state * std::size_t{stride_} + program_.byte_class[byte]];
  if (last_next_ != kUnknown && items_ == last_items_) {
    items_.clear();
    return transition = last_next_;
  }
  last_items_ = items_;
  const Losses before = std::exchange(losses_, {});
  const std::uint32_t next = Close();
  // A transition that a limit prevents is not remembered, so that each attempt names the limit.
  const bool is_remembered = next != kDead || (!losses_.depth && !losses_.entries);
  last_next_ = is_remembered ? next : kUnknown;
  // Close may have moved the transitions.
  if (is_remembered) transitions_[state * std::size_t{stride_} + program_.byte_class[byte]] = next;
  losses_.depth |= before.depth;
  losses_.entries |= before.entries;
  return next;
}

std::uint32_t GrammarStates::AfterTerminal(const StackFrame& frame) {
  BeginClosure();
  items_.push_back({frame.position + 1, 0, frame.tail});
  return Close();
}

std::uint32_t GrammarStates::NextByTerminal(std::uint32_t state, TokenId token, bool is_named) {
  if (!HasTerminals(state)) return kDead;
  BeginClosure();
  for (const StackFrame& frame : sets_.Frames(SetOf(state))) {
    if (frame.position == StackFrame::kBottom) continue;
    const GrammarStep& step = program_.steps[frame.position];
    if (step.kind != StepKind::kToken) continue;
    const bool is_same = step.target == static_cast<std::uint32_t>(token);
    if (step.is_negated ? !is_same && is_named : is_same)
      items_.push_back({frame.position + 1, 0, frame.tail});
  }
  return Close();
}

void GrammarStates::Advance(const StackFrame& frame, std::uint8_t byte) {
  if (frame.position == StackFrame::kBottom) return;
  const GrammarStep& step = program_.steps[frame.position];
  if (step.kind == StepKind::kText) {
    if (static_cast<std::uint8_t>(program_.texts[step.target + frame.count]) != byte) return;
    if (frame.count + 1 < step.size) {
      items_.push_back({frame.position, frame.count + 1, frame.tail});
    } else {
      items_.push_back({frame.position + 1, 0, frame.tail});
    }
    return;
  }
  if (step.kind != StepKind::kCharacters) return;
  const CharacterAutomaton& automaton = program_.automatons[step.target];
  const std::uint32_t nodes = automaton.node_count();
  const std::uint32_t read = frame.count / nodes;
  const std::uint16_t node = automaton.Next(frame.count % nodes, byte);
  if (node == CharacterAutomaton::kNone) return;
  if (node != CharacterAutomaton::kAccept) {
    items_.push_back({frame.position, read * nodes + node, frame.tail});
    return;
  }
  const std::uint32_t most = step.max == GrammarStep::kUnbounded ? step.min : step.max;
  const std::uint32_t read_now = std::min(read + 1, most);
  if (step.max != GrammarStep::kUnbounded && read_now == step.max) {
    items_.push_back({frame.position + 1, 0, frame.tail});
  } else {
    items_.push_back({frame.position, read_now * nodes, frame.tail});
  }
}

void GrammarStates::Enter(std::uint32_t rule, const StackFrame& below) {
  std::uint32_t& place = place_of_rule_[rule];
  if (place == 0) {
    if (entered_count_ == entered_.size()) entered_.emplace_back();
    Entered& fresh = entered_[entered_count_];
    fresh.rule = rule;
    fresh.inherited = StackSets::kEmpty;
    fresh.frames.clear();
    place = static_cast<std::uint32_t>(++entered_count_);
    ranks_.push_back(program_.rules[rule].rank);
    std::ranges::push_heap(ranks_, std::greater());
  }
  Entered& entered = entered_[place - 1];
  const bool is_tail_call = below.position != StackFrame::kBottom &&
                            program_.steps[below.position].kind == StepKind::kEnd;
  if (is_tail_call) {
    entered.inherited = sets_.Union(entered.inherited, below.tail, union_work_);
  } else if (sets_.Depth(below.tail) >= limits_.depth) {
    losses_.depth = true;
  } else {
    entered.frames.push_back(below);
  }
}

void GrammarStates::Walk(StackFrame frame, bool is_entered) {
  for (;; ++frame.position, frame.count = 0) {
    if (++work_ > work_limit_) return;
    if (frame.position == StackFrame::kBottom) {
      reading_.push_back(frame);
      return;
    }
    const GrammarStep& step = program_.steps[frame.position];
    switch (step.kind) {
      case StepKind::kEnd:
        if (!is_entered) left_.push_back(frame.tail);
        return;
      case StepKind::kText:
      case StepKind::kToken: reading_.push_back(frame); return;
      case StepKind::kCharacters: {
        const std::uint32_t nodes = program_.automatons[step.target].node_count();
        reading_.push_back(frame);
        if (frame.count % nodes != 0 || frame.count / nodes < step.min) return;
        break;
      }
      case StepKind::kCall:
        Enter(step.target, {frame.position + 1, 0, frame.tail});
        if (!program_.rules[step.target].may_be_empty) return;
        break;
      case StepKind::kRepeat: {
        const bool is_unbounded = step.max == GrammarStep::kUnbounded;
        if (!is_unbounded && frame.count + 1 >= step.max) {
          Enter(step.target, {frame.position + 1, 0, frame.tail});
        } else {
          const std::uint32_t begun =
              is_unbounded ? std::min(frame.count + 1, step.min) : frame.count + 1;
          Enter(step.target, {frame.position, begun, frame.tail});
        }
        if (frame.count < step.min) return;
        break;
      }
    }
  }
}

std::uint32_t GrammarStates::InternFrames(std::vector<StackFrame>& frames) {
  work_ += frames.size();
  return sets_.Intern(frames, union_work_);
}

// Makes the state of items_ and of the rules entered so far.
std::uint32_t GrammarStates::Close() {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const std::size_t left_before = left_.size();
    Walk(items_[i], false);
    for (std::size_t l = left_before; l < left_.size(); ++l) {
      const bool is_known = std::find(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(l),
                                      left_[l]) != left_.begin() + static_cast<std::ptrdiff_t>(l);
      work_ += 1 + l / 16;
      if (is_known || IsOverBudget()) continue;
      const auto frames = sets_.Frames(left_[l]);
      items_.insert(items_.end(), frames.begin(), frames.end());
    }
    if (IsOverBudget()) break;
  }
  while (!ranks_.empty() && !IsOverBudget()) {
    std::ranges::pop_heap(ranks_, std::greater());
    const std::uint32_t rule = program_.rule_of_rank[ranks_.back()];
    ranks_.pop_back();
    const std::size_t place = place_of_rule_[rule] - 1;
    const std::uint32_t own = InternFrames(entered_[place].frames);
    const std::uint32_t tail = sets_.Union(own, entered_[place].inherited, union_work_);
    if (tail == StackSets::kEmpty) continue;
    for (const std::uint32_t position : program_.AlternativesOf(rule))
      Walk({position, 0, tail}, true);
  }
  for (std::size_t i = 0; i < entered_count_; ++i) place_of_rule_[entered_[i].rule] = 0;
  entered_count_ = 0;
  ranks_.clear();
  items_.clear();
  left_.clear();
  std::uint32_t set = StackSets::kEmpty;
  if (IsOverBudget()) {
    losses_.entries = true;
  } else {
    set = InternFrames(reading_);
  }
  reading_.clear();
  return StateOf(set);
}

}  // namespace kvd
