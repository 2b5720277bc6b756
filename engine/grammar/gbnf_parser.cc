// A recursive descent over groups; everything else is a loop. A sequence is collected in a local
// list, because a repetition changes the last item, and appended to the program when it ends.
//
// A group that is a single item is replaced by the item, and a group with one alternative that is
// not repeated by its items, so that they need no frame on the stack.
#include "engine/grammar/gbnf_parser.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/utf8.h"
#include "engine/grammar/gbnf_reader.h"

namespace kvd {
namespace {

constexpr std::uint32_t kRepetitionsMax = 1u << 20;
constexpr std::uint32_t kGroupDepthMax = 256;
// A count of characters and nodes must fit in 32 bits.
constexpr std::uint64_t kCharacterCountMax = 1u << 31;
// Work units of making the automaton of a class.
constexpr std::size_t kAutomatonUnits = 2048;

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const GrammarVocabulary& vocabulary,
             const GrammarLimits& limits, WorkControl& work)
      : reader_(text), vocabulary_(vocabulary), limits_(limits), meter_(work) {}

  Result<GrammarProgram> Parse();

 private:
  struct Sequence {
    std::vector<GrammarStep> steps;
    bool has_item = false;  // the last step is an item that may be repeated
  };
  // Where the text is: in which rule, and inside how many groups.
  struct Place {
    std::uint32_t rule = 0;
    std::uint32_t depth = 0;
  };

  Status ParseRule();
  // Returns the positions of the alternatives, which are then part of the program.
  Result<std::vector<std::uint32_t>> ParseAlternatives(Place place);
  Status ParseItem(Place place, Sequence& sequence, bool& is_end);
  Status ParseLiteral(Sequence& sequence);
  Status ParseClass(Sequence& sequence);
  Status ParseTokenTerminal(Sequence& sequence);
  Status ParseGroup(Place place, Sequence& sequence);
  Status ParseRepetition(Place place, Sequence& sequence);
  Status ParseBounds(bool newlines, std::uint32_t& min, std::uint32_t& max);
  Status Repeat(Place place, std::uint32_t min, std::uint32_t max, Sequence& sequence);

  Result<std::uint32_t> RuleNamed(std::string_view name);
  Result<std::uint32_t> AddRule(std::uint32_t name);
  void Define(std::uint32_t rule, const std::vector<std::uint32_t>& alternatives);
  std::uint32_t Append(const std::vector<GrammarStep>& steps);
  Result<std::uint32_t> Automaton(std::vector<CodeRange> ranges);
  Status AddCharacters(std::vector<CodeRange> ranges, bool negated, Sequence& sequence);
  Status CountElements(std::size_t count);
  static void AddItem(GrammarStep step, Sequence& sequence) {
    sequence.steps.push_back(step);
    sequence.has_item = true;
  }
  bool RepetitionFollows() const {
    const char c = reader_.Peek();
    return c == '*' || c == '+' || c == '?' || c == '{';
  }

  GbnfReader reader_;
  const GrammarVocabulary& vocabulary_;
  const GrammarLimits& limits_;
  WorkMeter meter_;
  GrammarProgram program_;
  std::unordered_map<std::string_view, std::uint32_t> rule_numbers_;
  std::vector<bool> is_defined_;               // by rule
  std::vector<std::size_t> first_references_;  // by rule: offset in the text
  std::map<std::vector<CodeRange>, std::uint32_t> automaton_numbers_;
  std::size_t element_count_ = 0;
};

Status GbnfParser::CountElements(std::size_t count) {
  element_count_ += count;
  if (element_count_ > limits_.elements)
    return Fail(Code::kTooLarge, "grammar: elements: the limit is ", limits_.elements);
  return meter_.Spend(8 * count);
}

Result<std::uint32_t> GbnfParser::AddRule(std::uint32_t name) {
  if (program_.rules.size() >= limits_.rules)
    return Fail(Code::kTooLarge, "grammar: rules, groups and repeated items: the limit is ",
                limits_.rules);
  program_.rules.push_back({.name = name});
  is_defined_.push_back(false);
  first_references_.push_back(reader_.offset());
  return static_cast<std::uint32_t>(program_.rules.size() - 1);
}

Result<std::uint32_t> GbnfParser::RuleNamed(std::string_view name) {
  if (const auto found = rule_numbers_.find(name); found != rule_numbers_.end())
    return found->second;
  KVD_TRY(const std::uint32_t rule, AddRule(static_cast<std::uint32_t>(program_.names.size())));
  first_references_[rule] -= name.size();
  program_.names.emplace_back(name);
  rule_numbers_.emplace(name, rule);
  return rule;
}

