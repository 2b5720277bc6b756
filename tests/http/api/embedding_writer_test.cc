#include "http/api/embedding_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "text/json.h"

namespace kvd::http {
namespace {

std::string Base64Of(std::string_view text) {
  std::string encoded;
  AppendBase64(std::as_bytes(std::span(text)), encoded);
  return encoded;
}

TEST(Base64Test, TheExamplesOfTheStandardAreEncoded) {
  EXPECT_EQ(Base64Of(""), "");
  EXPECT_EQ(Base64Of("f"), "Zg==");
  EXPECT_EQ(Base64Of("fo"), "Zm8=");
  EXPECT_EQ(Base64Of("foo"), "Zm9v");
  EXPECT_EQ(Base64Of("foob"), "Zm9vYg==");
  EXPECT_EQ(Base64Of("fooba"), "Zm9vYmE=");
  EXPECT_EQ(Base64Of("foobar"), "Zm9vYmFy");
  EXPECT_EQ(Base64Of("\xff\xfe\xfd"), "//79");
}

std::vector<float> Normalised(std::vector<float> row, std::int32_t norm) {
  NormaliseRow(row, norm);
  return row;
}

TEST(NormaliseRowTest, EachNormIsThatOfLlamaCpp) {
  EXPECT_EQ(Normalised({3, -4}, kNoNorm), (std::vector<float>{3, -4}));
  EXPECT_EQ(Normalised({3, -4}, kEuclideanNorm), (std::vector<float>{0.6f, -0.8f}));
  EXPECT_EQ(Normalised({3, -4}, kMaxNorm), (std::vector<float>{24570, -32760}));
  EXPECT_EQ(Normalised({1, -3}, 1), (std::vector<float>{0.25f, -0.75f}));
  EXPECT_NEAR(Normalised({1, 2}, 3)[1], 2 / std::cbrt(9.0), 1e-6);
  for (const std::int32_t norm : {kNoNorm, kMaxNorm, 1, kEuclideanNorm, kHighestNorm}) {
    EXPECT_EQ(Normalised({0, 0}, norm), (std::vector<float>{0, 0}));
  }
}

TEST(EmbeddingWriterTest, BothFormatsHaveTheMembersThatClientsRead) {
  const std::vector<TextEmbedding> embeddings = {
      {.values = {0.1f, -2}, .row_count = 1, .width = 2},
      {.values = {1e-8f, 3}, .row_count = 1, .width = 2}};
  EXPECT_EQ(EmbeddingsBody(embeddings, {}),
            R"([{"index":0,"embedding":[[0.1,-2]]},{"index":1,"embedding":[[1e-08,3]]}])");
  EmbeddingStyle style;
  style.is_openai = true;
  style.model = "bert \"small\"";
  style.prompt_tokens = 9;
  EXPECT_EQ(EmbeddingsBody(embeddings, style),
            R"({"object":"list","data":[{"index":0,"embedding":[0.1,-2],"object":"embedding"},)"
            R"({"index":1,"embedding":[1e-08,3],"object":"embedding"}],"model":"bert \"small\"",)"
            R"("usage":{"prompt_tokens":9,"total_tokens":9}})");
  style.format = EmbeddingFormat::kBase64;
  const std::string base64 = EmbeddingsBody(std::span(embeddings).first(1), style);
  EXPECT_NE(base64.find(R"("embedding":"zczMPQAAAMA=","encoding_format":"base64")"),
            std::string::npos)
      << base64;
  EXPECT_TRUE(ParseJson(base64));
}

TEST(EmbeddingWriterTest, WithoutPoolingEachTokenOfATextHasARow) {
  const std::vector<TextEmbedding> rows = {{.values = {1, 2, 3, 4}, .row_count = 2, .width = 2}};
  EXPECT_EQ(EmbeddingsBody(rows, {}), R"([{"index":0,"embedding":[[1,2],[3,4]]}])");
}

}  // namespace
}  // namespace kvd::http
