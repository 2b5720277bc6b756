#include "tests/golden/run_golden.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace kvd::test {

Outcome RunGolden(const std::string& arguments, const std::string& tool) {
  const char* folder = std::getenv("KVD_BIN");
  const std::string command = std::string(folder == nullptr ? "build/release/bin" : folder) + "/" +
                              tool + " " + arguments + " 2>&1";
  Outcome outcome;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.text.append(buffer.data(), got);
  outcome.status = WEXITSTATUS(::pclose(pipe));
  return outcome;
}

}  // namespace kvd::test
