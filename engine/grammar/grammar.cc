#include "engine/grammar/grammar.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/siphash.h"
#include "base/text.h"
#include "engine/grammar/gbnf_parser.h"
#include "engine/grammar/grammar_program.h"
#include "engine/grammar/mask_builder.h"

namespace kvd {

// ---- grammar
// The states of matchers are in slots_, so that they can be copied to new GrammarStates when the
// present ones are dropped. Numbers of states are therefore valid only while the mutex is held.

namespace {

constexpr std::uint64_t kHashKey0 = 0x6b76642067726d6d;
constexpr std::uint64_t kHashKey1 = 0x61722067626e6631;
constexpr std::uint32_t kFree = 0xffffffff;

}  // namespace

Result<std::shared_ptr<Grammar>> Grammar::Compile(
    std::string_view gbnf, std::shared_ptr<const GrammarVocabulary> vocabulary,
    const GrammarLimits& limits, WorkControl& work) {
  KVD_TRY(GrammarProgram program, ParseGbnf(gbnf, *vocabulary, limits, work));
  KVD_CHECK_OK(AnalyseProgram(program, work));
  std::shared_ptr<Grammar> made(new Grammar(std::move(program), std::move(vocabulary), limits,
                                            SipHash24(kHashKey0, kHashKey1, gbnf)));
  const MutexLock lock(made->mutex_);
  if (made->states_->losses().entries)
    return Fail(Code::kTooLarge, "grammar: state_entries: the first state needs more than ",
                limits.state_entries);
  return made;
}

Grammar::Grammar(GrammarProgram program, std::shared_ptr<const GrammarVocabulary> vocabulary,
                 const GrammarLimits& limits, std::uint64_t hash)
    : program_(std::move(program)),
      vocabulary_(std::move(vocabulary)),
      limits_(limits),
      hash_(hash),
      states_(std::make_unique<GrammarStates>(program_, limits)),
      start_(states_->Start()),
      states_bytes_max_(limits.cache_bytes) {}

std::size_t Grammar::held_bytes() const {
  const MutexLock lock(mutex_);
  return program_.held_bytes() + states_->held_bytes() +
         (slots_.capacity() + free_slots_.capacity()) * sizeof(std::uint32_t);
}

std::uint64_t Grammar::drop_count() const {
  const MutexLock lock(mutex_);
  return drop_count_;
}

Grammar::Slot Grammar::NewSlot(std::uint32_t state) {
  if (free_slots_.empty()) {
    slots_.push_back(state);
    return static_cast<Slot>(slots_.size() - 1);
  }
  const Slot slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot] = state;
  return slot;
}

Grammar::Slot Grammar::AddSlot() {
  const MutexLock lock(mutex_);
  return NewSlot(start_);
}

Grammar::Slot Grammar::CopySlot(Slot slot) {
  const MutexLock lock(mutex_);
  return NewSlot(slots_[slot]);
}

void Grammar::FreeSlot(Slot slot) {
  const MutexLock lock(mutex_);
  slots_[slot] = kFree;
  free_slots_.push_back(slot);
}

// The new limit is at least twice what the live states need, so that states are not dropped for
// every token if the live states alone exceed cache_bytes.
void Grammar::LimitStates() {
  if (states_->held_bytes() <= states_bytes_max_) return;
  auto states = std::make_unique<GrammarStates>(program_, limits_);
  start_ = states->Start();
  std::unordered_map<std::uint32_t, std::uint32_t> copied;
  for (std::uint32_t& state : slots_)
    if (state != kFree) state = states->Copy(*states_, state, copied);
  states_ = std::move(states);
  states_bytes_max_ = std::max(limits_.cache_bytes, 2 * states_->held_bytes());
  ++drop_count_;
}

std::unexpected<Error> Grammar::Refusal(std::string_view subject, std::uint64_t offset) {
  const GrammarStates::Losses& losses = states_->losses();
  if (losses.depth)
    return Fail(Code::kTooLarge, subject, " at byte ", offset, ": grammar: depth: more than ",
                limits_.depth, " open rules");
  if (losses.entries)
    return Fail(Code::kTooLarge, subject, " at byte ", offset,
                ": grammar: state_entries: a state needs more than ", limits_.state_entries);
  return Fail(Code::kInvalidArgument, subject, " at byte ", offset,
              ": the grammar does not allow it");
}

Status Grammar::Accept(Slot slot, TokenId token, std::uint64_t offset) {
  if (!vocabulary_->Contains(token))
    return Fail(Code::kInvalidArgument, "token ", token, ": the vocabulary has ",
                vocabulary_->vocab_size());
  const MutexLock lock(mutex_);
  LimitStates();
  states_->ClearLosses();
  const std::uint32_t state = slots_[slot];
  const std::string_view text = vocabulary_->Text(token);
  std::uint32_t next = text.empty() ? GrammarStates::kDead : state;
  for (const char c : text) {
    next = states_->Next(next, static_cast<std::uint8_t>(c));
    if (next == GrammarStates::kDead) break;
    ++offset;
  }
  const auto bit = static_cast<std::size_t>(token);
  const bool is_named = (vocabulary_->named_tokens()[bit / 64] >> (bit % 64) & 1) != 0;
  next = states_->Union(next, states_->NextByTerminal(state, token, is_named));
  if (next != GrammarStates::kDead) {
    slots_[slot] = next;
    return {};
  }
  if (vocabulary_->IsEndOfGeneration(token) && states_->MayEnd(state)) return {};
  return Refusal(Concat("token ", token), offset);
}

