// Checks that the programs and libraries are built with every hardening flag, and that a missing
// flag is noticed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/hardening/elf_hardening.h"

namespace kvd::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string BinaryFolder() {
  const char* const folder = std::getenv("KVD_BIN");
  return folder == nullptr ? "build/release/bin" : folder;
}
std::string Sample(const std::string& name) { return KVD_HARDENING_SAMPLES "/sample_" + name; }

TEST(HardeningTest, TheDaemonHasEveryHardeningFlag) {
  EXPECT_THAT(MissingHardening(BinaryFolder() + "/kvd", "main"), IsEmpty());
}

// The clients have only small stack frames, which are not probed, so that "stack_clash" leaves no
// trace.
TEST(HardeningTest, TheClientsHaveEveryHardeningFlag) {
  const auto but_large_frames = [](std::vector<std::string> missing) {
    std::erase(missing, "stack_clash");
    return missing;
  };
  EXPECT_THAT(but_large_frames(MissingHardening(BinaryFolder() + "/kvctl", "main")), IsEmpty());
  EXPECT_THAT(but_large_frames(MissingHardening(BinaryFolder() + "/kvd-demo", "main")), IsEmpty());
  EXPECT_THAT(
      but_large_frames(MissingHardening(BinaryFolder() + "/../lib/libkvd.so", "kvd_connect")),
      IsEmpty());
}

TEST(HardeningTest, AMissingFlagIsDetected) {
  EXPECT_THAT(MissingHardening(Sample("hardened"), "main"), IsEmpty());
  for (const char* const flag : {"pie", "relro", "bind_now", "plain_stack", "stack_protector",
                                 "fortify", "assertions", "control_flow", "stack_clash"}) {
    EXPECT_THAT(MissingHardening(Sample(std::string("without_") + flag), "main"),
                ElementsAre(flag));
  }
}

TEST(HardeningTest, AFileThatIsNoProgramDoesNotPass) {
  EXPECT_THAT(MissingHardening("/dev/null", "main"), ElementsAre("unreadable"));
  EXPECT_THAT(MissingHardening("README.md", "main"), ElementsAre("unreadable"));
}

}  // namespace
}  // namespace kvd::test
