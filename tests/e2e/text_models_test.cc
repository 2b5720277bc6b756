// Embeds and ranks texts through a real daemon, with the C++ and the C library.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "client/kvd.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;
using wire::PoolingChoice;

constexpr std::uint32_t kWidth = 64, kContext = 80;

ModelShape Ranker(Architecture architecture) {
  return {.name = "tiny-ranker",
          .architecture = architecture,
          .layers = 2,
          .embedding = kWidth,
          .heads = 4,
          .kv_heads = 4,
          .ffn = 96,
          .context = kContext,
          .pooling = Pooling::kRank,
          .type = kernels::DataType::kF32};
}

class TextModelTest : public test::ServedDaemonTest {
 protected:
  explicit TextModelTest(Architecture architecture = Architecture::kBert)
      : ServedDaemonTest(
            {"-m", test::TinyModelPath(Ranker(architecture), test::Tokenizer::kBundled)}) {}
  std::vector<TokenId> Answer() override {
    const std::vector<TokenId> tokens = {9, 11, 13};
    const std::span<const TokenId> text(tokens);
    const auto embedded = Connect().Embed({&text, 1}, PoolingChoice::kMean);
    EXPECT_TRUE(embedded.has_value()) << embedded.error().message;
    std::vector<TokenId> answer;
    for (std::size_t i = 0; embedded && i < 8; ++i) {
      answer.push_back(std::bit_cast<TokenId>(embedded->front().values[i]));
    }
    return answer;
  }
};

class TextDecoderTest : public TextModelTest {
 protected:
  TextDecoderTest() : TextModelTest(Architecture::kQwen3) {}
};

const std::vector<TokenId> kFirst = {9, 11, 13}, kSecond = {20}, kThird = {5, 6, 7, 8, 9, 10};

void ExpectTextsOfARequestAreThoseOfTheirOwnRequests(const Client& client) {
  const std::vector<std::span<const TokenId>> texts = {kFirst, kSecond, kThird};
  for (const PoolingChoice pooling :
       {PoolingChoice::kNone, PoolingChoice::kMean, PoolingChoice::kCls, PoolingChoice::kLast,
        PoolingChoice::kRank}) {
    const auto together = client.Embed(texts, pooling, wire::kFlagNormalize);
    ASSERT_TRUE(together.has_value()) << together.error().message;
    ASSERT_EQ(together->size(), 3u);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto alone = client.Embed({&texts[i], 1}, pooling, wire::kFlagNormalize);
      ASSERT_TRUE(alone.has_value()) << alone.error().message;
      EXPECT_EQ((*together)[i].values, alone->front().values);
      EXPECT_EQ((*together)[i].row_count, pooling == PoolingChoice::kNone ? texts[i].size() : 1u);
      EXPECT_EQ((*together)[i].width, pooling == PoolingChoice::kRank ? 1u : kWidth);
    }
  }
}

TEST_F(TextModelTest, TextsOfOneRequestEqualSingleRequests) {
  ExpectTextsOfARequestAreThoseOfTheirOwnRequests(Connect());
}

TEST_F(TextDecoderTest, TextsOfOneRequestEqualSingleRequests) {
  ExpectTextsOfARequestAreThoseOfTheirOwnRequests(Connect());
}

TEST_F(TextDecoderTest, TheSameModelDecodesAndItsTextsTakeNoCells) {
  const Client client = Connect();
  const auto before = client.Info();
  ASSERT_TRUE(client.Embed(kThird).has_value());
  const auto after = client.Info();
  ASSERT_TRUE(before.has_value() && after.has_value());
  EXPECT_EQ(before->free_cells, after->free_cells);
  const auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence.has_value()) << sequence.error().message;
  EXPECT_TRUE(sequence->Decode(kFirst, Pos{0}).has_value());
}

TEST_F(TextModelTest, TextsThatAreTooLongAreNamed) {
  const Client client = Connect();
  const std::vector<TokenId> large(kContext + 1, 5);
  const std::vector<std::span<const TokenId>> texts = {kFirst, large};
  const auto embedded = client.Embed(texts, PoolingChoice::kMean);
  ASSERT_FALSE(embedded.has_value());
  EXPECT_EQ(embedded.error().code, Code::kInvalidArgument);
  EXPECT_THAT(embedded.error().message,
              HasSubstr("text 1: tokens: 81, the model reads at most 80"));
  const std::string words(2000, 'a');
  const std::string_view documents[] = {"short", words};
  const auto ranked = client.Rank("query", documents);
  ASSERT_FALSE(ranked.has_value());
  EXPECT_EQ(ranked.error().code, Code::kInvalidArgument);
  EXPECT_THAT(ranked.error().message, HasSubstr("document 1: tokens: "));
}

TEST_F(TextModelTest, AScoreDoesNotDependOnTheOtherDocuments) {
  const Client client = Connect();
  const std::string_view documents[] = {"The kite is red.", "", "Tom keeps the drum."};
  const auto together = client.Rank("Where is the kite?", documents);
  ASSERT_TRUE(together.has_value()) << together.error().message;
  ASSERT_EQ(together->size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto alone = client.Rank("Where is the kite?", {&documents[i], 1});
    ASSERT_TRUE(alone.has_value()) << alone.error().message;
    EXPECT_EQ(alone->front(), (*together)[i]);
  }
  EXPECT_NE((*together)[0], (*together)[2]);
}

TEST_F(TextModelTest, TheCLibraryEmbedsAndRanks) {
  kvd_client* client = nullptr;
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  options.socket_path = socket_path().c_str();
  ASSERT_EQ(kvd_connect(&options, &client), KVD_OK) << kvd_error_message();
  const kvd_token_list texts[] = {{kFirst.data(), kFirst.size()}, {kSecond.data(), 1}};
  float* values = nullptr;
  std::size_t rows = 0, floats = 0;
  ASSERT_EQ(kvd_embed(client, texts, 2, KVD_POOLING_MEAN, KVD_NORMALIZE, &values, &rows, &floats,
                      nullptr),
            KVD_OK)
      << kvd_error_message();
  EXPECT_EQ(rows, 2u);
  EXPECT_EQ(floats, kWidth);
  for (std::size_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < floats; ++i) squares += std::pow(values[row * floats + i], 2);
    EXPECT_NEAR(squares, 1.0, 1e-5);
  }
  kvd_free(values);
  EXPECT_EQ(kvd_embed(client, texts, 2, 5, 0, &values, &rows, &floats, nullptr),
            KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("pooling: 5"));
  EXPECT_EQ(kvd_embed(client, texts, 0, -1, 0, &values, &rows, &floats, nullptr),
            KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("text_count: 0"));
  const char* const documents[] = {"The kite is red.", "Tom keeps the drum."};
  float scores[2] = {};
  ASSERT_EQ(kvd_rank(client, "Where is the kite?", documents, 2, scores, nullptr), KVD_OK)
      << kvd_error_message();
  EXPECT_NE(scores[0], scores[1]);
  EXPECT_EQ(kvd_rank(client, "query", documents, 0, scores, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("document_count: 0"));
  kvd_request request = 0;
  float later[2] = {};
  ASSERT_EQ(kvd_rank(client, "Where is the kite?", documents, 2, later, &request), KVD_OK);
  ASSERT_EQ(kvd_finish(client, request, -1), KVD_OK) << kvd_error_message();
  EXPECT_EQ(later[0], scores[0]);
  EXPECT_EQ(later[1], scores[1]);
  kvd_close(client);
}

}  // namespace
}  // namespace kvd
