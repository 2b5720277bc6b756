// One scan over the vocabulary's trie. The states of the present prefix are a list by depth; a node
// whose byte leads to the dead state is skipped with its subtree.
//
// In the interior of a string nearly every byte leads back to the same state. When the scan meets
// such a state, it finds the groups of bytes that all lead back (VocabularyTrie::ByteGroups); a
// subtree with bytes of these groups only is accepted as a whole.
#include "engine/grammar/mask_builder.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kvd {
namespace {

using ByteGroups = VocabularyTrie::ByteGroups;

struct CharacterForm {
  std::uint8_t lead_first;
  std::uint8_t lead_last;
  std::uint8_t second_first;
  std::uint8_t second_last;
  std::uint8_t following;  // bytes after the lead byte
};

// The well-formed characters of several bytes (table 3-7 of the Unicode Standard).
constexpr std::array<CharacterForm, 8> kForms{{{0xc2, 0xdf, 0x80, 0xbf, 1},
                                               {0xe0, 0xe0, 0xa0, 0xbf, 2},
                                               {0xe1, 0xec, 0x80, 0xbf, 2},
                                               {0xed, 0xed, 0x80, 0x9f, 2},
                                               {0xee, 0xef, 0x80, 0xbf, 2},
                                               {0xf0, 0xf0, 0x90, 0xbf, 3},
                                               {0xf1, 0xf3, 0x80, 0xbf, 3},
                                               {0xf4, 0xf4, 0x80, 0x8f, 3}}};

class MaskBuilder {
 public:
  MaskBuilder(GrammarStates& states, const GrammarVocabulary& vocabulary)
      : states_(states),
        vocabulary_(vocabulary),
        bits_((std::size_t{vocabulary.row_size()} + 63) / 64) {}

  // Returns false if the scan ended early.
  bool ScanTexts(std::uint32_t state, std::size_t entries_max);
  void AddTerminals(std::uint32_t state);
  void AddEnds() { Add(vocabulary_.end_of_generation()); }
  std::vector<std::uint64_t> Take() { return std::move(bits_); }

 private:
  void Add(std::span<const TokenId> tokens) {
    for (const TokenId token : tokens) {
      const auto bit = static_cast<std::size_t>(token);
      bits_[bit / 64] |= std::uint64_t{1} << (bit % 64);
    }
  }
  // The groups all of whose bytes and characters lead from `state` to `state`.
  ByteGroups LoopsOf(std::uint32_t state);
  bool CharactersLoop(std::uint32_t state);
  // Whether all bytes from first to last, and after them `following` - 1 further continuation
  // bytes, lead from `from` to `to`.
  bool AllLead(std::uint32_t from, std::uint32_t to, unsigned first, unsigned last,
               unsigned following);

