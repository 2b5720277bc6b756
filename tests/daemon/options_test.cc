#include "daemon/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace kvd {
namespace {

using ::testing::HasSubstr;

Result<std::variant<DaemonOptions, PrintAndExit>> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "kvd");
  return ParseOptions(static_cast<int>(arguments.size()), arguments.data());
}

DaemonOptions MustParse(std::vector<const char*> arguments) {
  auto parsed = Parse(std::move(arguments));
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? std::get<DaemonOptions>(*parsed) : DaemonOptions{};
}

struct BadFlag {
  std::vector<const char*> arguments;
  const char* named;
};

class OptionsBadFlagTest : public ::testing::TestWithParam<BadFlag> {};

TEST_P(OptionsBadFlagTest, AWrongValueIsRefusedAndTheFlagNamed) {
  const auto parsed = Parse(GetParam().arguments);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  EXPECT_THAT(parsed.error().message, HasSubstr(GetParam().named));
}

INSTANTIATE_TEST_SUITE_P(
    All, OptionsBadFlagTest,
    ::testing::Values(
        BadFlag{{"-c", "0"}, "\"0\" is not a number from 1"},
        BadFlag{{"-c", "18446744073709551616"}, "18446744073709551616"},
        BadFlag{{"-c", "99999999999"}, "--cells"}, BadFlag{{"-c", "-1"}, "-1"},
        BadFlag{{"-c", "4k"}, "4k"}, BadFlag{{"-c", ""}, "--cells"}, BadFlag{{"-c"}, "--cells"},
        BadFlag{{"--max-sequences", "0"}, "--max-sequences"},
        BadFlag{{"-t", "100000"}, "--threads"}, BadFlag{{"-ub", "0"}, "--ubatch-size"},
        BadFlag{{"-ctk", "q4_1"}, "--cache-type-k"}, BadFlag{{"-ctv", "int8"}, "--cache-type-v"},
        BadFlag{{"--prefetch", "yes"}, "--prefetch: \"yes\" is not on, off or auto"},
        BadFlag{{"--prefetch"}, "--prefetch"}, BadFlag{{"--mlock=x"}, "--mlock"},
        BadFlag{{"--retune", "--no-tuning"}, "--retune: cannot be combined with --no-tuning"},
        BadFlag{{"--retune", "--deterministic"}, "cannot be combined with --deterministic"},
        BadFlag{{"--name", "a/b"}, "--name"}, BadFlag{{"--name", ".hidden"}, "--name"},
        BadFlag{{"--name", ""}, "--name"}, BadFlag{{"--socket", ""}, "--socket"},
        BadFlag{{"--allow-uid", "root"}, "--allow-uid"},
        BadFlag{{"--allow-uid", "4294967295"}, "--allow-uid"},
        BadFlag{{"--prefill-chunk", "513"}, "--prefill-chunk"},
        BadFlag{{"--max-step-ms", "60001"}, "--max-step-ms"},
        BadFlag{{"--room-wait-ms", "86400001"}, "--room-wait-ms"},
        BadFlag{{"--other-pool-share", "1.5"}, "--other-pool-share"},
        BadFlag{{"--other-pool-share", "nan"}, "--other-pool-share"},
        BadFlag{{"--hello-timeout-ms", "0"}, "--hello-timeout-ms"},
        BadFlag{{"--state-slots", "-1"}, "--state-slots"},
        BadFlag{{"--state-slots", "4294967296"}, "--state-slots"},
        BadFlag{{"--checkpoint-every", "often"}, "--checkpoint-every"},
        BadFlag{{"--checkpoint-mb", "18446744073709551615"}, "--checkpoint-mb"},
        BadFlag{{"--defrag-threshold", "101"}, "--defrag-threshold"},
        BadFlag{{"--retain", "-1"}, "--retain"}, BadFlag{{"--retain", "4294967296"}, "--retain"},
        BadFlag{{"--store", ""}, "--store"}, BadFlag{{"--state-dir", ""}, "--state-dir"},
        BadFlag{{"--max-connections", "0"}, "--max-connections"},
        BadFlag{{"--other-connections", "65537"}, "--other-connections"},
        BadFlag{{"--other-sequences", "0"}, "--other-sequences"},
        BadFlag{{"--other-requests", "0"}, "--other-requests"},
        BadFlag{{"--other-result-bytes", "65535"}, "--other-result-bytes"},
        BadFlag{{"--other-saved-bytes", "1125899906842625"}, "--other-saved-bytes"},
        BadFlag{{"--reserve-share", "-0.1"}, "--reserve-share"},
        BadFlag{{"--verify-pool", "--forget=maybe"}, "--forget"},
        BadFlag{{"--only", "tiny"}, "--only: needs --forget"},
        BadFlag{{"--forget", "--only", "tiny", "--state-dir", "x"}, "--only: cannot be combined"},
        BadFlag{{"--log-level", "loud"}, "--log-level"},
        BadFlag{{"--no-such-flag"}, "--no-such-flag"}, BadFlag{{"stray"}, "stray"}));

