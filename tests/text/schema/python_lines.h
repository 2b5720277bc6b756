// Reads the output of a Python program line by line.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace kvd::test {

// Calls `take` for each line of the command's output. Returns whether the command succeeded.
template <class Take>
bool ForEachLine(const std::string& command, const Take& take) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return false;
  char* line = nullptr;
  std::size_t capacity = 0;
  for (ssize_t got = 0; (got = ::getline(&line, &capacity, pipe)) > 0;)
    take(std::string_view(line, static_cast<std::size_t>(got)));
  std::free(line);
  const int status = ::pclose(pipe);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace kvd::test
