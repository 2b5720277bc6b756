// Runs kvd-golden as a program.
#pragma once

#include <string>

namespace kvd::test {

struct Outcome {
  int status = -1;
  std::string text;  // standard output and standard error
};

// Runs the program `tool` of the folder $KVD_BIN.
Outcome RunGolden(const std::string& arguments, const std::string& tool = "kvd-golden");

}  // namespace kvd::test