  GrammarStates& states_;
  const GrammarVocabulary& vocabulary_;
  std::vector<std::uint64_t> bits_;
  std::unordered_map<std::uint32_t, ByteGroups> loops_;  // by state
};

bool MaskBuilder::ScanTexts(std::uint32_t state, std::size_t entries_max) {
  const VocabularyTrie& trie = vocabulary_.trie();
  const std::size_t work_end = states_.work() + entries_max;
  struct Prefix {
    std::uint32_t state = GrammarStates::kDead;
    ByteGroups loops = 0;  // 0: not known to have any
  };
  std::vector<Prefix> prefixes(trie.depth_max() + 1);
  prefixes[0].state = state;
  for (std::uint32_t node = 1; node < trie.node_count();) {
    const std::uint32_t depth = trie.depth(node);
    Prefix& parent = prefixes[depth - 1];
    if ((trie.groups(node) & ~parent.loops) == 0) {
      Add(trie.TokensUnder(node));
      node = trie.skip(node);
      continue;
    }
    const std::uint32_t next = states_.Next(parent.state, trie.byte(node));
    if (next == GrammarStates::kDead) {
      node = trie.skip(node);
      if (states_.work() > work_end) return false;
      continue;
    }
    if (next == parent.state && parent.loops == 0) parent.loops = LoopsOf(next);
    prefixes[depth] = {.state = next, .loops = next == parent.state ? parent.loops : 0};
    Add(trie.TokensAt(node));
    if (states_.work() > work_end) return false;
    ++node;
  }
  return true;
}

ByteGroups MaskBuilder::LoopsOf(std::uint32_t state) {
  const auto [place, is_new] = loops_.try_emplace(state, ~ByteGroups{0});
  if (!is_new) return place->second;
  ByteGroups loops = ~VocabularyTrie::kBrokenGroup;
  for (unsigned byte = 0; byte < 128; ++byte)
    if (states_.Next(state, static_cast<std::uint8_t>(byte)) != state)
      loops &= ~VocabularyTrie::AsciiGroups()[byte];
  if (!CharactersLoop(state)) loops &= ~VocabularyTrie::kCharacterGroup;
  place->second = loops;
  return loops;
}

bool MaskBuilder::CharactersLoop(std::uint32_t state) {
  for (const CharacterForm& form : kForms) {
    for (unsigned lead = form.lead_first; lead <= form.lead_last; ++lead) {
      const std::uint32_t next = states_.Next(state, static_cast<std::uint8_t>(lead));
      if (!AllLead(next, state, form.second_first, form.second_last, form.following)) return false;
    }
  }
  return true;
}

bool MaskBuilder::AllLead(std::uint32_t from, std::uint32_t to, unsigned first, unsigned last,
                          unsigned following) {
  if (from == GrammarStates::kDead) return false;
  const auto& classes = states_.program().byte_class;
  for (unsigned byte = first; byte <= last; ++byte) {
    if (byte > first && classes[byte] == classes[byte - 1]) continue;
    const std::uint32_t next = states_.Next(from, static_cast<std::uint8_t>(byte));
    const bool leads = following == 1 ? next == to : AllLead(next, to, 0x80, 0xbf, following - 1);
    if (!leads) return false;
  }
  return true;
}

void MaskBuilder::AddTerminals(std::uint32_t state) {
  const GrammarProgram& program = states_.program();
  const auto frames = states_.sets().Frames(states_.SetOf(state));
  // A copy, because AfterTerminal makes sets.
  for (const StackFrame& frame : std::vector<StackFrame>(frames.begin(), frames.end())) {
    if (frame.position == StackFrame::kBottom) continue;
    const GrammarStep& step = program.steps[frame.position];
    if (step.kind != StepKind::kToken) continue;
    if (states_.AfterTerminal(frame) == GrammarStates::kDead) continue;
    const auto token = static_cast<TokenId>(step.target);
    if (!step.is_negated) {
      Add({&token, 1});
      continue;
    }
    const auto named = vocabulary_.named_tokens();
    for (std::size_t i = 0; i < named.size(); ++i) {
      std::uint64_t word = named[i];
      if (i == step.target / 64) word &= ~(std::uint64_t{1} << (step.target % 64));
      bits_[i] |= word;
    }
  }
}

}  // namespace

std::shared_ptr<const TokenMask> BuildMask(GrammarStates& states, std::uint32_t state,
                                           const GrammarVocabulary& vocabulary,
                                           std::size_t entries_max) {
  states.ClearLosses();
  MaskBuilder builder(states, vocabulary);
  const bool is_whole = state == GrammarStates::kDead || builder.ScanTexts(state, entries_max);
  if (states.HasTerminals(state)) builder.AddTerminals(state);
  if (states.MayEnd(state)) builder.AddEnds();
  const bool is_complete = is_whole && !states.losses().depth && !states.losses().entries;
  return std::make_shared<const TokenMask>(vocabulary.row_size(), builder.Take(), is_complete);
}

}  // namespace kvd
