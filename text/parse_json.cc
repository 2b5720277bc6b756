// Boost.JSON's push parser calls a handler for each part of the text; the handler builds values on
// a stack of unfinished containers. Numbers are read again from their text, because the push parser
// does not round a float correctly and turns a large integer into a float.
#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <cmath>
#include <new>
#include <vector>

#include "text/json.h"
#include "text/number_text.h"

namespace kvd {
namespace {

// An array or an object that is being read.
struct Unfinished {
  bool is_object = false;
  std::vector<Value> items;
  Dict dict;
  std::string key;
};

// The functions and constants with names that the push parser prescribes return false to stop it.
class ValueBuilder {
 public:
  using Code = boost::json::error_code;
  using View = boost::json::string_view;
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  explicit ValueBuilder(std::uint64_t units_max) : units_left_(units_max), units_max_(units_max) {}

  Value TakeRoot() { return std::move(root_); }
  const std::string& problem() const { return problem_; }
  bool is_too_large() const { return is_too_large_; }

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code& code) { return Charge(kObjectUnits, code) && Begin(true); }
  bool on_array_begin(Code& code) { return Charge(kArrayUnits, code) && Begin(false); }
  bool on_object_end(std::size_t, Code&) {
    Unfinished done = std::move(open_.back());
    open_.pop_back();
    return Add(Value::Of(std::move(done.dict)));
  }
  bool on_array_end(std::size_t, Code&) {
    Unfinished done = std::move(open_.back());
    open_.pop_back();
    return Add(Value::List(std::move(done.items)));
  }
  bool on_key_part(View part, std::size_t, Code&) { return AddText(part); }
  bool on_key(View part, std::size_t, Code& code) {
    AddText(part);
    open_.back().key = std::exchange(text_, {});
    return Charge(TextUnits(open_.back().key), code);
  }
  bool on_string_part(View part, std::size_t, Code&) { return AddText(part); }
  bool on_string(View part, std::size_t, Code& code) {
    AddText(part);
    return Charge(TextUnits(text_), code) && Add(Value::String(std::exchange(text_, {})));
  }
  bool on_number_part(View part, Code&) { return AddText(part); }
  bool on_int64(std::int64_t, View part, Code& code) { return AddNumber(part, code); }
  bool on_uint64(std::uint64_t, View part, Code& code) { return AddNumber(part, code); }
  bool on_double(double, View part, Code& code) { return AddNumber(part, code); }
  bool on_bool(bool truth, Code& code) { return Charge(1, code) && Add(Value::Bool(truth)); }
  bool on_null(Code& code) { return Charge(1, code) && Add(Value::None()); }
  bool on_comment_part(View, Code&) { return true; }
  bool on_comment(View, Code&) { return true; }

 private:
  static constexpr std::uint64_t kUnitBytes = 64;
  static constexpr std::uint64_t kObjectUnits = 4;
  static constexpr std::uint64_t kArrayUnits = 2;

  static std::uint64_t TextUnits(const std::string& text) { return 2 + text.size() / kUnitBytes; }
  // Charges before the value is made.
  bool Charge(std::uint64_t units, Code& code) {
    if (units <= units_left_) {
      units_left_ -= units;
      return true;
    }
    is_too_large_ = true;
    problem_ = Concat("too many values: they need more than ", units_max_, " units of ", kUnitBytes,
                      " bytes");
    code = boost::json::error::exception;
    return false;
  }
  bool Begin(bool is_object) {
    open_.emplace_back().is_object = is_object;
    return true;
  }
  bool AddText(View part) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool AddNumber(View part, Code& code) {
    if (!Charge(1, code)) return false;
    AddText(part);
    const std::string number = std::exchange(text_, {});
    if (number.find_first_of(".eE") != std::string::npos) {
      const double parsed = ParseFloat(number).value_or(0);
      if (!std::isfinite(parsed)) return Refuse("the number exceeds the range of a double", code);
      return Add(Value::Float(parsed));
    }
    const std::optional<std::int64_t> integer = ParseInteger(number);
    if (integer) return Add(Value::Int(*integer));
    return Refuse("the integer exceeds 64 bits", code);
  }
  bool Refuse(std::string_view problem, Code& code) {
    problem_ = problem;
    code = boost::json::error::not_exact;
    return false;
  }
  bool Add(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().dict.Set(Value::String(std::move(open_.back().key)), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  std::uint64_t units_left_;
  const std::uint64_t units_max_;
  bool is_too_large_ = false;
  std::vector<Unfinished> open_;
  std::string text_;  // the parts of a string, key or number so far
  std::string problem_;
  Value root_;
};

std::string PlaceOf(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line = 1 + static_cast<std::size_t>(std::ranges::count(before, '\n'));
  const std::size_t line_begin = before.rfind('\n') + 1;  // 0 if there is no line end
  return Concat("JSON line ", line, ", column ", offset - line_begin + 1, ": ");
}

}  // namespace

Result<Value> ParseJson(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return Fail(Code::kTooLarge, "JSON: ", text.size(), " bytes, at most ", limits.bytes_max);
  }
  boost::json::parse_options options;
  options.max_depth = limits.nesting_max;
  boost::json::basic_parser<ValueBuilder> parser(options, limits.units_max);
  boost::json::error_code code;
  try {
    const std::size_t read = parser.write_some(false, text.data(), text.size(), code);
    if (!code && read < text.size()) code = boost::json::error::extra_data;
    if (!code) return parser.handler().TakeRoot();
    const bool is_limit = code == boost::json::error::too_deep || parser.handler().is_too_large();
    const Code kind = is_limit ? Code::kTooLarge : Code::kInvalidArgument;
    const std::string& problem = parser.handler().problem();
    return Fail(kind, PlaceOf(text, read), problem.empty() ? code.message() : problem);
  } catch (const std::bad_alloc&) {
    return Fail(Code::kNoSpace, "JSON: no memory");
  }
}

}  // namespace kvd
