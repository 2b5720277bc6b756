#include "base/flag_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/flag.h"
#include "base/flag_help.h"

namespace kvd {
namespace {

using ::testing::ElementsAre;

struct Group {
  std::uint64_t salt = 0;
  double share = 0;
  float heat = 0;
};

struct Target {
  std::int32_t count = 0;
  bool is_on = false;
  bool is_kept = true;
  std::string name;
  std::vector<std::string> texts;
  Group group;
};

constexpr auto kFlags = std::to_array<Flag<Target>>({
    {.names = "file", .help = "A file.", .take = TakeText<&Target::name>},
    {.names = "-c --count",
     .argument = "N",
     .help = "A count.",
     .take = TakeNumber<1, 9, &Target::count>,
     .hidden = "-cc"},
    {.names = "-f --force",
     .negatives = "--no-force",
     .help = "A switch.",
     .take = TakeSwitch<&Target::is_on>,
     .needs = "--name"},
    SwitchFlag("--drop-it", "Another switch.", TakeNegative<&Target::is_kept>),
    {.names = "--name",
     .argument = "NAME",
     .environment = "NAME_VARIABLE",
     .help = "A name.",
     .take = TakeName<&Target::name>,
     .excludes = "--text"},
    ValueFlag("--text", "TEXT", "A text.", TakeMore<&Target::texts>),
    ValueFlag("--salt", "N", "A salt.", TakeUnsigned<&Target::group, &Group::salt>),
    ValueFlag("--share", "SHARE", "A share.", TakeShare<&Target::group, &Group::share>),
    ValueFlag("--heat", "NUMBER", "A number.", TakeReal<&Target::group, &Group::heat>),
    {.names = "--must", .help = "Needed.", .take = TakeSwitch<&Target::is_on>, .is_required = true},
});

class FlagTableTest : public ::testing::Test {
 protected:
  Status Parse(bool attaches, const std::vector<const char*>& arguments) {
    FlagTable<Target> table(attaches);
    table.Add(kFlags);
    target_ = {};
    given_ = {};
    for (std::size_t i = 0; i < arguments.size();) {
      const char* const next = i + 1 < arguments.size() ? arguments[i + 1] : nullptr;
      KVD_TRY(const std::size_t used,
              table.Read(arguments[i], next, [this](const Flag<Target>& flag, FlagValue value) {
                given_.Add(flag);
                return flag.take(target_, value);
              }));
      if (used == 0) return Fail(Code::kInvalidArgument, arguments[i], ": unknown");
      i += used;
    }
    return {};
  }
  std::string ErrorOf(bool attaches, const std::vector<const char*>& arguments) {
    const Status status = Parse(attaches, arguments);
    return status ? "no error" : status.error().message;
  }

