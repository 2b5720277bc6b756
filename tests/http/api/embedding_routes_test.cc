// Tests the routes of embeddings and rerankers with a real daemon over a small encoder.
#include "http/api/routes.h"

#include <gmock/gmock.h>

#include <cmath>

#include "http/api/llama_completion.h"
#include "tests/http/api/support/route_fixture.h"
#include "tests/support/tiny_model.h"

namespace kvd::http {
namespace {

using test::At;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// An encoder with a classifier and the bundled model's tokenizer.
std::string EncoderPath() {
  const ModelShape shape = {.name = "tiny-ranker",
                            .architecture = Architecture::kBert,
                            .layers = 2,
                            .embedding = 64,
                            .heads = 4,
                            .kv_heads = 4,
                            .ffn = 96,
                            .context = 64,
                            .pooling = Pooling::kRank,
                            .type = kernels::DataType::kF32};
  return kvd::test::TinyModelPath(shape, kvd::test::Tokenizer::kBundled);
}

class EmbeddingRoutesTest : public test::RouteTest {
 protected:
  void SetUp() override {
    AddEmbeddingRoutes(gateway_, router_);
    AddRerankRoutes(gateway_, router_);
    AddLlamaCompletionRoutes(gateway_, router_);
    settings_.is_embedder = true;
    settings_.pooling = "mean";
  }
  static double Length(const Value& row) {
    double sum = 0;
    for (const Value& value : row.items()) sum += value.number() * value.number();
    return std::sqrt(sum);
  }
  Value Data(const std::string& body) { return At(ValueOf(Post("/v1/embeddings", body)), "data"); }
};

TEST_F(EmbeddingRoutesTest, EveryKindOfInputIsEmbedded) {
  Start(EncoderPath());
  const std::pair<const char*, std::size_t> inputs[] = {{R"("")", 1},
                                                        {R"("string")", 1},
                                                        {"[12,34,56]", 1},
                                                        {R"([12,34,"string",56,78])", 1},
                                                        {R"(["string1","string2"])", 2},
                                                        {R"(["string1",[12,34,56]])", 2},
                                                        {"[[12,34,56],[12,34,56]]", 2},
                                                        {R"([[12,34,56],[12,"string",34,56]])", 2}};
  for (const auto& [input, count] : inputs) {
    const Value data = Data(std::string(R"({"input":)") + input + "}");
    ASSERT_EQ(data.items().size(), count) << input;
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(At(data.items()[i], "index").integer(), static_cast<std::int64_t>(i));
      EXPECT_NEAR(Length(At(data.items()[i], "embedding")), 1, 1e-5) << input;
    }
  }
  const Value same = Data(R"({"input":[[12,34,56],[12,34,56]]})");
  EXPECT_TRUE(Equal(At(same.items()[0], "embedding"), At(same.items()[1], "embedding")));
}

TEST_F(EmbeddingRoutesTest, UsageAndMetricsCountTheTokens) {
  Start(EncoderPath());
  const Value reply = ValueOf(
      Post("/v1/embeddings", R"({"input":[[5,6,7],[8,9]],"model":"text-embedding-3-small"})"));
  EXPECT_EQ(At(reply, "usage.prompt_tokens").integer(), 5);
  EXPECT_EQ(At(reply, "usage.total_tokens").integer(), 5);
  EXPECT_EQ(At(reply, "model").view(), "text-embedding-3-small");
  EXPECT_EQ(tenant().metrics().prompt_tokens_computed, 5u);
  EXPECT_EQ(tenant().metrics().pieces, 1u);
}

TEST_F(EmbeddingRoutesTest, TheReplyOfKvdHasNormsAndDimensions) {
  Start(EncoderPath());
  const Value own = ValueOf(Post("/embedding", R"({"content":[5,6,7]})"));
  ASSERT_EQ(own.items().size(), 1u);
  ASSERT_EQ(At(own.items()[0], "embedding").items().size(), 1u);
  const Value row = At(own.items()[0], "embedding").items()[0];
  const auto width = static_cast<std::int64_t>(row.items().size());
  EXPECT_GT(width, 4);
  const Value plain =
      At(ValueOf(Post("/embeddings", R"({"input":[5,6,7],"embd_normalize":-1})")).items()[0],
         "embedding")
          .items()[0];
  EXPECT_GT(std::abs(Length(plain) - 1), 1e-3);
  const Value cut = At(Data(R"({"input":[5,6,7],"dimensions":4})").items()[0], "embedding");
  EXPECT_EQ(cut.items().size(), 4u);
  EXPECT_NEAR(Length(cut), 1, 1e-5);
  EXPECT_THAT(ErrorOf(Post("/v1/embeddings", R"({"input":"a","dimensions":100000})")),
              StartsWith("400 dimensions: 100000, the model has "));
  const Value base64 =
      At(Data(R"({"input":[5,6,7],"encoding_format":"base64"})").items()[0], "embedding");
  EXPECT_EQ(base64.view().size(), static_cast<std::size_t>((width * 4 + 2) / 3 * 4));
}

TEST_F(EmbeddingRoutesTest, TheNormOfTheCommandLineAppliesToRequestsWithoutOne) {
  settings_.embedding_norm = 1;
  Start(EncoderPath());
  const auto row_of = [this](const std::string& rest) {
    const Value reply = ValueOf(Post("/embeddings", R"({"input":[5,6,7])" + rest + "}"));
    return At(reply.items()[0], "embedding").items()[0];
  };
  double sum = 0;
  const Value row = row_of("");
  for (const Value& value : row.items()) sum += std::abs(value.number());
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_NEAR(Length(row_of(R"(,"embd_normalize":2)")), 1, 1e-5);
}

TEST_F(EmbeddingRoutesTest, AnEncoderMakesNoCompletions) {
  Start(EncoderPath());
  EXPECT_THAT(ErrorOf(Post("/completion", R"({"prompt":"a","n_predict":1})")), StartsWith("501 "));
}

TEST_F(EmbeddingRoutesTest, WithoutPoolingEachTokenHasARow) {
  settings_.pooling = "none";
  Start(EncoderPath());
  const Value own = ValueOf(Post("/embeddings", R"({"input":[5,6,7]})"));
  const Value rows = At(own.items()[0], "embedding");
  ASSERT_EQ(rows.items().size(), 3u);
  EXPECT_GT(std::abs(Length(rows.items()[0]) - 1), 1e-3);
  EXPECT_THAT(ErrorOf(Post("/v1/embeddings", R"({"input":[5,6,7]})")),
              StartsWith("400 Pooling type 'none' is not OAI compatible"));
}

TEST_F(EmbeddingRoutesTest, WrongFieldsAreNamed) {
  Start(EncoderPath());
  const auto error = [this](const std::string& body) {
    return ErrorOf(Post("/v1/embeddings", body));
  };
  EXPECT_EQ(error("{}"), R"(400 "input" or "content" must be provided)");
  EXPECT_EQ(error(R"({"input":[]})"), "400 input: an empty list");
  EXPECT_EQ(error(R"({"input":[[]]})"), "400 Input content cannot be empty");
  EXPECT_THAT(error(R"({"input":7})"), StartsWith("400 input: "));
  EXPECT_THAT(error(R"({"input":"a","encoding_format":"int8"})"),
              StartsWith("400 encoding_format: float or base64"));
  EXPECT_THAT(error(R"({"input":"a","embd_normalize":-2})"), StartsWith("400 embd_normalize: "));
  std::string words;
  for (int i = 0; i < 100; ++i) words += "word ";
  EXPECT_THAT(error(R"({"input":")" + words + "\"}"), HasSubstr("is too large to process"));
}

