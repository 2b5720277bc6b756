#include "text/jinja/format_percent.h"

#include <utility>

#include "base/utf8.h"
#include "text/characters.h"
#include "text/jinja/format_number.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/number_text.h"

namespace kvd::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Interpreter* interpreter, const Value& format, const Value& values)
      : interpreter_(*interpreter),
        values_(values),
        is_safe_(format.is_safe_string()),
        rest_(format.view()) {}

  Result<std::string> Run() {
    while (!rest_.empty()) {
      const std::size_t plain = std::min(rest_.find('%'), rest_.size());
      text_ += rest_.substr(0, plain);
      rest_.remove_prefix(plain);
      if (rest_.empty()) break;
      rest_.remove_prefix(1);
      KVD_CHECK_OK(ReadDirective());
      KVD_CHECK_OK(interpreter_.budget().CheckRoom(text_.size()));
    }
    if (!AllowsUnused() && used_ < ValueCount()) {
      return Fail(Code::kInvalidArgument, "not all arguments converted during string formatting");
    }
    return std::move(text_);
  }

 private:
  // Python allows unused values if the value could be a mapping, which it asks by whether it has
  // items.
  bool AllowsUnused() const {
    return values_.is_dict() || values_.is_list() || values_.is_undefined() ||
           (values_.is_object() && ScriptOf(values_).has_items());
  }
  std::size_t ValueCount() const { return values_.is_tuple() ? values_.items().size() : 1; }

  Result<Value> NextValue() {
    if (is_mapped_) return mapped_;
    if (used_ >= ValueCount()) {
      return Fail(Code::kInvalidArgument, "not enough arguments for format string");
    }
    const std::size_t index = used_++;
    return values_.is_tuple() ? values_.items()[index] : values_;
  }

  // A number of the directive, or * for the next value.
  Result<std::int64_t> ReadNumber() {
    if (rest_.starts_with('*')) {
      rest_.remove_prefix(1);
      KVD_TRY(const Value value, NextValue());
      if (!value.is_integral()) return Fail(Code::kInvalidArgument, "* wants int");
      return value.integer();
    }
    std::size_t end = 0;
    while (end < rest_.size() && rest_[end] >= '0' && rest_[end] <= '9') ++end;
    const std::optional<std::int64_t> number = ParseInteger(end == 0 ? "0" : rest_.substr(0, end));
    if (!number) return Fail(Code::kUnsupported, "too many digits in a format string");
    rest_.remove_prefix(end);
    return *number;
  }

  Status ReadKey() {
    std::size_t end = 0;
    for (int open = 0; end < rest_.size(); ++end) {
      open += rest_[end] == '(' ? 1 : rest_[end] == ')' ? -1 : 0;
      if (open == 0) break;
    }
    if (end == rest_.size()) return Fail(Code::kInvalidArgument, "incomplete format key");
    if (!values_.is_dict()) return Fail(Code::kInvalidArgument, "format requires a mapping");
    const std::string_view key = rest_.substr(1, end - 1);
    const Value& found = values_.dict().Find(key);
    if (found.is_missing()) return Fail(Code::kInvalidArgument, "KeyError: ", QuoteString(key));
    mapped_ = found;
    is_mapped_ = true;
    rest_.remove_prefix(end + 1);
    return {};
  }

  Status ReadDirective() {
    is_mapped_ = false;
    if (rest_.starts_with('(')) KVD_CHECK_OK(ReadKey());
    FormatSpec spec;
    bool is_left = false, is_zero = false;
    for (; !rest_.empty() && std::string_view("-+ #0").find(rest_[0]) != std::string_view::npos;
         rest_.remove_prefix(1)) {
      const char flag = rest_[0];
      if (flag == '-') is_left = true;
      if (flag == '0') is_zero = true;
      if (flag == '#') spec.is_alternate = true;
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
    }
    KVD_TRY(spec.width, ReadNumber());
    if (spec.width < 0) {
      is_left = true;
      if (__builtin_sub_overflow(std::int64_t{0}, spec.width, &spec.width)) {
        return Fail(Code::kUnsupported, "too many digits in a format string");
      }
    }
    if (rest_.starts_with('.')) {
      rest_.remove_prefix(1);
      KVD_TRY(const std::int64_t precision, ReadNumber());
      spec.precision = std::max<std::int64_t>(precision, 0);
    }
    while (rest_.starts_with('l') || rest_.starts_with('h') || rest_.starts_with('L')) {
      rest_.remove_prefix(1);
    }
    if (rest_.empty()) return Fail(Code::kInvalidArgument, "incomplete format");
    spec.type = rest_[0];
    rest_.remove_prefix(1);
    spec.align = is_left ? '<' : '>';
    if (spec.type == '%') {
      text_ += '%';
      return {};
    }
    KVD_TRY(const Value value, NextValue());
    if (std::string_view("sra").find(spec.type) != std::string_view::npos) {
      return AppendText(value, spec);
    }
    if (spec.type == 'c') return AppendCharacter(value, spec);
    return AppendNumber(value, spec, is_zero && !is_left);
  }

  Status AppendFormatted(const Value& value, const FormatSpec& spec) {
    KVD_TRY(const std::string formatted, FormatValue(interpreter_, value, spec));
    text_ += formatted;
    return {};
  }

  Status AppendText(const Value& value, FormatSpec spec) {
    std::string text;
    if (spec.type == 's') {
      KVD_TRY(text, Str(interpreter_, value));
    } else {
      KVD_TRY(text, Repr(interpreter_, value));
    }
    if (spec.type == 'a') text = AsciiOf(text);
    if (is_safe_ && !(spec.type == 's' && value.is_safe_string())) text = EscapeHtml(text);
    spec.type = 's';
    spec.sign = '-';
    spec.is_alternate = false;
    return AppendFormatted(Value::String(std::move(text)), spec);
  }

  static std::string AsciiOf(const std::string& text) {
    const std::string quoted = QuoteString(text, true);
    std::string ascii;
    for (std::size_t i = 1; i + 1 < quoted.size(); ++i) {
      // Only characters that are not ASCII are escaped once more.
      if (quoted[i] == '\\' && (quoted[i + 1] == '\\' || quoted[i + 1] == '\'')) ++i;
      ascii += quoted[i];
    }
    return ascii;
  }

  Status AppendCharacter(const Value& value, FormatSpec spec) {
    spec.type = 's';
    spec.sign = '-';
    spec.is_alternate = false;
    spec.precision.reset();
    if (value.is_string() && value.text().code_points == 1) return AppendFormatted(value, spec);
    if (!value.is_integral()) return Fail(Code::kInvalidArgument, "%c requires int or char");
    if (value.integer() < 0 || value.integer() > 0x10ffff) {
      return Fail(Code::kInvalidArgument, "%c arg not in range(0x110000)");
    }
    std::string character;
    AppendUtf8(static_cast<std::uint32_t>(value.integer()), character);
    return AppendFormatted(Value::String(std::move(character)), spec);
  }

  Status AppendNumber(const Value& value, FormatSpec spec, bool is_zero) {
    if (is_zero) {
      spec.fill.assign(1, '0');
      spec.align = '=';
    }
    if (std::string_view("eEfFgG").find(spec.type) != std::string_view::npos) {
      if (value.is_undefined()) return FailUndefined(value);
      if (!value.is_number()) {
        return Fail(Code::kInvalidArgument, "must be real number, not ", TypeName(value));
      }
      return AppendFormatted(Value::Float(value.number()), spec);
    }
    if (std::string_view("diuoxX").find(spec.type) == std::string_view::npos) {
      return Fail(Code::kInvalidArgument, "unsupported format character '", spec.type, "'");
    }
    return AppendInteger(value, std::move(spec));
  }

  Status AppendInteger(const Value& value, FormatSpec spec) {
    const bool is_decimal = std::string_view("diu").find(spec.type) != std::string_view::npos;
    Value integer = value;
    if (value.is_undefined()) return FailUndefined(value);
    if (value.is_float() && is_decimal) {
      const double whole = value.real();
      if (!(whole > -9.2e18 && whole < 9.2e18)) {
        return Fail(Code::kUnsupported, "an integer exceeds 64 bits");
      }
      integer = Value::Int(static_cast<std::int64_t>(whole));
    } else if (!value.is_integral()) {
      return Fail(Code::kInvalidArgument, "%", spec.type, " format: a number is required, not ",
                  TypeName(value));
    }
    if (is_decimal) spec.type = 'd';
    const std::int64_t digits_min = spec.precision.value_or(0);
    spec.precision.reset();
    if (digits_min == 0) return AppendFormatted(integer, spec);
    // A precision is the least number of digits.
    if (digits_min > kPrecisionMax) {
      return Fail(Code::kUnsupported, "a precision of more than ", kPrecisionMax);
    }
    FormatSpec digits_spec = spec;
    digits_spec.width = 0;
    KVD_TRY(std::string digits, FormatValue(interpreter_, integer, digits_spec));
    const std::size_t prefix =
        (digits.find_first_of("+- ") == 0 ? 1u : 0u) + (spec.is_alternate && !is_decimal ? 2u : 0u);
    const auto wanted = static_cast<std::size_t>(digits_min) + prefix;
    if (digits.size() < wanted) digits.insert(prefix, wanted - digits.size(), '0');
    FormatSpec padding;
    padding.fill = spec.fill;
    padding.align = spec.align == '=' ? '>' : spec.align;
    padding.width = spec.width;
    padding.type = 's';
    return AppendFormatted(Value::String(std::move(digits)), padding);
  }

  Interpreter& interpreter_;
  const Value& values_;
  const bool is_safe_;
  std::string_view rest_;
  std::string text_;
  std::size_t used_ = 0;  // values
  bool is_mapped_ = false;
  Value mapped_;  // the value of the directive's key
};

}  // namespace

Result<Value> FormatPercent(Interpreter& interpreter, const Value& format, const Value& values) {
  KVD_TRY(std::string text, PercentFormatter(&interpreter, format, values).Run());
  return interpreter.budget().String(std::move(text), format.is_safe_string());
}

}  // namespace kvd::jinja
