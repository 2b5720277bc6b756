// FlagTable: the flags of a command line by their names, and the reader of its arguments.
//
// Underscores in the names of long flags are read as hyphens. A value follows as the next argument,
// or after "=" ("--port=80").
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/flag.h"
#include "base/flag_help.h"

namespace kvd {

template <class Target>
class FlagTable {
 public:
  // `attaches`: flags of one letter may be given together, the last one with its value behind it
  // ("-fn5"), and longer names with one "-" may have "=". Errors then name a flag by all its names.
  explicit FlagTable(bool attaches) : attaches_(attaches) {}

  void Add(std::span<const Flag<Target>> flags) {
    for (const Flag<Target>& flag : flags) {
      if (flag.is_argument()) continue;
      const auto add = [&](bool is_on) {
        return [this, &flag, is_on](std::string_view name) { by_name_[name] = {&flag, is_on}; };
      };
      ForEachName(flag.names, add(true));
      ForEachName(flag.hidden, add(true));
      ForEachName(flag.negatives, add(false));
    }
  }

  // Calls take(flag, value) for the flags in `argument`. `next`: the argument after it, or null.
  // Returns the number of arguments that were read: 2 with a value in the next one, 0 if no flag
  // has the name. Errors: kInvalidArgument: the value is missing; those of `take`.
  template <class Take>
  Result<std::size_t> Read(std::string_view argument, const char* next, const Take& take) const {
    auto found = by_name_.find(Canonical(argument));
    std::optional<std::string_view> attached;
    const std::size_t equals = argument.find('=');
    const bool may_have_value = argument.starts_with("--") || (attaches_ && equals > 2);
    if (found == by_name_.end() && equals != std::string_view::npos && may_have_value) {
      found = by_name_.find(Canonical(argument.substr(0, equals)));
      if (found != by_name_.end() && found->second.flag->argument.empty()) found = by_name_.end();
      attached = argument.substr(equals + 1);
    }
    if (found == by_name_.end()) {
      const bool is_short = argument.size() > 2 && argument[0] == '-' && argument[1] != '-';
      return attaches_ && is_short ? ReadTogether(argument, next, take)
                                   : Result<std::size_t>(std::size_t{0});
    }
    const auto& [name, entry] = *found;
    const Flag<Target>& flag = *entry.flag;
    FlagValue value{.name = name, .is_on = entry.is_on};
    const bool takes_next = !flag.argument.empty() && !attached;
    if (takes_next && next == nullptr && flag.refused.empty()) {
      return Fail(Code::kInvalidArgument,
                  attaches_ ? FlagNames({}, flag.names, {}, {}) : std::string(name),
                  ": the value is missing: ", flag.argument);
    }
    if (!flag.argument.empty()) value.text = attached ? *attached : next != nullptr ? next : "";
    KVD_CHECK_OK(take(flag, value));
    return takes_next ? std::size_t{2} : std::size_t{1};
  }

 private:
  struct Found {
    const Flag<Target>* flag = nullptr;
    bool is_on = true;
  };

  static std::string Canonical(std::string_view name) {
    std::string canonical(name);
    if (name.starts_with("--")) std::ranges::replace(canonical, '_', '-');
    return canonical;
  }

  // Reads flags of one letter behind one "-"; the last one may have its value behind it.
  template <class Take>
  Result<std::size_t> ReadTogether(std::string_view argument, const char* next,
                                   const Take& take) const {
    const auto found = by_name_.find(argument.substr(0, 2));
    if (found == by_name_.end()) return std::size_t{0};
    const auto& [name, entry] = *found;
    const std::string_view rest = argument.substr(2);
    FlagValue value{.name = name, .is_on = entry.is_on};
    if (!entry.flag->argument.empty()) {
      value.text = rest;
      KVD_CHECK_OK(take(*entry.flag, value));
      return std::size_t{1};
    }
    KVD_CHECK_OK(take(*entry.flag, value));
    return Read("-" + std::string(rest), next, take);
  }

  const bool attaches_;
  std::map<std::string_view, Found> by_name_;
};

// The flags that a command line has given, and what they need of each other.
template <class Target>
class GivenFlags {
 public:
  void Add(const Flag<Target>& flag) {
    ForEachName(flag.names, [this](std::string_view name) { names_.insert(name); });
  }
  bool Has(std::string_view name) const { return names_.contains(name); }
  bool Has(const Flag<Target>& flag) const {
    return Has(flag.names.substr(0, flag.names.find(' ')));
  }

  // Errors: kInvalidArgument: a flag is missing, or two exclude each other.
  Status Check(std::span<const Flag<Target>> flags) const {
    for (const Flag<Target>& flag : flags) {
      const std::string_view name = flag.names.substr(flag.names.rfind(' ') + 1);
      if (!Has(flag)) {
        if (flag.is_required) return Fail(Code::kInvalidArgument, name, " is required");
        continue;
      }
      if (!flag.needs.empty() && !Has(flag.needs)) {
        return Fail(Code::kInvalidArgument, name, " requires ", flag.needs);
      }
      if (!flag.excludes.empty() && Has(flag.excludes)) {
        return Fail(Code::kInvalidArgument, name, " excludes ", flag.excludes);
      }
    }
    return {};
  }

 private:
  std::set<std::string_view> names_;
};

}  // namespace kvd
