// The folder ../shared, which some tests read and which is not part of the project.
#pragma once

#include <filesystem>
#include <string>

namespace kvd::test {

// Returns the reason to skip a test that needs a folder of ../shared, or an empty string if the
// folder is there. tools/check/list_skips finds the tests that lack the folder by this text.
inline std::string MissingShared(const std::string& folder) {
  const std::string path = "../shared/" + folder;
  return std::filesystem::is_directory(path) ? std::string() : "needs " + path;
}

}  // namespace kvd::test
