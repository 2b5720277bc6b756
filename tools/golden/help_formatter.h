// HelpFormatter: the form of the help text, for CLI11. Lines have at most 100
// columns; a flag is shown with the name of its value, and what a flag needs or excludes is a
// sentence after its text.
//
//   app.formatter(std::make_shared<HelpFormatter>());
//
// Only the file that declares a program's command line includes this header.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

namespace kvd {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string name = make_option_name(option, is_positional);
    if (!is_positional && option->get_type_size() != 0) name += " " + TypeName(*option);
    std::string text = option->get_description();
    if (option->get_required()) text += is_positional ? "" : " Required.";
    for (const CLI::Option* needed : option->get_needs())
      text += " Only with " + needed->get_name() + ".";
    for (const CLI::Option* excluded : option->get_excludes())
      text += " Not with " + excluded->get_name() + ".";
    return Lines(name, text);
  }

  // The names of a flag. CLI11's text of a flag that sets a value to false has "{false}" at its
  // end.
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional) return option->get_name(true, false);
    std::vector<std::string> names;
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return CLI::detail::join(names, ",");
  }

  std::string make_subcommand(const CLI::App* sub) const override {
    return Lines(sub->get_display_name(true), sub->get_description());
  }

 private:
  // CLI11 adds the name of a check to the type, after a colon.
  static std::string TypeName(const CLI::Option& option) {
    const std::string name = option.get_type_name();
    return name.substr(0, name.find(':'));
  }

  static constexpr std::size_t kColumns = 100;
  static constexpr std::size_t kTextColumn = 30;

  // `name`, and `text` in a column of its own.
  static std::string Lines(const std::string& name, const std::string& text) {
    std::string lines = "  " + name;
    // The column of the next word.
    std::size_t column = lines.size() + 1;
    const auto new_line = [&] {
      lines += "\n" + std::string(kTextColumn, ' ');
      column = kTextColumn;
    };
    if (column > kTextColumn) {
      new_line();
    } else {
      lines.append(kTextColumn - lines.size(), ' ');
      column = kTextColumn;
    }
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      if (column > kTextColumn && column + 1 + word.size() > kColumns) new_line();
      if (column > kTextColumn) {
        lines += " ";
        ++column;
      }
      lines += word;
      column += word.size();
    }
    return lines + "\n";
  }
};

}  // namespace kvd
