// Tests the verbs of the cache with a real daemon over a small model of each kind of memory that
// the bundled model does not have: cells of latent rows, cells that layers share, sinks, and
// experts in hybrids. Every verb gives the bits of a sequence that was computed from scratch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/forward/architectures/architecture.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/support/parameter_name.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::RandomTokens;
using ::testing::HasSubstr;
using Tokens = std::vector<TokenId>;
using Row = std::vector<float>;

class CacheVerbsTest : public ::testing::TestWithParam<Architecture> {
 protected:
  void SetUp() override {
    shape_ = test::TinyOf(GetParam());
    shape_.context = 1024;
    auto started =
        DaemonProcess::Start({.kvd_path = test::KvdPath(),
                              .arguments = {"-m", test::TinyModelPath(shape_), "-c", "8192", "-t",
                                            "1", "--deterministic", "--checkpoint-every", "32",
                                            "--store", (store_.path() / "store").string()}});
    ASSERT_TRUE(started) << started.error().message;
    daemon_.emplace(std::move(*started));
    prompt_ = RandomTokens(3, 200, shape_.vocab);
    next_ = RandomTokens(4, 40, shape_.vocab);
  }
  Client Connect() {
    auto client = Client::Connect({.socket_path = daemon_->socket_path()});
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }
  // Appends the tokens in chunks, reusing no prefix. Returns the logits of the last token.
  static Row Feed(const Client& client, SequenceHandle sequence, const Tokens& tokens,
                  std::size_t chunk = 1000) {
    Row row;
    for (std::size_t done = 0; done < tokens.size(); done += chunk) {
      const auto part = std::span(tokens).subspan(done, std::min(chunk, tokens.size() - done));
      auto decoding = client.StartDecode(sequence, part, NextPos(client, sequence),
                                         wire::LogitsWanted::kLast, wire::kFlagNoPrefix);
      EXPECT_TRUE(decoding) << decoding.error().message;
      if (!decoding) return {};
      const auto logits = decoding->Next();
      EXPECT_TRUE(logits) << logits.error().message;
      if (!logits) return {};
      row.assign(logits->values().begin(), logits->values().end());
    }
    return row;
  }
  static Pos NextPos(const Client& client, SequenceHandle sequence) {
    const auto entry = client.Query(sequence);
    EXPECT_TRUE(entry) << entry.error().message;
    return Pos{entry ? entry->next_pos : 0};
  }
  SequenceHandle Prompted(const Client& client) const {
    const auto sequence = client.Create();
    EXPECT_TRUE(sequence) << sequence.error().message;
    (void)Feed(client, *sequence, prompt_);
    return *sequence;
  }
  // The logits after the prompt and the next tokens.
  Row Expected(const Client& client) const {
    const SequenceHandle sequence = Prompted(client);
    const Row row = Feed(client, sequence, next_);
    EXPECT_EQ(row.size(), shape_.vocab);
    EXPECT_TRUE(client.Drop(sequence));
    return row;
  }

  test::TemporaryFolder store_;
  ModelShape shape_;
  Tokens prompt_, next_;
  std::optional<DaemonProcess> daemon_;
};

TEST_P(CacheVerbsTest, ChunksOfAnySizeGiveTheBitsOfOneChunk) {
  const Client client = Connect();
  const Tokens tokens = RandomTokens(5, 512, shape_.vocab);
  const Row expected = Feed(client, *client.Create(), tokens);
  ASSERT_EQ(expected.size(), shape_.vocab);
  for (const std::size_t chunk : {1, 31, 32, 33}) {
    EXPECT_EQ(Feed(client, *client.Create(), tokens, chunk), expected) << chunk;
  }
}

// Models with windows refuse to go back to a position whose window has lost cells.
TEST_P(CacheVerbsTest, ForksAndRewoundSequencesContinueWithTheBitsOfANewSequence) {
  const Client client = Connect();
  const Row expected = Expected(client);
  const SequenceHandle sequence = Prompted(client);
  const auto forks = client.Fork(sequence, -1, 2);
  ASSERT_TRUE(forks) << forks.error().message;
  (void)Feed(client, sequence, RandomTokens(6, 9, shape_.vocab), 4);
  EXPECT_EQ(Feed(client, (*forks)[0], next_, 7), expected);
  (void)Feed(client, (*forks)[1], RandomTokens(7, 30, shape_.vocab));
  for (const SequenceHandle rewound : {sequence, (*forks)[1]}) {
    const Pos before = NextPos(client, rewound);
    const auto removed = client.RemoveRange(rewound, {Pos{200}, kPosEnd});
    if (shape_.window != 0) {  // the first cells in the window of position 200 are dropped
      ASSERT_FALSE(removed);
      EXPECT_THAT(removed.error().message, HasSubstr("out of the window of 45"));
      EXPECT_EQ(NextPos(client, rewound), before);
      continue;
    }
    ASSERT_TRUE(removed) << removed.error().message;
    EXPECT_EQ(Feed(client, rewound, next_), expected);
  }
}

