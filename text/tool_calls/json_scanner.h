// JsonScanner: checks one JSON object byte by byte (RFC 8259), without a copy of it.
//
// Control characters inside strings are accepted, because models write line ends there; the caller
// escapes them. Bytes above 127 are not checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvd {

// The white space of JSON.
inline bool IsJsonSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Appends the byte of a text as a part of a JSON string: quotes, backslashes and control characters
// are escaped.
void AppendEscaped(char c, std::string& json);

// Returns the text as a JSON string with quotes.
std::string QuotedJson(std::string_view text);

class JsonScanner {
 public:
  static constexpr std::size_t kNestingMax = 128;  // levels of objects and arrays

  enum class Step : std::uint8_t { kMore, kEnd, kFail };

  // Takes the next byte; the first one is '{'. kEnd: the byte closes the object. kFail: the byte
  // does not continue a JSON object, or kNestingMax is exceeded. REQUIRES: every earlier call
  // returned kMore.
  Step Take(char c);

  // Objects and arrays that are open.
  std::size_t depth() const { return open_.size(); }
  bool in_string() const { return state_ >= State::kString; }
  // The present or last string is a key of an object.
  bool is_key() const { return is_key_; }
  // The next byte that is not white space begins a value, which is not a key.
  bool expects_value() const {
    return state_ == State::kValue || state_ == State::kValueOrEnd || state_ == State::kStart;
  }

 private:
  enum class State : std::uint8_t {
    kStart,       // before the object
    kValue,       // after a colon, or after a comma in an array
    kValueOrEnd,  // after [
    kKeyOrEnd,    // after {
    kKey,         // after a comma in an object
    kColon,       // after a key
    kAfter,       // after a value
    kWord,        // in true, false or null
    kMinus,       // in a number, after its sign
    kZero,        // after a leading zero
    kInteger,     // after a digit before the point
    kPoint,
    kFraction,
    kExponentSign,   // after e
    kExponentFirst,  // after the exponent's sign
    kExponent,
    kString,
    kEscape,
    kHex,
  };

  Step Begin(char c);  // the first byte of a value
  Step After(char c);  // a byte after a value
  Step Number(char c);
  Step InString(char c);
  Step To(State state) {
    state_ = state;
    return Step::kMore;
  }

  State state_ = State::kStart;
  std::string open_;  // '{' and '['
  bool is_key_ = false;
  std::string_view word_left_;
  int hex_left_ = 0;
};

}  // namespace kvd