TEST(OptionsTest, TuningIsOnUnlessItIsSwitchedOff) {
  EXPECT_TRUE(MustParse({}).engine.tunes);
  EXPECT_FALSE(MustParse({}).retunes);
  EXPECT_FALSE(MustParse({"--no-tuning"}).engine.tunes);
  EXPECT_TRUE(MustParse({"--retune"}).retunes);
}

TEST(OptionsTest, TwoLetterFlagsOfLlamaCppAreAccepted) {
  const DaemonOptions options = MustParse({"-ctk", "f32", "-ctv=bf16", "-ub", "64"});
  EXPECT_EQ(options.engine.k_type, kernels::DataType::kF32);
  EXPECT_EQ(options.engine.v_type, kernels::DataType::kBF16);
  EXPECT_EQ(options.engine.ubatch_tokens, 64u);
}

TEST(OptionsTest, PrefetchAndMlockAreRead) {
  EXPECT_EQ(MustParse({}).prefetch, Prefetch::kAuto);
  EXPECT_FALSE(MustParse({}).locks_weights);
  EXPECT_EQ(MustParse({"--prefetch", "on"}).prefetch, Prefetch::kOn);
  EXPECT_EQ(MustParse({"--prefetch=off"}).prefetch, Prefetch::kOff);
  EXPECT_EQ(MustParse({"--prefetch", "off", "--prefetch", "auto"}).prefetch, Prefetch::kAuto);
  EXPECT_TRUE(MustParse({"--mlock"}).locks_weights);
}

TEST(OptionsTest, DefaultPrefillChunkFollowsASmallUbatch) {
  EXPECT_EQ(MustParse({"-ub", "64"}).prefill_chunk, 64u);
  EXPECT_EQ(MustParse({}).prefill_chunk, 256u);
  EXPECT_EQ(MustParse({}).max_step_ms, 200u);
  EXPECT_EQ(MustParse({"--max-step-ms", "0"}).max_step_ms, 0u);
  EXPECT_EQ(MustParse({"--room-wait-ms", "0"}).room_wait_ms, 0u);
}

TEST(OptionsTest, AllowUidMayBeGivenSeveralTimes) {
  const DaemonOptions options = MustParse({"--allow-uid", "1000", "--allow-uid", "1001"});
  EXPECT_EQ(options.allowed_uids, (std::vector<std::uint32_t>{1000, 1001}));
  EXPECT_TRUE(options.admits_others());
  EXPECT_FALSE(MustParse({}).admits_others());
}

TEST(OptionsTest, LastOfARepeatedFlagCounts) {
  EXPECT_EQ(MustParse({"-c", "64", "-c", "128"}).engine.cells, 128u);
}

TEST(OptionsTest, HelpAndVersionArePrinted) {
  for (const char* const flag : {"--help", "--version"}) {
    const auto parsed = Parse({flag});
    ASSERT_TRUE(parsed);
    ASSERT_TRUE(std::holds_alternative<PrintAndExit>(*parsed));
    EXPECT_THAT(std::get<PrintAndExit>(*parsed).text, HasSubstr("kvd"));
  }
}

TEST(OptionsTest, HelpHasShortLinesAndADefaultForEveryValue) {
  const auto parsed = Parse({"--help"});
  ASSERT_TRUE(parsed);
  const std::string& help = std::get<PrintAndExit>(*parsed).text;
  EXPECT_THAT(help, HasSubstr("--no-sandbox "));
  EXPECT_EQ(help.find("{false}"), std::string::npos);
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  // A flag's text follows its names. Flags with a value have the value's name in capitals.
  const std::regex flag("\n  (-[^ ]+) ([A-Z]+)\\b");
  std::size_t flags = 0;
  for (auto at = std::sregex_iterator(help.begin(), help.end(), flag); at != std::sregex_iterator();
       ++at, ++flags) {
    const auto begin = static_cast<std::size_t>(at->position() + at->length());
    const std::string text = help.substr(begin, help.find("\n  -", begin) - begin);
    EXPECT_NE(text.find("Default:"), std::string::npos) << at->str() << text;
  }
  EXPECT_GE(flags, 40u);
}

TEST(OptionsTest, QuotedTextContainsNoLineBreak) {
  EXPECT_EQ(Quoted("a\"b\n\xff"), "\"a\\x22b\\x0a\\xff\"");
}

}  // namespace
}  // namespace kvd
