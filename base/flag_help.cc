#include "base/flag_help.h"

#include <algorithm>

namespace kvd {

void AppendHelpLine(const HelpLayout& layout, std::string_view name, std::string_view text,
                    std::string& help) {
  help.append("  ") += name;
  if (text.empty()) {
    help += '\n';
    return;
  }
  const std::size_t left = 2 + name.size();
  const auto new_line = [&] { help.append("\n").append(layout.column, ' '); };
  if (left + layout.gap > layout.column) {
    new_line();
  } else {
    help.append(layout.column - left, ' ');
  }
  std::size_t at = layout.column;  // the column of the next word
  while (!text.empty()) {
    const std::string_view word = layout.columns == 0 ? text : text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (at > layout.column && at + 1 + word.size() > layout.columns) {
      new_line();
      at = layout.column;
    }
    if (at > layout.column) {
      help += ' ';
      ++at;
    }
    help += word;
    at += word.size();
  }
  help += '\n';
}

std::string FlagNames(const HelpLayout& layout, std::string_view names, std::string_view negatives,
                      std::string_view argument) {
  std::string text;
  const auto add = [&](std::string_view name) {
    text.append(text.empty() ? std::string_view() : layout.between_names) += name;
  };
  ForEachName(names, add);
  ForEachName(negatives, add);
  if (!argument.empty()) text.append(" ") += argument;
  return text;
}

}  // namespace kvd