TEST_P(CacheVerbsTest, AShiftAndItsReverseChangeNoBit) {
  const Client client = Connect();
  const Row expected = Expected(client);
  const SequenceHandle sequence = Prompted(client);
  const Status there = client.Add(sequence, {Pos{150}, kPosEnd}, 7);
  ASSERT_TRUE(there) << there.error().message;
  EXPECT_EQ(NextPos(client, sequence), Pos{207});
  const auto shifted = client.Fork(sequence, -1, 1);
  ASSERT_TRUE(shifted) << shifted.error().message;
  const Status back = client.Add(sequence, {Pos{157}, kPosEnd}, -7);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(Feed(client, sequence, next_), expected);
  // A position matters only to attention that rotates keys.
  const Row other = Feed(client, shifted->front(), next_);
  EXPECT_EQ(other != expected,
            GetParam() != Architecture::kNemotronHMoe && GetParam() != Architecture::kKimiLinear);
}

TEST_P(CacheVerbsTest, SavedExportedAndSharedSequencesContinueWithTheSameBits) {
  const Client client = Connect();
  const Row expected = Expected(client);
  const SequenceHandle sequence = Prompted(client);
  const auto saved = client.Save(sequence, "saved");
  ASSERT_TRUE(saved) << saved.error().message;
  const auto loaded = client.Load("saved");
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_EQ(loaded->size(), 1u);
  EXPECT_EQ(Feed(client, loaded->front().handle, next_, 9), expected);
  const auto file = client.ExportLlama(std::array{sequence});
  ASSERT_TRUE(file) << file.error().message;
  const auto imported = client.ImportLlama(*file);
  ASSERT_TRUE(imported) << imported.error().message;
  ASSERT_EQ(imported->size(), 1u);
  EXPECT_FALSE(imported->front().is_converted);
  EXPECT_EQ(Feed(client, imported->front().handle, next_, 9), expected);

  // Another session takes the prompt from this one.
  const Client other = Connect();
  Tokens whole = prompt_;
  whole.insert(whole.end(), next_.begin(), next_.end());
  auto decoding = other.StartDecode(*other.Create(), whole, Pos{0}, wire::LogitsWanted::kLast);
  ASSERT_TRUE(decoding) << decoding.error().message;
  const auto logits = decoding->Next();
  ASSERT_TRUE(logits) << logits.error().message;
  EXPECT_GE(logits->reuse().tokens, prompt_.size());
  EXPECT_EQ(Row(logits->values().begin(), logits->values().end()), expected);
}

TEST_P(CacheVerbsTest, AKilledDaemonServesTheSequenceAgain) {
  Row expected;
  {
    const Client client = Connect();
    expected = Expected(client);
    const auto published = client.Publish(Prompted(client), "kept");
    ASSERT_TRUE(published) << published.error().message;
  }
  daemon_->Kill();
  const Status again = daemon_->StartAgain();
  ASSERT_TRUE(again) << again.error().message;
  const Client client = Connect();
  const std::uint64_t computed = client.Info()->tokens_computed;
  const auto fork = client.AttachSnapshot("kept");
  ASSERT_TRUE(fork) << fork.error().message;
  EXPECT_EQ(Feed(client, fork->handle(), next_, 9), expected);
  EXPECT_EQ(client.Info()->tokens_computed, computed + next_.size());
}

INSTANTIATE_TEST_SUITE_P(Kinds, CacheVerbsTest,
                         ::testing::Values(Architecture::kDeepseek2, Architecture::kGemma4,
                                           Architecture::kGemma3n, Architecture::kGptOss,
                                           Architecture::kNemotronHMoe, Architecture::kQwen3Next,
                                           Architecture::kKimiLinear),
                         [](const auto& named) {
                           return test::ParameterName(DefinitionOf(named.param).format.name);
                         });

}  // namespace
}  // namespace kvd
