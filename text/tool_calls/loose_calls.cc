// Calls whose arguments are not JSON: those of LFM2 (Python) and of Gemma 4.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "text/json.h"
#include "text/tool_calls/call_reader.h"
#include "text/tool_calls/json_scanner.h"

namespace kvd {
namespace {

// LooseValue: translates a value in the notation of Python or of Gemma to JSON, byte by byte.
//
//   Python: {'a': [1, True, None], "b": 'it\'s'}, and parameters: (a=1, b='x')
//   Gemma:  {a:[1,true,null],b:<|"|>text<|"|>}
class LooseValue {
 public:
  enum class Dialect : std::uint8_t { kPython, kGemma };

  explicit LooseValue(Dialect dialect) : dialect_(dialect) {}

  // Takes the next byte and appends the JSON text that it makes certain. The first byte opens the
  // value: '{', '[', or in Python '(' for parameters, which become an object. kEnd: the byte closes
  // the value. REQUIRES: kMore so far.
  JsonScanner::Step Take(char c, std::string& json);
  // Appends the bytes of an unfinished string that were held back.
  void Finish(std::string& json);

 private:
  using Step = JsonScanner::Step;
  enum class Place : std::uint8_t {
    kValue,
    kValueOrEnd,
    kKey,
    kKeyOrEnd,
    kName,  // in a key without quotes
    kColon,
    kAfter,
    kWord,   // in a number, true, None, ...
    kQuote,  // in a Gemma quote that begins a string
    kString,
  };

  Step Begin(char c, std::string& json);
  Step Close(char c, std::string& json);
  Step Key(char c, std::string& json);
  Step After(char c, std::string& json);
  Step Word(char c, std::string& json);
  Step InString(char c, std::string& json);
  Step InEscape(char c, std::string& json);
  Step BeginString(char quote, std::string& json);
  void EndString(std::string& json);
  bool IsQuote(char c) const;
  char Colon() const { return open_.back() == '(' ? '=' : ':'; }
  Step To(Place place) {
    place_ = place;
    return Step::kMore;
  }

  Dialect dialect_;
  Place place_ = Place::kValue;
  std::string open_;  // '{', '[' and '('
  bool is_key_ = false;
  char quote_ = 0;    // of the string; 'G': Gemma's
  std::string held_;  // a word, an escape, or bytes that may belong to a quote
};

// ---- loose value

constexpr std::string_view kGemmaQuote = "<|\"|>";
constexpr std::size_t kWordBytesMax = 64;

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '$' || c == '.' || static_cast<unsigned char>(c) > 127;
}

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '+' || c == '.';
}

// Returns the JSON text of a number or constant; empty if the word is neither.
std::string JsonOfWord(const std::string& word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None") return "null";
  const auto value = ParseJson(word);
  return value && !value->is_string() ? word : std::string();
}

}  // namespace

bool LooseValue::IsQuote(char c) const {
  return c == '"' || (c == '\'' && dialect_ == Dialect::kPython);
}

LooseValue::Step LooseValue::BeginString(char quote, std::string& json) {
  quote_ = quote;
  held_.clear();
  json += '"';
  return To(Place::kString);
}

void LooseValue::EndString(std::string& json) {
  json += '"';
  held_.clear();
  place_ = is_key_ ? Place::kColon : Place::kAfter;
}

LooseValue::Step LooseValue::Begin(char c, std::string& json) {
  is_key_ = false;
  if (c == '{' || c == '[' || c == '(') {
    if (c == '(' && (dialect_ != Dialect::kPython || !open_.empty())) return Step::kFail;
    if (open_.size() == JsonScanner::kNestingMax) return Step::kFail;
    open_ += c;
    json += c == '[' ? '[' : '{';
    return To(c == '[' ? Place::kValueOrEnd : Place::kKeyOrEnd);
  }
  if (open_.empty()) return Step::kFail;
  if (IsQuote(c)) return BeginString(c, json);
  held_ = c;
  if (dialect_ == Dialect::kGemma && c == '<') return To(Place::kQuote);
  return IsWordByte(c) ? To(Place::kWord) : Step::kFail;
}

LooseValue::Step LooseValue::Close(char c, std::string& json) {
  const char open = open_.back();
  if (c != (open == '(' ? ')' : open == '[' ? ']' : '}')) return Step::kFail;
  json += open == '[' ? ']' : '}';
  open_.pop_back();
  place_ = Place::kAfter;
  return open_.empty() ? Step::kEnd : Step::kMore;
}

