// Tests that the tokens of steps are divided evenly between owners, whatever the number of their
// requests, and in proportion to their weights. The tests count tokens and steps, not time.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/sessions/shares.h"
#include "tests/daemon/support/scheduler_fixture.h"

namespace kvd {
namespace {

constexpr std::uint32_t kTenantsUid = 1000;
constexpr TenantId kMany{1};
constexpr TenantId kOne{2};

class SchedulerFairnessTest : public SchedulerTest {
 protected:
  SchedulerFairnessTest()
      : SchedulerTest({.cells = 1u << 16, .sequence_capacity = 256, .ubatch_tokens = 64}) {}

  // A session of a tenant.
  std::unique_ptr<TestSession> Join(std::uint64_t id, const TenantId& tenant) {
    const auto account = shares_.AdmitTenant(kTenantsUid, tenant);
    EXPECT_TRUE(account) << account.error().message;
    return std::make_unique<TestSession>(id, (*account)->owner(), ChannelGeometry{},
                                         SessionShares{.account = *account});
  }
  // Submits `count` prompts of `tokens` tokens, each of which begins differently.
  void SubmitPrompts(TestSession& client, TokenId first, std::size_t count, std::size_t tokens) {
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<TokenId> prompt(tokens, 5);
      for (std::size_t at = 0; at < 8; ++at) {
        prompt[at] = static_cast<TokenId>((static_cast<std::size_t>(first) + i * 8 + at) % 60);
      }
      ASSERT_TRUE(Decode(client, ++last_request_, NewSequence(client), std::move(prompt),
                         wire::LogitsWanted::kNone));
    }
  }

  Shares shares_{{}, OwnerOf(kTenantsUid), true};
  std::uint64_t last_request_ = 0;
};

TEST_F(SchedulerFairnessTest, ATenantWithSixtyFourPromptsGetsAsManyTokensAsOneWithOnePrompt) {
  const auto many = Join(1, kMany);
  const auto one = Join(2, kOne);
  SubmitPrompts(*many, 0, 64, 500);
  SubmitPrompts(*one, 30, 1, 4000);
  for (int step = 0; step < 50; ++step) ASSERT_TRUE(scheduler_.RunOnce());
  const auto of_many = static_cast<double>(many->session()->tokens_computed());
  const auto of_one = static_cast<double>(one->session()->tokens_computed());
  EXPECT_GT(of_one, 1000.0) << "the steps are full";
  EXPECT_NEAR(of_many / of_one, 1.0, 0.1);
}

TEST_F(SchedulerFairnessTest, WeightsOfTheTenantsFileDivideTheTokens) {
  const auto many = Join(1, kMany);
  const auto one = Join(2, kOne);
  shares_.SetTenants(*ParseTenants("[02000000000000000000000000000000]\nweight = 3", {}));
  SubmitPrompts(*many, 0, 64, 500);
  SubmitPrompts(*one, 30, 1, 4000);
  for (int step = 0; step < 50; ++step) ASSERT_TRUE(scheduler_.RunOnce());
  const auto of_many = static_cast<double>(many->session()->tokens_computed());
  const auto of_one = static_cast<double>(one->session()->tokens_computed());
  EXPECT_NEAR(of_one / of_many, 3.0, 0.3);
}

}  // namespace
}  // namespace kvd
