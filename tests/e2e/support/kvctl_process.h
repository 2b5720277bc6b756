// Runs kvctl with a daemon's socket, as a user does.
#pragma once

#include <string>

namespace kvd::test {

struct KvctlOutcome {
  int exit_code = -1;
  std::string output;  // standard output and standard error
};

class KvctlProcess {
 public:
  explicit KvctlProcess(std::string socket_path) : socket_path_(std::move(socket_path)) {}
  // Runs kvctl with the arguments, which a shell splits.
  KvctlOutcome Run(const std::string& arguments) const;

 private:
  const std::string socket_path_;
};

// Returns the value of a field of flat JSON as text, including quotes; empty: the field is missing.
std::string JsonField(const std::string& json, const std::string& field);

}  // namespace kvd::test
