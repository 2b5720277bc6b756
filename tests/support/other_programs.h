// Programs and packages that single tests use and that the build does not need. A test that misses
// one is skipped, and the reason names it and the command that installs or repairs it.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace kvd::test {

// Debian's interpreter, which has the modules of Debian's packages.
inline constexpr const char* kPython = "/usr/bin/python3";

// Runs a shell command. Returns its exit status, -1 if a signal ended it, and what it printed.
inline std::pair<int, std::string> RunCommand(const std::string& command) {
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) return {-1, "popen failed"};
  std::string output;
  std::array<char, 4096> portion{};
  while (const std::size_t count = std::fread(portion.data(), 1, portion.size(), pipe)) {
    output.append(portion.data(), count);
  }
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

inline std::string MissingText(std::string_view what) {
  return std::string(what) + ": make bootstrap-web installs it";
}

// The functions below return the reason to skip a test, or an empty string if nothing is missing.

// Tries `NAME --version`, which a program that is only half installed does not survive.
inline std::string MissingProgram(const std::string& name) {
  if (RunCommand(name + " --version").first == 0) return {};
  return MissingText(name + " --version does not run");
}

// Imports a module of Debian's Python. `version`: empty, or the one that the test needs.
inline std::string MissingPythonModule(const std::string& name, const std::string& version = {}) {
  const std::string printed = version.empty() ? "" : name + ".__version__";
  const auto [status, output] =
      RunCommand(std::string(kPython) + " -c 'import " + name + "; print(" + printed + ")'");
  if (status != 0) {
    return MissingText(std::string(kPython) + " cannot import " + name + " (python3-" + name + ")");
  }
  const std::string found = output.substr(0, output.find('\n'));
  if (version.empty() || found == version) return {};
  return std::string(kPython) + " has " + name + " " + found + ", and the test needs Debian 12's " +
         version;
}

// Compares node_modules of a folder with its package-lock.json.
inline std::string MissingNpmPackage(const std::string& folder) {
  auto [status, output] = RunCommand("tools/check/npm_packages " + folder);
  if (status == 0) return {};
  return MissingText(output.substr(0, output.find('\n')));
}

}  // namespace kvd::test
