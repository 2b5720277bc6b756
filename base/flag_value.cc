#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>

#include "base/flag.h"
#include "base/text.h"

namespace kvd {
namespace {

constexpr std::array<std::string_view, 4> kTrue = {"on", "enabled", "true", "1"};
constexpr std::array<std::string_view, 4> kFalse = {"off", "disabled", "false", "0"};

// A sign that from_chars does not know.
std::string_view WithoutPlus(std::string_view text) {
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

std::string_view WithoutSpaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

}  // namespace

std::unexpected<Error> FlagValue::Wrong(std::string_view what_is_needed) const {
  return Fail(Code::kInvalidArgument, name, ": \"", text, "\" is not ", what_is_needed);
}

Result<std::int64_t> FlagValue::Integer(std::int64_t least, std::int64_t most) const {
  const std::string_view digits = WithoutPlus(text);
  std::int64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end && number >= least && number <= most) {
    return number;
  }
  return Wrong(Concat("a number from ", least, " to ", most));
}

Status FlagValue::Real(float& number) const {
  const std::string_view digits = WithoutPlus(text);
  float parsed_number = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, parsed_number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return Wrong("a number");
  number = parsed_number;
  return {};
}

Status FlagValue::Unsigned(std::uint64_t& number) const {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end) return {};
  return Wrong("a number from 0 to 18446744073709551615");
}

Status FlagValue::Share(double& share) const {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, share);
  const bool is_share = std::isfinite(share) && share >= 0 && share <= 1;
  if (parsed.ec == std::errc() && parsed.ptr == end && is_share) return {};
  return Wrong("a share from 0 to 1");
}

Status FlagValue::NonEmpty(std::string& target) const {
  if (text.empty()) return Fail(Code::kInvalidArgument, name, ": the value is empty");
  target = text;
  return {};
}

Result<bool> FlagValue::Truth() const {
  if (std::ranges::find(kTrue, text) != kTrue.end()) return true;
  if (std::ranges::find(kFalse, text) != kFalse.end()) return false;
  return Wrong("on or off");
}

Result<std::size_t> FlagValue::Choice(std::string_view choices) const {
  std::size_t index = 0;
  for (std::string_view rest = choices; !rest.empty(); ++index) {
    const std::string_view choice = rest.substr(0, rest.find(' '));
    if (choice == text) return index;
    rest.remove_prefix(std::min(rest.size(), choice.size() + 1));
  }
  return Wrong(Concat("one of: ", choices));
}

Result<std::string> FlagValue::FileText() const {
  std::ifstream file{std::string(text), std::ios::binary};
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.good() && !file.eof()) {
    return Fail(Code::kInvalidArgument, name, ": the file \"", text, "\" cannot be read");
  }
  return bytes;
}

std::vector<std::string> FlagValue::List() const {
  std::vector<std::string> parts;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (const std::string_view name_in_it = WithoutSpaces(part); !name_in_it.empty()) {
      parts.emplace_back(name_in_it);
    }
  }
  return parts;
}

}  // namespace kvd
