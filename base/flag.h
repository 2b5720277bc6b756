// Flag: one row of a program's table of flags: its names, its help text, and how its value is read.
// The tables of kvd, kvd-http and kvctl consist of these rows; the command line is parsed by them
// (flag_table.h), and the help text is printed from them (flag_help.h).
//
// The tables are constant data. Target: what the flags fill, such as the settings of a program.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kvd {

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
  // A number from 0 to 2^64 - 1.
  Status Unsigned(std::uint64_t& number) const;
  Status Real(float& number) const;
  // A number from 0 to 1.
  Status Share(double& share) const;
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

template <class Target>
struct Flag {
  // Separated by spaces, the ones of the help text last. A name without "-" is that of an argument
  // that stands by itself.
  std::string_view names;
  std::string_view negatives = {};    // names that switch it off
  std::string_view argument = {};     // the value's name in the help text; empty: a switch
  std::string_view environment = {};  // the variable that gives the same value; empty: none
  std::string_view help = {};
  Status (*take)(Target& target, const FlagValue& value) = nullptr;
  std::string_view refused = {};  // what the program lacks; empty: the flag is not refused
  // Why the flag has no effect, if it is neither used nor refused; empty: nothing to say.
  std::string_view ignored = {};
  std::string_view hidden = {};    // further names, which the help text does not list
  std::string_view needs = {};     // a flag without which this one is an error
  std::string_view excludes = {};  // a flag that cannot be given together with this one
  bool is_required = false;
  bool is_list = false;  // of an argument: it may be given several times, and is the last one

  bool is_argument() const { return !names.starts_with('-'); }
};

// A row with a value, and one without.
template <class Target>
constexpr Flag<Target> ValueFlag(std::string_view names, std::string_view argument,
                                 std::string_view help, Status (*take)(Target&, const FlagValue&)) {
  return {.names = names, .argument = argument, .help = help, .take = take};
}
template <class Target>
constexpr Flag<Target> SwitchFlag(std::string_view names, std::string_view help,
                                  Status (*take)(Target&, const FlagValue&)) {
  return {.names = names, .help = help, .take = take};
}

// Rows under one heading of the help text.
template <class Target>
struct FlagTopic {
  std::string_view title;
  std::span<const Flag<Target>> flags;
};

// Functions of rows of a flag table that fill one member: TakeNumber<1, 64, &Options::count>, or
// TakeSwitch<&Options::run, &RunOptions::is_quiet> for a member of a member.

namespace flag_member {

template <class Class, class Member>
Class ClassOf(Member Class::*);

}  // namespace flag_member

template <auto first, auto... rest>
auto& MemberOf(auto& target) {
  if constexpr (sizeof...(rest) == 0) {
    return target.*first;
  } else {
    return MemberOf<rest...>(target.*first);
  }
}

// The class of which `first` is a member.
template <auto first>
using TargetOf = decltype(flag_member::ClassOf(first));

template <auto first, auto... rest>
Status TakeSwitch(TargetOf<first>& target, const FlagValue& value) {
  MemberOf<first, rest...>(target) = value.is_on;
  return {};
}

// A switch whose only name is negative.
template <auto first, auto... rest>
Status TakeNegative(TargetOf<first>& target, const FlagValue&) {
  MemberOf<first, rest...>(target) = false;
  return {};
}

template <auto first, auto... rest>
Status TakeText(TargetOf<first>& target, const FlagValue& value) {
  MemberOf<first, rest...>(target) = std::string(value.text);
  return {};
}

// A text that is not empty.
template <auto first, auto... rest>
Status TakeName(TargetOf<first>& target, const FlagValue& value) {
  std::string text;
  KVD_CHECK_OK(value.NonEmpty(text));
  MemberOf<first, rest...>(target) = std::move(text);
  return {};
}

// One of several texts.
template <auto first, auto... rest>
Status TakeMore(TargetOf<first>& target, const FlagValue& value) {
  MemberOf<first, rest...>(target).emplace_back(value.text);
  return {};
}

template <std::int64_t least, std::int64_t most, auto first, auto... rest>
Status TakeNumber(TargetOf<first>& target, const FlagValue& value) {
  return value.Number(MemberOf<first, rest...>(target), least, most);
}

template <auto first, auto... rest>
Status TakeUnsigned(TargetOf<first>& target, const FlagValue& value) {
  return value.Unsigned(MemberOf<first, rest...>(target));
}

template <auto first, auto... rest>
Status TakeReal(TargetOf<first>& target, const FlagValue& value) {
  return value.Real(MemberOf<first, rest...>(target));
}

template <auto first, auto... rest>
Status TakeShare(TargetOf<first>& target, const FlagValue& value) {
  return value.Share(MemberOf<first, rest...>(target));
}

}  // namespace kvd
