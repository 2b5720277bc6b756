// A pushdown automaton: the state says what may follow, the stack which objects and arrays are
// open.
#include "text/tool_calls/json_scanner.h"

namespace kvd {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

void AppendEscaped(char c, std::string& json) {
  switch (c) {
    case '"': json += "\\\""; return;
    case '\\': json += "\\\\"; return;
    case '\n': json += "\\n"; return;
    case '\r': json += "\\r"; return;
    case '\t': json += "\\t"; return;
    default: break;
  }
  if (static_cast<unsigned char>(c) >= 0x20) {
    json += c;
    return;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  json += "\\u00";
  json += kDigits[static_cast<unsigned char>(c) >> 4];
  json += kDigits[static_cast<unsigned char>(c) & 15];
}

std::string QuotedJson(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) AppendEscaped(c, json);
  return json += '"';
}

JsonScanner::Step JsonScanner::Begin(char c) {
  if (state_ == State::kStart && c != '{') return Step::kFail;
  if (c == '{' || c == '[') {
    if (open_.size() == kNestingMax) return Step::kFail;
    open_ += c;
    return To(c == '{' ? State::kKeyOrEnd : State::kValueOrEnd);
  }
  is_key_ = false;
  switch (c) {
    case '"': return To(State::kString);
    case 't': word_left_ = "rue"; return To(State::kWord);
    case 'f': word_left_ = "alse"; return To(State::kWord);
    case 'n': word_left_ = "ull"; return To(State::kWord);
    case '-': return To(State::kMinus);
    case '0': return To(State::kZero);
    default: return IsDigit(c) ? To(State::kInteger) : Step::kFail;
  }
}

JsonScanner::Step JsonScanner::After(char c) {
  state_ = State::kAfter;
  if (IsJsonSpace(c)) return Step::kMore;
  const bool in_object = open_.back() == '{';
  if (c == ',') return To(in_object ? State::kKey : State::kValue);
  if (c != (in_object ? '}' : ']')) return Step::kFail;
  open_.pop_back();
  return open_.empty() ? Step::kEnd : Step::kMore;
}

JsonScanner::Step JsonScanner::Number(char c) {
  switch (state_) {
    case State::kMinus:
      if (c == '0') return To(State::kZero);
      return IsDigit(c) ? To(State::kInteger) : Step::kFail;
    case State::kPoint: return IsDigit(c) ? To(State::kFraction) : Step::kFail;
    case State::kExponentSign:
      if (c == '+' || c == '-') return To(State::kExponentFirst);
      [[fallthrough]];
    case State::kExponentFirst: return IsDigit(c) ? To(State::kExponent) : Step::kFail;
    case State::kZero:
    case State::kInteger:
      if (c == '.') return To(State::kPoint);
      [[fallthrough]];
    case State::kFraction:
      if (c == 'e' || c == 'E') return To(State::kExponentSign);
      [[fallthrough]];
    default:
      if (IsDigit(c) && state_ != State::kZero) return Step::kMore;
      return After(c);
  }
}

JsonScanner::Step JsonScanner::InString(char c) {
  switch (state_) {
    case State::kEscape:
      if (c == 'u') {
        hex_left_ = 4;
        return To(State::kHex);
      }
      return std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos ? Step::kFail
                                                                              : To(State::kString);
    case State::kHex:
      if (!IsHexDigit(c)) return Step::kFail;
      return --hex_left_ == 0 ? To(State::kString) : Step::kMore;
    default:
      if (c == '\\') return To(State::kEscape);
      if (c == '"') return To(is_key_ ? State::kColon : State::kAfter);
      return Step::kMore;
  }
}

JsonScanner::Step JsonScanner::Take(char c) {
  if (in_string()) return InString(c);
  switch (state_) {
    case State::kWord:
      if (word_left_.empty()) return After(c);
      if (c != word_left_.front()) return Step::kFail;
      word_left_.remove_prefix(1);
      return Step::kMore;
    case State::kAfter: return After(c);
    case State::kMinus:
    case State::kZero:
    case State::kInteger:
    case State::kPoint:
    case State::kFraction:
    case State::kExponentSign:
    case State::kExponentFirst:
    case State::kExponent: return Number(c);
    default: break;
  }
  if (IsJsonSpace(c) && state_ != State::kStart) return Step::kMore;
  switch (state_) {
    case State::kKeyOrEnd:
      if (c == '}') return After(c);
      [[fallthrough]];
    case State::kKey: is_key_ = true; return c == '"' ? To(State::kString) : Step::kFail;
    case State::kColon: return c == ':' ? To(State::kValue) : Step::kFail;
    case State::kValueOrEnd:
      if (c == ']') return After(c);
      [[fallthrough]];
    default: return Begin(c);
  }
}

}  // namespace kvd
