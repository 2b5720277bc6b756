// kvctl as a user runs it, against a daemon's socket.
#pragma once

#include <string>

namespace kvd::test {

struct KvctlOutcome {
  int exit_code = -1;
  std::string output;  // standard output and error
};

class KvctlProcess {
 public:
  explicit KvctlProcess(std::string socket_path) : socket_path_(std::move(socket_path)) {}
  // The arguments as a shell reads them.
  KvctlOutcome Run(const std::string& arguments) const;

 private:
  const std::string socket_path_;
};

// The text of a field of flat JSON, quotes included; empty: there is none.
std::string JsonField(const std::string& json, const std::string& field);

}  // namespace kvd::test
