// Calls whose arguments are not JSON: those of LFM2 (Python) and of Gemma 4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/tool_calls/json_scanner.h"

namespace kvd {

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

}  // namespace kvd