void GbnfParser::Define(std::uint32_t rule, const std::vector<std::uint32_t>& alternatives) {
  program_.rules[rule].begin = static_cast<std::uint32_t>(program_.alternatives.size());
  program_.rules[rule].count = static_cast<std::uint32_t>(alternatives.size());
  program_.alternatives.insert(program_.alternatives.end(), alternatives.begin(),
                               alternatives.end());
  is_defined_[rule] = true;
}

std::uint32_t GbnfParser::Append(const std::vector<GrammarStep>& steps) {
  const auto begin = static_cast<std::uint32_t>(program_.steps.size());
  program_.steps.insert(program_.steps.end(), steps.begin(), steps.end());
  program_.steps.push_back({.kind = StepKind::kEnd});
  return begin;
}

Result<std::uint32_t> GbnfParser::Automaton(std::vector<CodeRange> ranges) {
  if (const auto found = automaton_numbers_.find(ranges); found != automaton_numbers_.end())
    return found->second;
  KVD_CHECK_OK(meter_.Spend(kAutomatonUnits + 512 * ranges.size()));
  const auto number = static_cast<std::uint32_t>(program_.automatons.size());
  program_.automatons.push_back(CharacterAutomaton::Make(ranges));
  automaton_numbers_.emplace(std::move(ranges), number);
  return number;
}

Status GbnfParser::AddCharacters(std::vector<CodeRange> ranges, bool negated, Sequence& sequence) {
  KVD_TRY(const std::uint32_t automaton, Automaton(NormalizeRanges(std::move(ranges), negated)));
  AddItem({.kind = StepKind::kCharacters, .target = automaton}, sequence);
  return {};
}

Status GbnfParser::ParseLiteral(Sequence& sequence) {
  const std::size_t begin = program_.texts.size();
  while (!reader_.Take("\"")) {
    if (reader_.AtEnd()) return reader_.FailHere("'\"' is missing");
    const std::size_t offset = reader_.offset();
    KVD_TRY(const std::uint32_t code, reader_.Character());
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
      return reader_.FailAt(offset, "the escape is not a character (a surrogate, or too large)");
    KVD_CHECK_OK(CountElements(1));
    AppendUtf8(code, program_.texts);
  }
  const std::size_t bytes = program_.texts.size() - begin;
  if (bytes > 0) {
    AddItem({.kind = StepKind::kText,
             .target = static_cast<std::uint32_t>(begin),
             .size = static_cast<std::uint32_t>(bytes)},
            sequence);
    return {};
  }
  // "" is an item that may be repeated: zero characters.
  AddItem({.kind = StepKind::kText, .target = 0, .size = 0}, sequence);
  return {};
}

Status GbnfParser::ParseClass(Sequence& sequence) {
  const std::size_t begin = reader_.offset();
  const bool negated = reader_.Take("^");
  std::vector<CodeRange> ranges;
  while (!reader_.Take("]")) {
    if (reader_.AtEnd()) return reader_.FailHere("']' is missing");
    const std::size_t offset = reader_.offset();
    CodeRange range;
    KVD_TRY(range.first, reader_.Character());
    range.last = range.first;
    if (reader_.Peek() == '-' && reader_.PeekAfter() != ']') {
      reader_.Skip();
      KVD_TRY(range.last, reader_.Character());
    }
    if (range.last < range.first) return reader_.FailAt(offset, "the range ends before it begins");
    ranges.push_back(range);
    KVD_CHECK_OK(CountElements(1));
  }
  if (ranges.empty()) return reader_.FailAt(begin, "the class is empty");
  if (ranges.size() > CharacterAutomaton::kRangesMax)
    return reader_.FailAt(begin, Concat("the class has ", ranges.size(), " ranges, the limit is ",
                                        CharacterAutomaton::kRangesMax));
  return AddCharacters(std::move(ranges), negated, sequence);
}

