// One scan over the vocabulary's trie. The states of the present prefix are a list by depth; a node
// whose byte leads to the dead state is skipped with its subtree.
//
// In the interior of a string nearly every character leads to one state: the same one, or in a
// string of limited length the one whose count is larger by one. A run (GrammarStates::Run) is this
// next state with the groups of bytes that lead to it. A subtree whose bytes lie in the groups of
// as many states of the run as the subtree is high is accepted as a whole.
//
// The scan meets tokens in the order of the trie, so what it accepts is a list of ranges. The bits
// are in the order of the token ids. They are made at the end: the bits of the accepted tokens are
// set, or, if most tokens are accepted, those of the others are cleared.
#include "engine/grammar/mask_builder.h"

#include <algorithm>
#include <array>
#include <span>
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

  // Returns false if the scan ended early. Called once, before the other functions.
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
  // Appends tokens of the trie. REQUIRES: they follow those of the calls before.
  void Accept(std::span<const TokenId> tokens);
  void AddAccepted();
  const GrammarStates::Run& RunOf(std::uint32_t state);
  // Whether the run that begins at `state` accepts every continuation of the node.
  bool RunAccepts(std::uint32_t state, std::uint32_t node);
  // Whether all characters of several bytes lead from `state` to `to`.
  bool CharactersLead(std::uint32_t state, std::uint32_t to);
  // Whether all bytes from first to last, and after them `following` - 1 further continuation
  // bytes, lead from `from` to `to`.
  bool AllLead(std::uint32_t from, std::uint32_t to, unsigned first, unsigned last,
               unsigned following);

  GrammarStates& states_;
  const GrammarVocabulary& vocabulary_;
  std::vector<std::uint64_t> bits_;
  // Ranges of trie().tokens(), ascending; adjacent ranges are one.
  std::vector<std::pair<std::size_t, std::size_t>> accepted_;
  std::size_t accepted_count_ = 0;  // number of tokens in accepted_
};

void MaskBuilder::Accept(std::span<const TokenId> tokens) {
  if (tokens.empty()) return;
  const auto first = static_cast<std::size_t>(tokens.data() - vocabulary_.trie().tokens().data());
  accepted_count_ += tokens.size();
  if (!accepted_.empty() && accepted_.back().second == first) {
    accepted_.back().second += tokens.size();
  } else {
    accepted_.emplace_back(first, first + tokens.size());
  }
}

void MaskBuilder::AddAccepted() {
  const auto tokens = vocabulary_.trie().tokens();
  if (accepted_count_ <= tokens.size() / 2) {
    for (const auto& [first, last] : accepted_) Add(tokens.subspan(first, last - first));
    return;
  }
  std::ranges::copy(vocabulary_.text_tokens(), bits_.begin());
  accepted_.emplace_back(tokens.size(), tokens.size());
  std::size_t end = 0;  // of the range before
  for (const auto& [first, last] : accepted_) {
    for (const TokenId token : tokens.subspan(end, first - end)) {
      const auto bit = static_cast<std::size_t>(token);
      bits_[bit / 64] &= ~(std::uint64_t{1} << (bit % 64));
    }
    end = last;
  }
}

bool MaskBuilder::ScanTexts(std::uint32_t state, std::size_t entries_max) {
  const VocabularyTrie& trie = vocabulary_.trie();
  const std::size_t work_end = states_.work() + entries_max;
  std::vector<std::uint32_t> prefixes(trie.depth_max() + 1);  // by depth: the state
  prefixes[0] = state;
  bool is_whole = true;
  for (std::uint32_t node = 1; node < trie.node_count();) {
    const std::uint32_t depth = trie.depth(node);
    const std::uint32_t parent = prefixes[depth - 1];
    const std::uint32_t next = states_.Next(parent, trie.byte(node));
    if (states_.work() > work_end) {
      is_whole = false;
      break;
    }
    if (next == GrammarStates::kDead) {
      node = trie.skip(node);
    } else if (RunAccepts(parent, node)) {
      Accept(trie.TokensUnder(node));
      node = trie.skip(node);
    } else {
      prefixes[depth] = next;
      Accept(trie.TokensAt(node));
      ++node;
    }
  }
  AddAccepted();
  return is_whole;
}

bool MaskBuilder::RunAccepts(std::uint32_t state, std::uint32_t node) {
  const VocabularyTrie& trie = vocabulary_.trie();
  const ByteGroups groups = trie.groups(node);
  const std::uint32_t height = trie.height(node);
  for (std::uint32_t i = 0; i < height; ++i) {
    const GrammarStates::Run& run = RunOf(state);
    if ((groups & ~run.groups) != 0) return false;
    if (run.next == state) return true;
    state = run.next;
  }
  return height < VocabularyTrie::kHeightMax;
}

// The next state is that after the letter a, if the letter b leads to it too.
const GrammarStates::Run& MaskBuilder::RunOf(std::uint32_t state) {
  if (states_.run(state).is_known) return states_.run(state);
  GrammarStates::Run run{.next = states_.Next(state, 'a'), .is_known = true};
  if (run.next != GrammarStates::kDead && states_.Next(state, 'b') == run.next) {
    run.groups = ~VocabularyTrie::kBrokenGroup;
    for (unsigned byte = 0; byte < 128; ++byte)
      if (states_.Next(state, static_cast<std::uint8_t>(byte)) != run.next)
        run.groups &= ~VocabularyTrie::AsciiGroups()[byte];
    if (!CharactersLead(state, run.next)) run.groups &= ~VocabularyTrie::kCharacterGroup;
  }
  return states_.run(state) = run;
}

bool MaskBuilder::CharactersLead(std::uint32_t state, std::uint32_t to) {
  for (const CharacterForm& form : kForms) {
    for (unsigned lead = form.lead_first; lead <= form.lead_last; ++lead) {
      const std::uint32_t next = states_.Next(state, static_cast<std::uint8_t>(lead));
      if (!AllLead(next, to, form.second_first, form.second_last, form.following)) return false;
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
