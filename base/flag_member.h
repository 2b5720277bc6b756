// Functions of rows of a flag table that fill one member: TakeNumber<1, 64, &Options::count>, or
// TakeSwitch<&Options::run, &RunOptions::is_quiet> for a member of a member.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/flag.h"

namespace kvd {
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
