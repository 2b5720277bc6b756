// Tests the slot files with a real daemon: what llama-server's own test expects (its test_slot_save
// with the same model family), and files that are cut or damaged.
#include "http/api/routes.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "http/answer/answer.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/http/api/support/route_fixture.h"
#include "tests/support/test_scale.h"

namespace kvd::http {
namespace {

using test::At;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class SlotRoutesTest : public test::RouteTest {
 protected:
  void SetUp() override {
    settings_.slot_count = 2;
    settings_.context_cells = 1024;
    settings_.slot_directory = folder_.path().string();
    AddSlotRoutes(gateway_, router_);
  }

  // Computes an answer and returns the number of prompt tokens that were not cached.
  std::uint32_t Predict(std::uint32_t slot, std::vector<TokenId> prompt, std::int32_t count) {
    AnswerRequest request;
    request.prompt = std::move(prompt);
    request.predict_max = count;
    request.slot = slot;
    request.ignores_eos = true;
    request.sampling = DefaultSamplingAt(0.0f);
    return Run(Predicted(tenant(), std::move(request)));
  }
  static Await<std::uint32_t> Predicted(TenantSession& tenant, AnswerRequest request) {
    auto answer = co_await Answer::Start(tenant, std::move(request));
    EXPECT_TRUE(answer) << answer.error().message;
    if (!answer) co_return 0;
    for (;;) {
      auto piece = co_await (*answer)->Next();
      EXPECT_TRUE(piece) << piece.error().message;
      if (!piece || !*piece) break;
    }
    const AnswerEnd& end = (*answer)->end();
    co_return end.prompt_tokens - end.cached_tokens;
  }
  GatewayReply Act(std::string_view slot, std::string_view action, std::string_view name) {
    return Post("/slots/" + std::string(slot) + "?action=" + std::string(action),
                R"({"filename":")" + std::string(name) + "\"}");
  }
  std::vector<char> ReadFile(const std::string& name) {
    std::ifstream file(folder_.path() / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void WriteFile(const std::string& name, std::span<const char> bytes) {
    std::ofstream file(folder_.path() / name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::vector<TokenId> Prompt(TokenId last) {
    std::vector<TokenId> tokens = {1};
    for (TokenId i = 0; i < 14; ++i) tokens.push_back(300 + i);
    for (TokenId i = 0; i < 6; ++i) tokens.push_back(last + i);
    return tokens;
  }

  kvd::test::TemporaryFolder folder_;
};

TEST_F(SlotRoutesTest, ASavedSlotCanBeRestoredIntoAnotherSlot) {
  Start();
  EXPECT_EQ(Predict(1, Prompt(400), 64), 21u);
  const Value saved = ValueOf(Act("1", "save", "slot1.bin"));
  EXPECT_EQ(At(saved, "id_slot").integer(), 1);
  EXPECT_EQ(At(saved, "filename").view(), "slot1.bin");
  EXPECT_EQ(At(saved, "n_saved").integer(), 84);
  EXPECT_GE(At(saved, "timings.save_ms").number(), 0);
  EXPECT_EQ(At(saved, "n_written").integer(),
            static_cast<std::int64_t>(ReadFile("slot1.bin").size()));
  EXPECT_EQ(Predict(1, Prompt(410), 4), 6u) << "only the different part is computed";
  const Value restored = ValueOf(Act("0", "restore", "slot1.bin"));
  EXPECT_EQ(At(restored, "n_restored").integer(), 84);
  EXPECT_EQ(At(restored, "n_read").integer(), At(saved, "n_written").integer());
  EXPECT_EQ(At(ValueOf(Act("0", "save", "again.bin")), "n_saved").integer(), 84);
  EXPECT_EQ(ReadFile("again.bin").size(), ReadFile("slot1.bin").size());
  EXPECT_EQ(Predict(0, Prompt(410), 4), 6u);
  EXPECT_EQ(Predict(1, Prompt(410), 4), 1u);
}

TEST_F(SlotRoutesTest, PlainAndPackedTokenListsRestoreTheSameSlot) {
  Start();
  Predict(1, Prompt(400), 64);
  ASSERT_EQ(Act("1", "save", "packed.bin").status, 200);
  const std::vector<char> packed = ReadFile("packed.bin");
  std::uint32_t words[6];
  std::memcpy(words, packed.data(), sizeof words);
  EXPECT_EQ(words[2], 84u + 4);
  EXPECT_EQ(words[3], 0xffffffffu);
  EXPECT_EQ(words[4], 1u);
  EXPECT_EQ(words[5], 84u);
  std::vector<char> plain(packed.begin(), packed.begin() + 8);
  const auto* const count = reinterpret_cast<const char*>(&words[5]);
  plain.insert(plain.end(), count, count + 4);
  plain.insert(plain.end(), packed.begin() + 24, packed.begin() + 24 + 84 * 4);
  plain.insert(plain.end(), packed.begin() + 28 + 84 * 4, packed.end());
  WriteFile("plain.bin", plain);
  EXPECT_EQ(At(ValueOf(Act("0", "restore", "plain.bin")), "n_restored").integer(), 84);
  EXPECT_EQ(Predict(0, Prompt(410), 4), 6u);
}

TEST_F(SlotRoutesTest, AnErasedSlotComputesItsPromptAgain) {
  Start();
  EXPECT_EQ(Predict(1, Prompt(400), 4), 21u);
  EXPECT_EQ(At(ValueOf(Post("/slots/1?action=erase", {})), "n_erased").integer(), 24)
      << "as in llama-server, the last token of an answer does not count";
  EXPECT_EQ(Predict(1, Prompt(400), 4), 21u);
  EXPECT_EQ(At(ValueOf(Post("/slots/0?action=erase", {})), "n_erased").integer(), 0);
}

TEST_F(SlotRoutesTest, RequestsWithoutAValidSlotActionOrFileAreRefused) {
  Start();
  for (const char* const id : {"-1", "2", "99", "0x0", "+1", "00", "1a", "4294967296", "%201"}) {
    EXPECT_EQ(ErrorOf(Act(id, "save", "a")), "400 Invalid slot ID") << id;
  }
  EXPECT_EQ(ErrorOf(Act("0", "", "a")), "400 Invalid action");
  EXPECT_EQ(ErrorOf(Act("0", "drop", "a")), "400 Invalid action");
  for (const char* const name : {"", "../a", "/etc/passwd", ".a", "a b"}) {
    EXPECT_THAT(ErrorOf(Act("0", "save", name)), StartsWith("400 Invalid filename")) << name;
    EXPECT_THAT(ErrorOf(Act("0", "restore", name)), StartsWith("400 Invalid filename")) << name;
  }
  EXPECT_THAT(ErrorOf(Post("/slots/0?action=save", R"({"filename":7})")),
              HasSubstr("400 filename: a text is needed"));
  EXPECT_THAT(ErrorOf(Post("/slots/0?action=save", "")), StartsWith("400 body"));
  EXPECT_EQ(ErrorOf(Act("0", "save", "a")), "400 slot 0: has no tokens to save");
  EXPECT_EQ(ErrorOf(Act("0", "restore", "none")), "400 Unable to restore slot: none: no such file");
}

TEST_F(SlotRoutesTest, ATruncatedFileIsRefusedAndChangesNothing) {
  Start();
  Predict(1, {1, 300, 301}, 0);
  ASSERT_EQ(Act("1", "save", "whole.bin").status, 200);
  const std::vector<char> whole = ReadFile("whole.bin");
  Predict(0, Prompt(400), 4);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    WriteFile("cut.bin", std::span(whole).first(bytes));
    ASSERT_THAT(ErrorOf(Act("0", "restore", "cut.bin")), StartsWith("400 Unable to restore slot: "))
        << bytes;
  }
  EXPECT_EQ(Predict(0, Prompt(400), 4), 1u) << "the slot is as it was";
  EXPECT_EQ(At(ValueOf(Act("0", "restore", "whole.bin")), "n_restored").integer(), 3);
}

TEST_F(SlotRoutesTest, DamagedFilesAreRefusedOrHarmless) {
  Start();
  Predict(1, {1, 300, 301, 302}, 0);
  ASSERT_EQ(Act("1", "save", "whole.bin").status, 200);
  const std::vector<char> whole = ReadFile("whole.bin");
  std::mt19937 random(17);
  for (int round = 0; round < kvd::test::Scaled(300); ++round) {
    std::vector<char> damaged = whole;
    const std::size_t head = std::min<std::size_t>(damaged.size(), 160);
    for (int i = 0; i < 1 + round % 4; ++i) {
      const std::size_t at = random() % (round % 2 == 0 ? head : damaged.size());
      damaged[at] = static_cast<char>(random());
    }
    WriteFile("damaged.bin", damaged);
    const GatewayReply reply = Act("0", "restore", "damaged.bin");
    ASSERT_TRUE(reply.status == 200 || reply.status == 400) << reply.status << reply.body;
  }
  EXPECT_EQ(At(ValueOf(Act("0", "restore", "whole.bin")), "n_restored").integer(), 4);
  EXPECT_EQ(Predict(0, {1, 300, 301, 302, 303}, 4), 1u);
}

TEST_F(SlotRoutesTest, AFileThatIsLargerThanASlotIsRefused) {
  settings_.context_cells = 512;  // 256 for each slot
  Start();
  std::ofstream(folder_.path() / "sparse.bin").close();
  std::filesystem::resize_file(folder_.path() / "sparse.bin", std::uint64_t{1} << 40);
  EXPECT_THAT(ErrorOf(Act("0", "restore", "sparse.bin")), HasSubstr("a slot has at most"));
}

TEST_F(SlotRoutesTest, SlotsAreListed) {
  Start();
  const Value idle = ValueOf(Get("/slots"));
  ASSERT_EQ(idle.items().size(), 2u);
  EXPECT_EQ(At(idle.items()[0], "n_ctx").integer(), 512);
  EXPECT_FALSE(idle.items()[0].dict().Contains("params"));
  Predict(1, Prompt(400), 8);
  const Value used = ValueOf(Get("/slots?fail_on_no_slot=1")).items()[1];
  EXPECT_FALSE(At(used, "is_processing").truth());
  EXPECT_EQ(At(used, "n_prompt_tokens_processed").integer(), 21);
  EXPECT_EQ(At(At(used, "next_token").items()[0], "n_remain").integer(), -1);
  EXPECT_EQ(At(At(used, "next_token").items()[0], "n_decoded").integer(), 0);
  tenant().slots().at(0).is_busy = tenant().slots().at(1).is_busy = true;
  EXPECT_EQ(ErrorOf(Get("/slots?fail_on_no_slot=1")), "503 no slot available");
  EXPECT_EQ(Get("/slots").status, 200);
  tenant().slots().at(0).is_busy = tenant().slots().at(1).is_busy = false;
}

TEST_F(SlotRoutesTest, AParkedSlotIsListedWithTheTimeForWhichItHasWaited) {
  Start();
  EXPECT_FALSE(At(ValueOf(Get("/slots")).items()[0], "is_parked").truth());
  tenant().slots().at(0).parked_since = std::chrono::steady_clock::now() - std::chrono::seconds(2);
  const Value parked = ValueOf(Get("/slots")).items()[0];
  EXPECT_TRUE(At(parked, "is_parked").truth());
  EXPECT_GE(At(parked, "parked_ms").integer(), 2000);
}

// A conversation of 60 tokens, for which `number` chooses the tokens.
std::vector<TokenId> Conversation(TokenId number) {
  std::vector<TokenId> tokens = {1};
  for (TokenId i = 0; i < 55; ++i) tokens.push_back(300 + 60 * number + i);
  return tokens;
}

TEST_F(SlotRoutesTest, IdleSlotsGiveTheirRoomToAPromptThatFindsNone) {
  pool_cells_ = 256;
  settings_.slot_count = 4;
  settings_.context_cells = 1024;
  Start();
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    EXPECT_EQ(Predict(slot, Conversation(static_cast<TokenId>(slot)), 8), 56u);
  }
  std::vector<TokenId> fifth;
  for (TokenId i = 0; i < 150; ++i) fifth.push_back(600 + i);
  EXPECT_EQ(Predict(0, fifth, 8), 150u) << "the room of the other slots is needed";
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    std::vector<TokenId> more = Conversation(static_cast<TokenId>(slot));
    more.insert(more.end(), {40, 41, 42});
    EXPECT_LE(Predict(slot, more, 8), 59u) << "an idle conversation continues";
  }
}

TEST_F(SlotRoutesTest, SlotRoutesThatAreNotEnabledAreUnsupported) {
  settings_.slot_directory.clear();
  settings_.serves_slots = false;
  Start();
  EXPECT_EQ(ErrorOf(Get("/slots")),
            "501 This server does not support slots endpoint. Start it with `--slots`");
  EXPECT_EQ(ErrorOf(Act("0", "save", "a")),
            "501 This server does not support slots action. Start it with `--slot-save-path`");
}

}  // namespace
}  // namespace kvd::http