LooseValue::Step LooseValue::Key(char c, std::string& json) {
  is_key_ = true;
  if (open_.back() != '(' && IsQuote(c)) return BeginString(c, json);
  held_ = c;
  if (dialect_ == Dialect::kGemma && c == '<') return To(Place::kQuote);
  // Python's dicts have keys in quotes; parameters and Gemma's keys have none.
  const bool is_bare = dialect_ == Dialect::kGemma || open_.back() == '(';
  return is_bare && IsNameByte(c) ? To(Place::kName) : Step::kFail;
}

LooseValue::Step LooseValue::After(char c, std::string& json) {
  if (IsJsonSpace(c)) return Step::kMore;
  if (c != ',') return Close(c, json);
  json += ", ";
  // Python allows a comma before the end; JSON does not, so a value has to follow.
  return To(open_.back() == '[' ? Place::kValue : Place::kKey);
}

LooseValue::Step LooseValue::Word(char c, std::string& json) {
  if (IsWordByte(c)) {
    held_ += c;
    return held_.size() > kWordBytesMax ? Step::kFail : Step::kMore;
  }
  const std::string word = JsonOfWord(held_);
  if (word.empty()) return Step::kFail;
  json += word;
  held_.clear();
  place_ = Place::kAfter;
  return After(c, json);
}

// held_ is the escape from its backslash on.
LooseValue::Step LooseValue::InEscape(char c, std::string& json) {
  held_ += c;
  const char kind = held_[1];
  const std::size_t digits = kind == 'u' ? 4 : kind == 'x' ? 2 : kind == 'U' ? 8 : 0;
  if (held_.size() < 2 + digits) return Step::kMore;
  const bool is_json_escape = std::string_view("nrtbf\"\\/").find(kind) != std::string_view::npos;
  const bool is_unicode =
      kind == 'u' && held_.find_first_not_of("0123456789abcdefABCDEF", 2) == held_.npos;
  if (is_json_escape || is_unicode) {
    json += held_;
  } else if (digits > 0) {
    std::uint32_t code = 0;
    for (const char digit : std::string_view(held_).substr(2)) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const std::size_t number = kDigits.find(static_cast<char>(digit | 0x20));
      if (number == kDigits.npos) return Step::kFail;
      code = code * 16 + static_cast<std::uint32_t>(number);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return Step::kFail;
    std::string bytes;
    AppendUtf8(code, bytes);
    for (const char byte : bytes) AppendEscaped(byte, json);
  } else if (kind == '\'') {
    json += '\'';
  } else if (kind != '\n') {  // Python keeps an unknown escape; an escaped line end is nothing
    json += "\\\\";
    AppendEscaped(kind, json);
  }
  held_.clear();
  return Step::kMore;
}

LooseValue::Step LooseValue::InString(char c, std::string& json) {
  if (quote_ != 'G') {
    if (!held_.empty()) return InEscape(c, json);
    if (c == '\\') {
      held_ = c;
    } else if (c == quote_) {
      EndString(json);
    } else {
      AppendEscaped(c, json);
    }
    return Step::kMore;
  }
  held_ += c;
  while (!held_.empty() && !kGemmaQuote.starts_with(held_)) {
    AppendEscaped(held_.front(), json);
    held_.erase(0, 1);
  }
  if (held_ == kGemmaQuote) EndString(json);
  return Step::kMore;
}

LooseValue::Step LooseValue::Take(char c, std::string& json) {
  switch (place_) {
    case Place::kString: return InString(c, json);
    case Place::kWord: return Word(c, json);
    case Place::kQuote:
      held_ += c;
      if (held_ == kGemmaQuote) return BeginString('G', json);
      return kGemmaQuote.starts_with(held_) ? Step::kMore : Step::kFail;
    case Place::kName:
      if (IsNameByte(c)) {
        held_ += c;
        return held_.size() > kWordBytesMax ? Step::kFail : Step::kMore;
      }
      json += QuotedJson(held_);
      held_.clear();
      place_ = Place::kColon;
      break;
    default: break;
  }
  if (IsJsonSpace(c) && !open_.empty()) return Step::kMore;
  switch (place_) {
    case Place::kColon:
      if (c != Colon()) return Step::kFail;
      json += ": ";
      return To(Place::kValue);
    case Place::kAfter: return After(c, json);
    case Place::kKeyOrEnd:
      if (c == '}' || c == ')') return Close(c, json);
      return Key(c, json);
    case Place::kKey: return Key(c, json);
    case Place::kValueOrEnd:
      if (c == ']') return Close(c, json);
      [[fallthrough]];
    default: return Begin(c, json);
  }
}

