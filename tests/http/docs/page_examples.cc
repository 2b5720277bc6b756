#include "tests/http/docs/page_examples.h"

#include <sstream>

namespace kvd::http::test {
namespace {

constexpr std::string_view kAny = "...";

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  return all;
}

}  // namespace

std::vector<PageExample> ReadExamples(std::string_view page) {
  std::vector<PageExample> examples;
  std::vector<std::string> flags;
  std::istringstream lines{std::string(page)};
  std::string kind;  // of the open block
  std::string block;
  std::size_t number = 0;
  std::size_t first = 0;
  bool is_open = false;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.starts_with("```")) {
      if (!is_open) continue;
      const bool is_joined = kind == "json";
      block += is_joined ? std::string(Trimmed(line)) : line + "\n";
      continue;
    }
    if (!is_open) {
      kind = line.substr(3);
      block.clear();
      first = number + 1;
    } else if (kind == "sh server") {
      flags = Words(block);
      flags.erase(flags.begin());
    } else if (kind == "sh" && block.starts_with("curl")) {
      examples.push_back({.server_flags = flags, .command = block, .reply = {}, .line = first});
    } else if ((kind == "json" || kind == "text") && !examples.empty()) {
      if (examples.back().reply.empty()) examples.back().reply = block;
    }
    is_open = !is_open;
  }
  return examples;
}

bool Matches(std::string_view text, std::string_view pattern) {
  text = Trimmed(text);
  pattern = Trimmed(pattern);
  bool is_first = true;
  while (true) {
    const std::size_t at = pattern.find(kAny);
    const std::string_view piece = pattern.substr(0, at);
    if (at == pattern.npos) return is_first ? text == piece : text.ends_with(piece);
    const std::size_t found = text.find(piece);
    if (found == text.npos || (is_first && found != 0)) return false;
    text.remove_prefix(found + piece.size());
    pattern.remove_prefix(at + kAny.size());
    is_first = false;
  }
}

}  // namespace kvd::http::test