Status GbnfParser::ParseTokenTerminal(Sequence& sequence) {
  const std::size_t begin = reader_.offset();
  const bool is_negated = reader_.Take("!");
  if (reader_.Peek() != '<') return reader_.FailExpected("'<'");
  TokenId token = kNoToken;
  if (reader_.PeekAfter() == '[') {
    reader_.Skip(2);
    const std::size_t number_begin = reader_.offset();
    KVD_TRY(const std::uint32_t number, reader_.Number("a token's number", 0x7fffffff));
    if (!reader_.Take("]")) return reader_.FailExpected("']'");
    if (!reader_.Take(">")) return reader_.FailExpected("'>'");
    if (number >= vocabulary_.vocab_size())
      return reader_.FailAt(number_begin, Concat("token ", number, ": the vocabulary has ",
                                                 vocabulary_.vocab_size()));
    token = static_cast<TokenId>(number);
  } else {
    KVD_TRY(const std::string_view text, reader_.Until('>'));
    token = vocabulary_.FindBracketed(text);
    if (token == kNoToken)
      return reader_.FailAt(
          begin, Concat("no token of the vocabulary has the text ", text.substr(0, 100)));
  }
  AddItem({.kind = StepKind::kToken,
           .is_negated = is_negated,
           .target = static_cast<std::uint32_t>(token)},
          sequence);
  return {};
}

Status GbnfParser::ParseGroup(Place place, Sequence& sequence) {
  if (place.depth >= kGroupDepthMax)
    return reader_.FailHere(Concat("groups in groups: the limit is ", kGroupDepthMax));
  reader_.SkipSpace(true);
  KVD_TRY(const std::vector<std::uint32_t> alternatives,
          ParseAlternatives({.rule = place.rule, .depth = place.depth + 1}));
  if (!reader_.Take(")")) return reader_.FailExpected("')'");
  reader_.SkipSpace(place.depth > 0);
  if (alternatives.size() == 1) {
    // The group's only alternative is the last run of steps.
    std::vector<GrammarStep>& steps = program_.steps;
    const std::size_t count = steps.size() - 1 - alternatives[0];
    if (count == 1 || (count > 1 && !RepetitionFollows())) {
      const auto begin = steps.begin() + alternatives[0];
      sequence.steps.insert(sequence.steps.end(), begin, steps.end() - 1);
      steps.erase(begin, steps.end());
      sequence.has_item = true;
      return {};
    }
  }
  KVD_TRY(const std::uint32_t group, AddRule(program_.rules[place.rule].name));
  Define(group, alternatives);
  AddItem({.kind = StepKind::kCall, .target = group}, sequence);
  return {};
}

Status GbnfParser::Repeat(Place place, std::uint32_t min, std::uint32_t max, Sequence& sequence) {
  if (max == 0) {
    sequence.steps.pop_back();
    sequence.has_item = false;
    return {};
  }
  if (min == 1 && max == 1) return {};
  GrammarStep item = sequence.steps.back();
  if (item.kind == StepKind::kText && item.size == 0) return {};
  if (item.kind == StepKind::kText && item.size == 1) {
    const auto byte = static_cast<unsigned char>(program_.texts[item.target]);
    KVD_TRY(const std::uint32_t automaton, Automaton({{byte, byte}}));
    item = {.kind = StepKind::kCharacters, .target = automaton};
  }
  const std::uint64_t count_max = max == GrammarStep::kUnbounded ? min : max;
  const bool is_character = item.kind == StepKind::kCharacters && item.min == 1 && item.max == 1;
  if (is_character &&
      (count_max + 1) * program_.automatons[item.target].node_count() < kCharacterCountMax) {
    item.min = min;
    item.max = max;
    sequence.steps.back() = item;
    return {};
  }
  if (item.kind != StepKind::kCall) {
    KVD_TRY(const std::uint32_t body, AddRule(program_.rules[place.rule].name));
    KVD_CHECK_OK(CountElements(1));
    Define(body, {Append({item})});
    item = {.kind = StepKind::kCall, .target = body};
  }
  sequence.steps.back() = {
      .kind = StepKind::kRepeat, .target = item.target, .min = min, .max = max};
  return {};
}

// The text is after "{".
Status GbnfParser::ParseBounds(bool newlines, std::uint32_t& min, std::uint32_t& max) {
  constexpr std::string_view kWhat = "a number of repetitions";
  reader_.SkipSpace(newlines);
  const std::size_t begin = reader_.offset();
  KVD_TRY(min, reader_.Number(kWhat, kRepetitionsMax));
  max = min;
  reader_.SkipSpace(newlines);
  if (reader_.Take(",")) {
    reader_.SkipSpace(newlines);
    max = GrammarStep::kUnbounded;
    if (reader_.Peek() != '}') {
      KVD_TRY(max, reader_.Number(kWhat, kRepetitionsMax));
      reader_.SkipSpace(newlines);
    }
  }
  if (!reader_.Take("}")) return reader_.FailExpected(max == min ? "',' or '}'" : "'}'");
  if (min > max)
    return reader_.FailAt(begin,
                          Concat("the repetition's minimum ", min, " is above its maximum ", max));
  return {};
}