void LooseValue::Finish(std::string& json) {
  if (place_ != Place::kString || quote_ != 'G') return;
  for (const char c : held_) AppendEscaped(c, json);
  held_.clear();
}

// ---- loose call reader
// Calls whose arguments are not JSON: those of LFM2 (Python) and of Gemma 4.

namespace {

constexpr std::size_t kNameBytesMax = 256;

class LooseCallReader : public CallReader {
 public:
  LooseCallReader(LooseValue::Dialect dialect, std::string_view opener, std::string_view closer)
      : dialect_(dialect), opener_({opener}), closer_text_(closer) {}

  Step Take(char c, CallOutput& output) override {
    switch (place_) {
      case Place::kList: return list_->Take(c, output);
      case Place::kOpener: return Opener(c);
      case Place::kName: return Name(c, output);
      case Place::kArguments: return Arguments(c, output);
      case Place::kAfterCall: return AfterCall(c);
      case Place::kCloser: return Closer(c);
    }
    return Step::kFail;
  }

  void Finish(CallOutput& output) override {
    if (place_ != Place::kArguments) return;
    std::string json;
    arguments_->Finish(json);
    if (!json.empty()) output.AddArguments(json);
  }

 private:
  enum class Place : std::uint8_t { kOpener, kName, kList, kArguments, kAfterCall, kCloser };

  bool is_python() const { return dialect_ == LooseValue::Dialect::kPython; }

  Step Opener(char c) {
    const int found = opener_.Take(c);
    if (found == LiteralChoice::kFail) return Step::kFail;
    if (found == 0) place_ = Place::kName;
    return Step::kMore;
  }

  Step Name(char c, CallOutput& output) {
    if (name_.empty() && IsJsonSpace(c)) return Step::kMore;
    if (is_python() && is_first_ && name_.empty() && c == '{') {
      list_ = MakeJsonCallReader({.closer = closer_text_, .is_bare = false});
      place_ = Place::kList;
      (void)list_->Take('[', output);
      return list_->Take(c, output);
    }
    if (c != (is_python() ? '(' : '{')) {
      name_ += c;
      return name_.size() > kNameBytesMax ? Step::kFail : Step::kMore;
    }
    if (!IsFunctionName(name_) || !output.BeginCall(name_, {})) return Step::kFail;
    name_.clear();
    is_first_ = false;
    arguments_.emplace(dialect_);
    place_ = Place::kArguments;
    return Arguments(c, output);
  }

  Step Arguments(char c, CallOutput& output) {
    std::string json;
    const JsonScanner::Step step = arguments_->Take(c, json);
    if (step == JsonScanner::Step::kFail) return Step::kFail;
    if (!json.empty()) output.AddArguments(json);
    if (step == JsonScanner::Step::kMore) return Step::kMore;
    output.EndCall({});
    closer_ = LiteralChoice({closer_text_});
    place_ = is_python() ? Place::kAfterCall : Place::kCloser;
    return Step::kMore;
  }

  Step AfterCall(char c) {
    if (IsJsonSpace(c)) return Step::kMore;
    if (c != ',' && c != ']') return Step::kFail;
    place_ = c == ',' ? Place::kName : Place::kCloser;
    return Step::kMore;
  }

  Step Closer(char c) {
    switch (closer_.Take(c)) {
      case LiteralChoice::kMore: return Step::kMore;
      case 0: return Step::kDone;
      default: return Step::kFail;
    }
  }

  LooseValue::Dialect dialect_;
  LiteralChoice opener_;
  std::string_view closer_text_;
  LiteralChoice closer_;
  Place place_ = Place::kOpener;
  bool is_first_ = true;
  std::string name_;
  std::optional<LooseValue> arguments_;
  std::unique_ptr<CallReader> list_;
};

}  // namespace

std::unique_ptr<CallReader> MakePythonCallReader(std::string_view closer) {
  return std::make_unique<LooseCallReader>(LooseValue::Dialect::kPython, "[", closer);
}

std::unique_ptr<CallReader> MakeGemmaCallReader() {
  return std::make_unique<LooseCallReader>(LooseValue::Dialect::kGemma, "call:", "<tool_call|>");
}

}  // namespace kvd
