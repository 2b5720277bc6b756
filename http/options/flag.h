// Flag: one row of the table of flags, with llama-server's names, and what kvd-http does with it.
//
// The tables are constant data. A flag is used (`take` fills the settings), ignored (it is about
// hardware or about something that kvd does by itself; one line on standard error says so), or
// refused (it asks for something that kvd lacks).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/options/settings.h"

namespace kvd::http {

// The value of a flag, as the command line or the environment gives it. Each function parses it and
// returns kInvalidArgument, naming the flag, the value and what is allowed.
struct FlagValue {
  std::string_view name;       // as it was given: "-c", or "LLAMA_ARG_CTX_SIZE"
  std::string_view text = {};  // empty for a switch
  bool is_on = true;           // false: the negative name of a switch was given

  // T: a signed or unsigned integer.
  template <class T>
  Status Number(T& number, std::int64_t least, std::int64_t most) const {
    KVD_TRY(const std::int64_t parsed, Integer(least, most));
    number = static_cast<T>(parsed);
    return {};
  }
  Result<std::int64_t> Integer(std::int64_t least, std::int64_t most) const;
  Status Real(float& number) const;
  Status NonEmpty(std::string& target) const;
  // "on", "enabled", "true", "1" and their opposites.
  Result<bool> Truth() const;
  // `choices`: the allowed texts, separated by spaces. Returns the index of the given one.
  Result<std::size_t> Choice(std::string_view choices) const;
  Result<std::string> FileText() const;
  // Names between commas, without spaces around them and without empty ones.
  std::vector<std::string> List() const;

  std::unexpected<Error> Wrong(std::string_view what_is_needed) const;
};

struct Flag {
  std::string_view names;             // separated by spaces, the ones of the help text last
  std::string_view negatives = {};    // names that switch it off
  std::string_view argument = {};     // the value's name in the help text; empty: a switch
  std::string_view environment = {};  // the variable that gives the same value; empty: none
  std::string_view help = {};
  Status (*take)(Settings& settings, const FlagValue& value) = nullptr;
  std::string_view refused = {};  // what kvd lacks; empty: the flag is not refused
  // Why the flag has no effect, if it is neither used nor refused; empty: nothing to say.
  std::string_view ignored = {};
};

// The rows by topic, in the order of the help text.
std::span<const Flag> ModelFlags();
std::span<const Flag> ServerFlags();
std::span<const Flag> ChatFlags();
std::span<const Flag> SamplingFlags();
std::span<const Flag> IgnoredFlags();
std::span<const Flag> RefusedFlags();

}  // namespace kvd::http