TEST_F(EmbeddingRoutesTest, ManyInputsAreDividedIntoSeveralVerbs) {
  Start(EncoderPath());
  std::string body = R"({"input":[)";
  for (int i = 0; i < 5000; ++i) body += i == 0 ? "[5]" : ",[6]";
  const Value data = Data(body + "]}");
  ASSERT_EQ(data.items().size(), 5000u);
  EXPECT_FALSE(Equal(At(data.items()[0], "embedding"), At(data.items()[1], "embedding")));
  EXPECT_TRUE(Equal(At(data.items()[1], "embedding"), At(data.items()[4999], "embedding")));
}

TEST_F(EmbeddingRoutesTest, DocumentsAreRankedInBothFormats) {
  settings_.is_reranker = true;
  Start(EncoderPath());
  const Value jina = ValueOf(
      Post("/v1/rerank",
           R"({"query":"a","documents":["one","two",{"text":"three"}],"return_documents":true})"));
  const std::vector<Value>& results = At(jina, "results").items();
  ASSERT_EQ(results.size(), 3u);
  for (std::size_t i = 1; i < results.size(); ++i) {
    EXPECT_GE(At(results[i - 1], "relevance_score").number(),
              At(results[i], "relevance_score").number());
  }
  for (const Value& result : results) {
    if (At(result, "index").integer() == 2) {
      EXPECT_EQ(At(result, "document.text").view(), "three");
    }
  }
  EXPECT_GT(At(jina, "usage.prompt_tokens").integer(), 6);
  EXPECT_EQ(At(jina, "usage.prompt_tokens").integer(), At(jina, "usage.total_tokens").integer());
  const Value tei = ValueOf(Post(
      "/rerank", R"({"query":"a","texts":["one","two","three"],"top_n":2,"return_text":true})"));
  ASSERT_EQ(tei.items().size(), 2u);
  EXPECT_TRUE(Equal(At(tei.items()[0], "score"), At(results[0], "relevance_score")));
  EXPECT_TRUE(At(tei.items()[0], "text").is_string());
  const Value both =
      ValueOf(Post("/rerank", R"({"query":"a","texts":["four"],"documents":["one","two"]})"));
  ASSERT_EQ(both.items().size(), 2u);
  EXPECT_GE(At(both.items()[0], "score").number(), At(both.items()[1], "score").number());
  for (const int wanted : {0, 1, 99}) {
    const Value some =
        ValueOf(Post("/reranking", R"({"query":"a","documents":["one","two"],"top_n":)" +
                                       std::to_string(wanted) + "}"));
    EXPECT_EQ(At(some, "results").items().size(), static_cast<std::size_t>(std::min(wanted, 2)));
  }
}

TEST_F(EmbeddingRoutesTest, WrongFieldsOfARankingAreNamed) {
  settings_.is_reranker = true;
  Start(EncoderPath());
  for (const char* const documents : {"[]", "null", "123", "[1,2,3]", R"([{"title":"a"}])"}) {
    EXPECT_EQ(
        ErrorOf(Post("/rerank", std::string(R"({"query":"a","documents":)") + documents + "}")),
        R"(400 "documents" must be a non-empty string array)");
  }
  EXPECT_EQ(ErrorOf(Post("/rerank", R"({"documents":["a"]})")), R"(400 "query" must be provided)");
  EXPECT_THAT(ErrorOf(Post("/rerank", R"({"query":["a"],"documents":["a"]})")),
              StartsWith("400 query: a text is needed"));
  EXPECT_THAT(ErrorOf(Post("/rerank", R"({"query":"a","documents":["a"],"top_n":-1})")),
              StartsWith("400 top_n: "));
}

}  // namespace
}  // namespace kvd::http
