// Checks that the files and functions that docs/architecture.md names exist, and that the links in
// README.md and docs/ lead to files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace kvd {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = fs::current_path();

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::smatch> Matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), {}};
}

// A quoted name in the page is a path, or a function with "()".
TEST(ArchitecturePageTest, NamesFilesAndFunctionsThatExist) {
  const std::string page = Read(kRoot / "docs/architecture.md");
  ASSERT_FALSE(page.empty());
  const std::regex quoted("`([A-Za-z0-9_/]+\\.(?:h|cc|md))`|`([A-Za-z_]+)\\(\\)`");
  std::string file;
  std::size_t files = 0;
  std::size_t functions = 0;
  for (const std::smatch& match : Matches(page, quoted)) {
    if (match[1].matched) {
      file = match[1];
      ++files;
      EXPECT_TRUE(fs::exists(kRoot / file)) << file;
      continue;
    }
    // The function must be in the file that the page has named last, or in its header or source.
    ++functions;
    const fs::path stem = (kRoot / file).replace_extension();
    const std::string sources = Read(stem.string() + ".cc") + Read(stem.string() + ".h");
    EXPECT_TRUE(std::regex_search(sources, std::regex("\\b" + match[2].str() + "\\(")))
        << match[2] << "() in " << file;
  }
  EXPECT_GE(files, 30u);
  EXPECT_GE(functions, 20u);
}

TEST(DocumentsTest, LinksLeadToFiles) {
  std::vector<fs::path> pages = {kRoot / "README.md", kRoot / "shm/README.md",
                                 kRoot / "bench/README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  std::size_t links = 0;
  for (const fs::path& page : pages) {
    const std::string text = Read(page);
    ASSERT_FALSE(text.empty()) << page;
    for (const std::smatch& match : Matches(text, std::regex("\\]\\(([^)#]+)(?:#[^)]*)?\\)"))) {
      const std::string target = match[1];
      if (target.starts_with("http")) continue;
      ++links;
      EXPECT_TRUE(fs::exists(page.parent_path() / target)) << page << " links to " << target;
    }
  }
  EXPECT_GE(links, 20u);
}

}  // namespace
}  // namespace kvd
