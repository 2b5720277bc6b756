// The lines of help texts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/flag.h"

namespace kvd {

struct HelpLayout {
  std::size_t column = 30;    // where the texts begin
  std::size_t gap = 1;        // least number of spaces between a name and its text
  std::size_t columns = 100;  // where a text is broken; 0: nowhere
  std::string_view between_names = ",";
};

// Calls `call` with each name of a list between spaces.
template <class Call>
void ForEachName(std::string_view names, const Call& call) {
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(' '));
    call(name);
    names.remove_prefix(std::min(names.size(), name.size() + 1));
  }
}

// Appends a line with `name` and, in a column of its own, `text`.
void AppendHelpLine(const HelpLayout& layout, std::string_view name, std::string_view text,
                    std::string& help);

// "-c,--cells N": the names of a flag and that of its value.
std::string FlagNames(const HelpLayout& layout, std::string_view names, std::string_view negatives,
                      std::string_view argument);

template <class Target>
void AppendFlagHelp(const HelpLayout& layout, const Flag<Target>& flag, std::string& help) {
  std::string text(flag.help);
  if (flag.is_required && !flag.is_argument()) text += " Required.";
  if (!flag.needs.empty()) text.append(" Only with ").append(flag.needs) += '.';
  if (!flag.excludes.empty()) text.append(" Not with ").append(flag.excludes) += '.';
  if (!flag.environment.empty() && !text.empty()) {
    text.append(" (").append(flag.environment) += ')';
  }
  const std::string_view argument = flag.is_argument() ? std::string_view() : flag.argument;
  AppendHelpLine(layout, FlagNames(layout, flag.names, flag.negatives, argument), text, help);
}

}  // namespace kvd