  Target target_;
  GivenFlags<Target> given_;
};

TEST_F(FlagTableTest, AValueIsTheNextArgumentOrFollowsAnEqualsSign) {
  ASSERT_TRUE(Parse(false, {"--count", "3", "--text", "-x", "--text=b=c", "--name=n"}));
  EXPECT_EQ(target_.count, 3);
  EXPECT_THAT(target_.texts, ElementsAre("-x", "b=c"));
  EXPECT_EQ(target_.name, "n");
  ASSERT_TRUE(Parse(false, {"-c", "4", "-cc", "5", "--drop_it"}));
  EXPECT_EQ(target_.count, 5);
  EXPECT_FALSE(target_.is_kept);
}

TEST_F(FlagTableTest, TheLastOfASwitchAndItsNegativeNameCounts) {
  ASSERT_TRUE(Parse(false, {"--force", "--no-force"}));
  EXPECT_FALSE(target_.is_on);
  ASSERT_TRUE(Parse(false, {"--no-force", "-f"}));
  EXPECT_TRUE(target_.is_on);
}

TEST_F(FlagTableTest, FlagsOfOneLetterMayBeGivenTogetherWhereTheTableSaysSo) {
  ASSERT_TRUE(Parse(true, {"-fc7"}));
  EXPECT_TRUE(target_.is_on);
  EXPECT_EQ(target_.count, 7);
  ASSERT_TRUE(Parse(true, {"-fc", "8", "-cc=9"}));
  EXPECT_EQ(target_.count, 9);
  EXPECT_EQ(ErrorOf(true, {"-fx"}), "-fx: unknown");
  EXPECT_EQ(ErrorOf(false, {"-fc7"}), "-fc7: unknown");
  EXPECT_EQ(ErrorOf(false, {"-cc=9"}), "-cc=9: unknown");
}

TEST_F(FlagTableTest, EachMistakeIsNamed) {
  EXPECT_EQ(ErrorOf(false, {"--nope"}), "--nope: unknown");
  EXPECT_EQ(ErrorOf(false, {"file"}), "file: unknown");
  EXPECT_EQ(ErrorOf(false, {"--force=1"}), "--force=1: unknown");
  EXPECT_EQ(ErrorOf(false, {"-c"}), "-c: the value is missing: N");
  EXPECT_EQ(ErrorOf(true, {"-c"}), "-c,--count: the value is missing: N");
  EXPECT_EQ(ErrorOf(false, {"-c", "10"}), "-c: \"10\" is not a number from 1 to 9");
  EXPECT_EQ(ErrorOf(false, {"--name", ""}), "--name: the value is empty");
  EXPECT_EQ(ErrorOf(false, {"--salt", "-1"}),
            "--salt: \"-1\" is not a number from 0 to 18446744073709551615");
  EXPECT_EQ(ErrorOf(false, {"--share", "1.5"}), "--share: \"1.5\" is not a share from 0 to 1");
  EXPECT_EQ(ErrorOf(false, {"--share", "nan"}), "--share: \"nan\" is not a share from 0 to 1");
  EXPECT_EQ(ErrorOf(false, {"--heat", "hot"}), "--heat: \"hot\" is not a number");
}

TEST_F(FlagTableTest, NumbersOfAllKindsAreRead) {
  ASSERT_TRUE(
      Parse(false, {"--salt", "18446744073709551615", "--share", "0.25", "--heat", "-1.5"}));
  EXPECT_EQ(target_.group.salt, UINT64_MAX);
  EXPECT_EQ(target_.group.share, 0.25);
  EXPECT_EQ(target_.group.heat, -1.5f);
}

TEST_F(FlagTableTest, FlagsThatNeedOrExcludeEachOtherAreChecked) {
  const auto error_of = [this](const std::vector<const char*>& arguments) {
    EXPECT_TRUE(Parse(false, arguments));
    const Status status = given_.Check(kFlags);
    return status ? "no error" : status.error().message;
  };
  EXPECT_EQ(error_of({"--must"}), "no error");
  EXPECT_EQ(error_of({}), "--must is required");
  EXPECT_EQ(error_of({"-f", "--must"}), "--force requires --name");
  EXPECT_EQ(error_of({"-f", "--name", "n", "--must"}), "no error");
  EXPECT_EQ(error_of({"--name", "n", "--text", "t", "--must"}), "--name excludes --text");
}

TEST(FlagHelpTest, ALineHasTheNamesAndASentenceForWhatTheFlagNeeds) {
  std::string help;
  for (const Flag<Target>& flag : std::span(kFlags).first(5)) AppendFlagHelp({}, flag, help);
  AppendFlagHelp({}, kFlags.back(), help);
  EXPECT_EQ(help,
            "  file                        A file.\n"
            "  -c,--count N                A count.\n"
            "  -f,--force,--no-force       A switch. Only with --name.\n"
            "  --drop-it                   Another switch.\n"
            "  --name NAME                 A name. Not with --text. (NAME_VARIABLE)\n"
            "  --must                      Needed. Required.\n");
}

TEST(FlagHelpTest, ALongNameHasItsTextInTheNextLineAndLongTextsAreBroken) {
  const HelpLayout layout = {.column = 8, .gap = 1, .columns = 20, .between_names = ", "};
  std::string help;
  AppendHelpLine(layout, "--long", "one two three four", help);
  AppendHelpLine(layout, "-a", "one", help);
  AppendHelpLine(layout, "-b", "", help);
  EXPECT_EQ(help,
            "  --long\n        one two\n        three four\n"
            "  -a    one\n"
            "  -b\n");
}

}  // namespace
}  // namespace kvd
