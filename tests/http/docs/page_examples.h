// The examples of a page of documentation: commands with curl and the replies that the page shows.
//
// Of the page's code blocks the following ones count:
//
//   ```sh server    kvd-http FLAGS: the server of the examples that follow
//   ```sh           a command that begins with "curl": an example
//   ```json         the reply to the example before; its lines are joined without their indentation
//   ```text         the reply to the example before, with its line ends
//
// "..." in a reply stands for any bytes, also none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kvd::http::test {

struct PageExample {
  std::vector<std::string> server_flags;
  std::string command;
  std::string reply;
  std::size_t line = 0;  // of the command in the page
};

std::vector<PageExample> ReadExamples(std::string_view page);

// Returns whether `text` is `pattern`, in which "..." stands for any bytes. White space at the ends
// of both does not count.
bool Matches(std::string_view text, std::string_view pattern);

}  // namespace kvd::http::test