Status GbnfParser::ParseRepetition(Place place, Sequence& sequence) {
  if (!sequence.has_item) return reader_.FailExpected("an item before the repetition");
  KVD_CHECK_OK(CountElements(1));
  std::uint32_t min = 0;
  std::uint32_t max = GrammarStep::kUnbounded;
  const bool newlines = place.depth > 0;
  const char c = reader_.Peek();
  reader_.Skip();
  if (c == '{') KVD_CHECK_OK(ParseBounds(newlines, min, max));
  if (c == '+') min = 1;
  if (c == '?') max = 1;
  reader_.SkipSpace(newlines);
  return Repeat(place, min, max, sequence);
}

// `is_end`: the next character begins no item.
Status GbnfParser::ParseItem(Place place, Sequence& sequence, bool& is_end) {
  const char c = reader_.Peek();
  if (c == '(') {
    reader_.Skip();
    return ParseGroup(place, sequence);
  } else if (RepetitionFollows()) {
    return ParseRepetition(place, sequence);
  } else if (reader_.Take("\"")) {
    KVD_CHECK_OK(ParseLiteral(sequence));
  } else if (reader_.Take("[")) {
    KVD_CHECK_OK(ParseClass(sequence));
  } else if (reader_.Take(".")) {
    KVD_CHECK_OK(AddCharacters({}, true, sequence));
  } else if (c == '<' || c == '!') {
    KVD_CHECK_OK(ParseTokenTerminal(sequence));
  } else if (GbnfReader::IsNameCharacter(c)) {
    KVD_TRY(const std::string_view name, reader_.Name());
    KVD_TRY(const std::uint32_t rule, RuleNamed(name));
    AddItem({.kind = StepKind::kCall, .target = rule}, sequence);
  } else {
    is_end = true;
  }
  if (is_end) return {};
  KVD_CHECK_OK(CountElements(1));
  reader_.SkipSpace(place.depth > 0);
  return {};
}

Result<std::vector<std::uint32_t>> GbnfParser::ParseAlternatives(Place place) {
  std::vector<std::uint32_t> alternatives;
  do {
    if (!alternatives.empty()) reader_.SkipSpace(true);
    Sequence sequence;
    for (bool is_end = false; !is_end;) KVD_CHECK_OK(ParseItem(place, sequence, is_end));
    std::erase_if(sequence.steps, [](const GrammarStep& step) {
      return step.kind == StepKind::kText && step.size == 0;
    });
    KVD_CHECK_OK(CountElements(1));
    alternatives.push_back(Append(sequence.steps));
  } while (reader_.Take("|"));
  return alternatives;
}

Status GbnfParser::ParseRule() {
  KVD_TRY(const std::string_view name, reader_.Name());
  KVD_TRY(const std::uint32_t rule, RuleNamed(name));
  reader_.SkipSpace(false);
  if (!reader_.Take("::=")) return reader_.FailExpected("'::='");
  reader_.SkipSpace(true);
  KVD_TRY(const std::vector<std::uint32_t> alternatives,
          ParseAlternatives({.rule = rule, .depth = 0}));
  // A rule that is defined again replaces the earlier one, as in llama.cpp.
  Define(rule, alternatives);
  const char c = reader_.Peek();
  if (!reader_.AtEnd() && c != '\r' && c != '\n')
    return reader_.FailExpected("an item, '|' or a line end");
  reader_.SkipSpace(true);
  return {};
}

Result<GrammarProgram> GbnfParser::Parse() {
  reader_.SkipSpace(true);
  while (!reader_.AtEnd()) KVD_CHECK_OK(ParseRule());
  for (std::uint32_t rule = 0; rule < program_.rules.size(); ++rule)
    if (!is_defined_[rule])
      return reader_.FailAt(
          first_references_[rule],
          Concat("the rule \"", program_.names[program_.rules[rule].name], "\" is not defined"));
  const auto root = rule_numbers_.find("root");
  if (root == rule_numbers_.end())
    return Fail(Code::kInvalidArgument, "grammar: the rule \"root\" is missing");
  program_.root = root->second;
  return std::move(program_);
}

}  // namespace

Result<GrammarProgram> ParseGbnf(std::string_view text, const GrammarVocabulary& vocabulary,
                                 const GrammarLimits& limits, WorkControl& work) {
  if (text.size() > limits.text_bytes)
    return Fail(Code::kTooLarge, "grammar: ", text.size(), " bytes, the limit is ",
                limits.text_bytes);
  return GbnfParser(text, vocabulary, limits, work).Parse();
}

}  // namespace kvd
