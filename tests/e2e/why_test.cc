// Tests kvctl why and kvd_why with a real daemon: both report the prefix that a prompt can reuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/kvd.h"
#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using test::JsonField;
using ::testing::HasSubstr;

constexpr const char* kBegin =
    "The kite is in the red box, and the drum is with the old man at the end of the long road. ";

class WhyTest : public test::ServedDaemonTest {
 protected:
  WhyTest() : ServedDaemonTest({"-c", "4096"}) {}
  void SetUp() override {
    ServedDaemonTest::SetUp();
    // The fixture's generation has left a retained sequence.
    ASSERT_TRUE(Connect().Call(wire::DropRetainedArgs{}, {}, wire::kFlagForce));
  }
  std::string Done(const std::string& arguments) const {
    const test::KvctlOutcome outcome = test::KvctlProcess(socket_path()).Run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << ": " << outcome.output;
    return outcome.output;
  }
  static std::string Text(const std::string& end) { return std::string(kBegin) + end; }
};

TEST_F(WhyTest, KvctlWhyShowsWhereAPromptDiffersFromTheCache) {
  EXPECT_THAT(Done("why '" + Text("Then it rains.") + "'"),
              HasSubstr("no cached sequence begins like the prompt"));
  const std::string ran = Done("run '" + Text("Then he sings.") + "' -t 0 -n 1 --json");
  ASSERT_THAT(ran, HasSubstr("finish"));
  const std::string told = Done("why '" + Text("Then it rains.") + "' --json");
  const std::string again = Done("run '" + Text("Then it rains.") + "' -t 0 -n 1 --json");
  EXPECT_EQ(JsonField(told, "tokens_reused"), JsonField(again, "tokens_shared")) << told << again;
  EXPECT_GT(std::stoi(JsonField(told, "tokens_in_common")), 20);
  EXPECT_THAT(JsonField(told, "prompt_text"), HasSubstr("it")) << told;
  EXPECT_THAT(JsonField(told, "cached_text"), HasSubstr("he")) << told;
  const std::string shown = Done("why '" + Text("Then she waits.") + "'");
  EXPECT_THAT(shown, HasSubstr("could be reused from sequence"));
  EXPECT_THAT(shown, HasSubstr("  prompt: token"));
  EXPECT_THAT(shown, HasSubstr("  cached: token"));
}

TEST_F(WhyTest, TheCInterfaceReturnsTheSameExplanation) {
  const Client client = Connect();
  const std::vector<TokenId> tokens = client.Tokenize(Text("Then"), wire::kFlagAddSpecial).value();
  const auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence->Decode(tokens, Pos{0}, wire::LogitsWanted::kNone));
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  const std::string path = socket_path();
  options.socket_path = path.c_str();
  kvd_client* other = nullptr;
  ASSERT_EQ(kvd_connect(&options, &other), KVD_OK) << kvd_error_message();
  std::vector<TokenId> prompt = tokens;
  prompt.back() = 5;
  kvd_why_info info{};
  ASSERT_EQ(kvd_why(other, prompt.data(), prompt.size(), &info, nullptr), KVD_OK)
      << kvd_error_message();
  EXPECT_EQ(info.source, static_cast<kvd_sequence>(sequence->handle()));
  EXPECT_EQ(info.nearest, static_cast<kvd_sequence>(sequence->handle()));
  EXPECT_EQ(info.common, prompt.size() - 1);
  EXPECT_EQ(info.prompt_tokens, prompt.size());
  EXPECT_EQ(info.prompt_token, 5);
  EXPECT_EQ(info.cached_token, tokens.back());
  EXPECT_EQ(info.shared_origin, KVD_PREFIX_LIVE);
  kvd_why_info later{};
  kvd_request request = 0;
  ASSERT_EQ(kvd_why(other, prompt.data(), prompt.size(), &later, &request), KVD_OK);
  ASSERT_EQ(kvd_finish(other, request, -1), KVD_OK) << kvd_error_message();
  EXPECT_EQ(later.common, info.common);
  EXPECT_STREQ(later.cached_text, info.cached_text);
  EXPECT_EQ(kvd_why(other, prompt.data(), 0, &info, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_why(other, prompt.data(), 1, nullptr, nullptr), KVD_INVALID_ARGUMENT);
  kvd_close(other);
}

}  // namespace
}  // namespace kvd
