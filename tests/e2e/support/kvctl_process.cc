#include "tests/e2e/support/kvctl_process.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "tools/daemon_process/daemon_process.h"

namespace kvd::test {

KvctlOutcome KvctlProcess::Run(const std::string& arguments) const {
  const std::string command =
      BinaryFolder() + "/kvctl --socket '" + socket_path_ + "' " + arguments + " 2>&1";
  KvctlOutcome outcome;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), got);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

std::string JsonField(const std::string& json, const std::string& field) {
  const std::string key = "\"" + field + "\":";
  const std::size_t at = json.find(key);
  if (at == std::string::npos) return {};
  const std::size_t begin = json.find_first_not_of(' ', at + key.size());
  if (begin == std::string::npos) return {};
  std::size_t end = begin;
  if (json[begin] == '"') {
    for (++end; end < json.size() && json[end] != '"'; ++end) {
      if (json[end] == '\\') ++end;
    }
    return json.substr(begin, end + 1 - begin);
  }
  end = json.find_first_of(",}]\n", begin);
  return json.substr(begin, end - begin);
}

}  // namespace kvd::test
