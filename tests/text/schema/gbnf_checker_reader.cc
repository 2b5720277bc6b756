#include "tests/text/schema/gbnf_checker_reader.h"

#include <charconv>
#include <limits>

#include "base/utf8.h"

namespace kvd::test {
namespace {

bool IsNameByte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '-';
}

}  // namespace

std::unexpected<Error> GbnfCheckerReader::Refuse(std::string_view what) const {
  return Fail(Code::kInvalidArgument, what, " at column ", offset_ + 1, " of: ", line_);
}

bool GbnfCheckerReader::Take(char byte) {
  if (Peek() != byte || AtEnd()) return false;
  ++offset_;
  return true;
}

void GbnfCheckerReader::SkipSpaces() {
  while (Take(' ')) {
  }
}

Status GbnfCheckerReader::Read() {
  for (std::string_view rest = text_; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return Refuse("a line without its end");
    KVD_CHECK_OK(ReadLine(rest.substr(0, end)));
    rest.remove_prefix(end + 1);
  }
  for (const auto& [name, number] : checker_.numbers_)
    if (!is_defined_[number]) return Fail(Code::kInvalidArgument, "the rule ", name, " is missing");
  return {};
}

Status GbnfCheckerReader::ReadLine(std::string_view line) {
  line_ = line;
  offset_ = 0;
  const std::string name = ReadName();
  if (name.empty()) return Refuse("no name");
  if (!line.substr(offset_).starts_with(" ::= ")) return Refuse("no ::=");
  offset_ += 5;
  const std::size_t number = NumberOf(name);
  if (is_defined_[number]) return Refuse("a second rule of this name");
  is_defined_[number] = true;
  KVD_TRY(Node body, ReadChoice());
  if (!AtEnd()) return Refuse("text after the rule");
  checker_.bodies_[number] = std::move(body);
  return {};
}

std::size_t GbnfCheckerReader::NumberOf(const std::string& name) {
  const auto [place, is_new] = checker_.numbers_.try_emplace(name, checker_.bodies_.size());
  if (is_new) {
    checker_.bodies_.emplace_back();
    is_defined_.push_back(false);
  }
  return place->second;
}

std::string GbnfCheckerReader::ReadName() {
  std::string name;
  while (IsNameByte(Peek())) name += line_[offset_++];
  return name;
}

Result<GbnfCheckerReader::Node> GbnfCheckerReader::ReadChoice() {
  Node choice;
  choice.kind = Node::Kind::kChoice;
  do {
    KVD_TRY(Node sequence, ReadSequence());
    choice.children.push_back(std::move(sequence));
  } while (Take('|'));
  return choice;
}

Result<GbnfCheckerReader::Node> GbnfCheckerReader::ReadSequence() {
  Node sequence;
  for (SkipSpaces(); !AtEnd() && Peek() != '|' && Peek() != ')'; SkipSpaces()) {
    KVD_TRY(Node item, ReadItem());
    KVD_TRY(item, ReadRepeat(std::move(item)));
    sequence.children.push_back(std::move(item));
  }
  if (sequence.children.empty()) return Refuse("an empty alternative");
  return sequence;
}

Result<GbnfCheckerReader::Node> GbnfCheckerReader::ReadItem() {
  if (Take('"')) return ReadLiteral();
  if (Take('[')) return ReadClass();
  if (Take('(')) {
    KVD_TRY(Node group, ReadChoice());
    if (!Take(')')) return Refuse("a group without its end");
    return group;
  }
  Node node;
  node.kind = Node::Kind::kRule;
  const std::string name = ReadName();
  if (name.empty()) return Refuse("an unknown character");
  node.rule = NumberOf(name);
  return node;
}

Result<GbnfCheckerReader::Node> GbnfCheckerReader::ReadLiteral() {
  Node sequence;
  while (!Take('"')) {
    KVD_TRY(const std::uint32_t character, ReadCharacter());
    Node node;
    node.kind = Node::Kind::kClass;
    node.ranges.emplace_back(character, character);
    sequence.children.push_back(std::move(node));
  }
  return sequence;
}

Result<GbnfCheckerReader::Node> GbnfCheckerReader::ReadClass() {
  Node node;
  node.kind = Node::Kind::kClass;
  node.is_negated = Take('^');
  while (!Take(']')) {
    KVD_TRY(const std::uint32_t first, ReadCharacter());
    std::uint32_t last = first;
    if (Take('-')) {
      KVD_TRY(last, ReadCharacter());
    }
    if (last < first) return Refuse("a range in the wrong order");
    node.ranges.emplace_back(first, last);
  }
  if (node.ranges.empty()) return Refuse("an empty class");
  return node;
}

Result<GbnfCheckerReader::Node> GbnfCheckerReader::ReadRepeat(Node item) {
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  Node repeat;
  repeat.kind = Node::Kind::kRepeat;
  if (Take('*')) {
    repeat.max = kNone;
  } else if (Take('+')) {
    repeat.min = 1;
    repeat.max = kNone;
  } else if (Take('?')) {
    repeat.max = 1;
  } else if (Take('{')) {
    KVD_TRY(repeat.min, ReadNumber());
    repeat.max = repeat.min;
    if (Take(',')) {
      repeat.max = kNone;
      if (Peek() != '}') {
        KVD_TRY(repeat.max, ReadNumber());
      }
    }
    if (!Take('}') || repeat.max < repeat.min) return Refuse("no bounds of a repetition");
  } else {
    return item;
  }
  repeat.children.push_back(std::move(item));
  return ReadRepeat(std::move(repeat));
}

Result<std::uint64_t> GbnfCheckerReader::ReadNumber() {
  std::uint64_t number = 0;
  const char* const begin = line_.data() + offset_;
  const auto [end, error] = std::from_chars(begin, line_.data() + line_.size(), number);
  if (error != std::errc()) return Refuse("no number");
  offset_ += static_cast<std::size_t>(end - begin);
  return number;
}

Result<std::uint32_t> GbnfCheckerReader::ReadCharacter() {
  if (AtEnd()) return Refuse("the line ends too early");
  if (!Take('\\')) {
    const std::size_t bytes = WellFormedBytes(line_.substr(offset_));
    if (bytes == 0) return Refuse("invalid UTF-8");
    const std::uint32_t character = CodePointOf(line_.substr(offset_, bytes));
    offset_ += bytes;
    return character;
  }
  const char letter = Peek();
  ++offset_;
  const std::size_t digit_count = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
  if (digit_count > 0) {
    std::uint32_t number = 0;
    const std::string_view digits = line_.substr(offset_, digit_count);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
    if (error != std::errc() || end != digits.data() + digit_count) return Refuse("an escape");
    offset_ += digit_count;
    return number;
  }
  switch (letter) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '\\':
    case '"':
    case '[':
    case ']': return static_cast<std::uint32_t>(letter);
    default: return Refuse("an unknown escape");
  }
}

}  // namespace kvd::test