Status Grammar::AcceptBytes(Slot slot, std::string_view text, std::uint64_t offset) {
  const MutexLock lock(mutex_);
  LimitStates();
  states_->ClearLosses();
  std::uint32_t state = slots_[slot];
  for (const char c : text) {
    state = states_->Next(state, static_cast<std::uint8_t>(c));
    if (state == GrammarStates::kDead)
      return Refusal(Concat("the byte ", static_cast<unsigned char>(c)), offset);
    ++offset;
  }
  slots_[slot] = state;
  return {};
}

bool Grammar::MayEnd(Slot slot) {
  const MutexLock lock(mutex_);
  return states_->MayEnd(slots_[slot]);
}

std::shared_ptr<const TokenMask> Grammar::Mask(Slot slot) {
  const MutexLock lock(mutex_);
  if (const auto& mask = states_->mask(slots_[slot])) return mask;
  LimitStates();
  const std::uint32_t state = slots_[slot];
  std::shared_ptr<const TokenMask> mask =
      BuildMask(*states_, state, *vocabulary_, limits_.mask_entries);
  states_->SetMask(state, mask);
  return mask;
}

bool Grammar::HasMask(Slot slot) {
  const MutexLock lock(mutex_);
  return states_->mask(slots_[slot]) != nullptr;
}

int Grammar::ForcedByte(std::uint32_t state) {
  if (states_->MayEnd(state) || states_->HasTerminals(state)) return -1;
  int forced = -1;
  for (const StackFrame& frame : states_->sets().Frames(states_->SetOf(state))) {
    const GrammarStep& step = program_.steps[frame.position];
    int byte = -1;
    if (step.kind == StepKind::kText) {
      byte = static_cast<unsigned char>(program_.texts[step.target + frame.count]);
    } else {
      const CharacterAutomaton& automaton = program_.automatons[step.target];
      const auto arcs = automaton.arcs(frame.count % automaton.node_count());
      if (arcs.empty()) continue;
      if (arcs.size() > 1 || arcs[0].first != arcs[0].last) return -1;
      byte = arcs[0].first;
    }
    if (forced >= 0 && byte != forced) return -1;
    forced = byte;
  }
  return forced;
}

std::string Grammar::ForcedText(Slot slot, std::size_t bytes_max) {
  const MutexLock lock(mutex_);
  LimitStates();
  std::string text;
  std::uint32_t state = slots_[slot];
  while (text.size() < bytes_max) {
    const int byte = ForcedByte(state);
    if (byte < 0) break;
    state = states_->Next(state, static_cast<std::uint8_t>(byte));
    if (state == GrammarStates::kDead) break;
    text.push_back(static_cast<char>(byte));
  }
  return text;
}

// ---- grammar matcher

namespace {

// The mutex of the grammar is held for at most this many bytes at once.
constexpr std::size_t kSliceBytes = 1u << 12;

}  // namespace

GrammarMatcher::GrammarMatcher(std::shared_ptr<Grammar> grammar)
    : grammar_(std::move(grammar)), slot_(grammar_->AddSlot()) {}

GrammarMatcher::GrammarMatcher(const GrammarMatcher& other)
    : grammar_(other.grammar_),
      slot_(grammar_->CopySlot(other.slot_)),
      byte_count_(other.byte_count_) {}

GrammarMatcher& GrammarMatcher::operator=(const GrammarMatcher& other) {
  if (this != &other) *this = GrammarMatcher(other);
  return *this;
}

GrammarMatcher::GrammarMatcher(GrammarMatcher&& other) noexcept
    : grammar_(std::move(other.grammar_)), slot_(other.slot_), byte_count_(other.byte_count_) {}

GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&& other) noexcept {
  std::swap(grammar_, other.grammar_);
  std::swap(slot_, other.slot_);
  std::swap(byte_count_, other.byte_count_);
  return *this;
}

GrammarMatcher::~GrammarMatcher() {
  if (grammar_ != nullptr) grammar_->FreeSlot(slot_);
}

Status GrammarMatcher::Accept(TokenId token) {
  KVD_CHECK_OK(grammar_->Accept(slot_, token, byte_count_));
  byte_count_ += grammar_->vocabulary().Text(token).size();
  return {};
}

Status GrammarMatcher::AcceptText(std::string_view text) {
  GrammarMatcher after(*this);
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), kSliceBytes))) {
    const std::string_view slice = text.substr(0, kSliceBytes);
    KVD_CHECK_OK(grammar_->AcceptBytes(after.slot_, slice, after.byte_count_));
    after.byte_count_ += slice.size();
  }
  *this = std::move(after);
  return {};
}

}  // namespace kvd
