// Tests the routes that generate no text with a real daemon over the bundled model.
#include <gmock/gmock.h>

#include "base/text.h"
#include "http/api/routes.h"
#include "tests/http/api/support/route_fixture.h"

namespace kvd::http {
namespace {

using test::At;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class PlainRoutesTest : public test::RouteTest {
 protected:
  void SetUp() override {
    AddRefusedRoutes(router_);
    AddHealthRoutes(gateway_, router_);
    AddModelRoutes(gateway_, router_);
    AddPropsRoutes(gateway_, router_);
    AddTokenizeRoutes(gateway_, router_);
    AddEmbeddingRoutes(gateway_, router_);
    AddRerankRoutes(gateway_, router_);
    AddMetricsRoutes(gateway_, router_);
    AddLoraRoutes(gateway_, router_);
  }
  std::vector<TokenId> TokensIn(const Value& reply) {
    std::vector<TokenId> tokens;
    for (const Value& token : At(reply, "tokens").items()) {
      tokens.push_back(static_cast<TokenId>(token.integer()));
    }
    return tokens;
  }
};

TEST_F(PlainRoutesTest, UntilADaemonServesTheModelIsLoading) {
  EXPECT_EQ(ErrorOf(Get("/health")), "503 Loading model");
  EXPECT_EQ(ErrorOf(Get("/v1/models")), "503 Loading model");
  EXPECT_EQ(ErrorOf(Post("/tokenize", "{}")), "503 Loading model");
  Start();
  EXPECT_EQ(Get("/health").body, R"({"status":"ok"})");
  EXPECT_EQ(Get("/v1/health").status, 200);
}

TEST_F(PlainRoutesTest, TextsAreTokenizedAndDetokenized) {
  Start();
  const std::vector<TokenId> plain =
      TokensIn(ValueOf(Post("/tokenize", R"({"content":"Once upon a time"})")));
  EXPECT_GT(plain.size(), 3u);
  std::vector<TokenId> special =
      TokensIn(ValueOf(Post("/tokenize", R"({"content":"Once upon a time","add_special":true})")));
  EXPECT_EQ(special.front(), 1);
  special.erase(special.begin());
  EXPECT_EQ(special, plain);
  EXPECT_TRUE(TokensIn(ValueOf(Post("/tokenize", "{}"))).empty());
  const std::vector<TokenId> mixed =
      TokensIn(ValueOf(Post("/tokenize", R"({"content":[1,"Once",5]})")));
  EXPECT_EQ(mixed.front(), 1);
  EXPECT_EQ(mixed.back(), 5);
  std::string list;
  for (const TokenId token : plain) list += Concat(list.empty() ? "" : ",", token);
  const Value text = ValueOf(Post("/detokenize", Concat(R"({"tokens":[)", list, "]}")));
  EXPECT_EQ(At(text, "content").view(), "Once upon a time");
  EXPECT_EQ(At(ValueOf(Post("/detokenize", "{}")), "content").view(), "");
}

TEST_F(PlainRoutesTest, PiecesThatAreNotUtf8AreBytes) {
  Start();
  const Value reply =
      ValueOf(Post("/tokenize", "{\"content\":\"a \xf0\x9f\xa4\x97\",\"with_pieces\":true}"));
  std::string joined;
  std::size_t byte_pieces = 0;
  for (const Value& token : At(reply, "tokens").items()) {
    EXPECT_GT(At(token, "id").integer(), 0);
    const Value piece = At(token, "piece");
    if (piece.is_string()) {
      EXPECT_FALSE(piece.view().empty());
      joined += piece.view();
      continue;
    }
    ++byte_pieces;
    for (const Value& byte : piece.items()) joined += static_cast<char>(byte.integer());
  }
  EXPECT_EQ(joined, "a \xf0\x9f\xa4\x97");
  EXPECT_EQ(byte_pieces, 4u);
}

TEST_F(PlainRoutesTest, FieldsOfTheTokenizerAreNamedInErrors) {
  Start();
  EXPECT_THAT(ErrorOf(Post("/tokenize", R"({"content":7})")), StartsWith("400 content: "));
  EXPECT_THAT(ErrorOf(Post("/tokenize", R"({"content":"a","add_special":1})")),
              StartsWith("400 add_special: true or false is needed"));
  EXPECT_THAT(ErrorOf(Post("/detokenize", R"({"tokens":"a"})")), StartsWith("400 tokens: "));
  EXPECT_THAT(ErrorOf(Post("/detokenize", R"({"tokens":[1024]})")), StartsWith("400 tokens[0]: "));
  EXPECT_THAT(ErrorOf(Post("/tokenize", "[1")), StartsWith("400 body"));
}

TEST_F(PlainRoutesTest, ModelsHaveTheMembersOfLlamaServer) {
  settings_.tags = {"small", "chat"};
  Start();
  const Value list = ValueOf(Get("/v1/models"));
  EXPECT_EQ(At(list, "object").view(), "list");
  ASSERT_EQ(At(list, "data").items().size(), 1u);
  const Value model = At(list, "data").items()[0];
  EXPECT_EQ(At(model, "id").view(), "toy");
  EXPECT_EQ(At(model, "object").view(), "model");
  EXPECT_EQ(At(model, "aliases").items().size(), 2u);
  EXPECT_EQ(At(model, "tags").items()[0].view(), "chat");
  EXPECT_EQ(At(model, "meta.n_vocab").integer(), 1024);
  EXPECT_EQ(At(model, "meta.vocab_type").integer(), 1);
  EXPECT_GT(At(model, "meta.size").integer(), 100'000);
  EXPECT_EQ(Get("/models").body, Get("/v1/models").body);
  EXPECT_EQ(At(ValueOf(Get("/v1/models/org/other")), "id").view(), "toy");
  EXPECT_EQ(ErrorOf(Get("/v1/models/none")), "404 model: no model is named \"none\"");
}

TEST_F(PlainRoutesTest, PropsShowTheDefaultsOfRequests) {
  settings_.defaults.seed = 42;
  settings_.slot_count = 2;
  settings_.context_cells = 512;
  settings_.model_path = "/models/toy.gguf";
  Start();
  const Value props = ValueOf(Get("/props"));
  EXPECT_EQ(At(props, "total_slots").integer(), 2);
  EXPECT_EQ(At(props, "model_path").view(), "/models/toy.gguf");
  EXPECT_EQ(At(props, "model_alias").view(), "toy");
  EXPECT_EQ(At(props, "default_generation_settings.n_ctx").integer(), 256);
  EXPECT_EQ(At(props, "default_generation_settings.params.seed").integer(), 42);
  EXPECT_EQ(At(props, "bos_token").view(), "<s>");
  EXPECT_EQ(At(props, "eos_token").view(), "<|end|>");
  EXPECT_FALSE(At(props, "is_sleeping").truth());
  EXPECT_FALSE(At(props, "modalities.vision").truth());
  EXPECT_THAT(ErrorOf(Post("/props", "{}")), HasSubstr("501 This server does not support"));
  settings_.changes_props = true;
  EXPECT_EQ(Post("/props", "{}").body, R"({"success":true})");
}

TEST_F(PlainRoutesTest, AdaptersAreAnEmptyList) {
  Start();
  EXPECT_EQ(Get("/lora-adapters").body, "[]");
  EXPECT_EQ(Post("/lora-adapters", "[]").status, 200);
  EXPECT_EQ(ErrorOf(Post("/lora-adapters", "{}")), "400 Request body must be an array");
  EXPECT_EQ(ErrorOf(Post("/lora-adapters", R"([{"id":0,"scale":1.0}])")),
            "501 LoRA adapters are not supported by kvd");
}

TEST_F(PlainRoutesTest, UnsupportedRoutesAreRefusedByName) {
  EXPECT_EQ(ErrorOf(Post("/v1/audio/transcriptions", "x")),
            "501 /v1/audio/transcriptions: audio is not supported by kvd");
  for (const char* const path : {"/models/load", "/models/unload", "/tools", "/cors-proxy",
                                 "/v1/images/generations", "/api/chat"}) {
    EXPECT_THAT(ErrorOf(Post(path, "{}")), HasSubstr("is not supported by kvd")) << path;
  }
  EXPECT_EQ(Get("/models/sse").status, 501);
}

TEST_F(PlainRoutesTest, MetricsAreServedOnlyIfEnabled) {
  Start();
  EXPECT_THAT(ErrorOf(Get("/metrics")), StartsWith("501 This server does not support metrics"));
  settings_.serves_metrics = true;
  const GatewayReply reply = Get("/metrics");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.content_type, "text/plain; version=0.0.4");
  ASSERT_EQ(reply.headers.size(), 1u);
  EXPECT_EQ(reply.headers[0].name, "Process-Start-Time-Unix");
  EXPECT_THAT(reply.body, HasSubstr("\nllamacpp:requests_processing 0\n"));
  EXPECT_THAT(reply.body, HasSubstr("\nkvd:pool_cells{model=\"toy\"} 8192\n"));
}

TEST_F(PlainRoutesTest, AServerWithoutEmbeddingsSaysSo) {
  Start();
  for (const char* const path : {"/embedding", "/embeddings", "/v1/embeddings"}) {
    EXPECT_EQ(ErrorOf(Post(path, R"({"input":"a"})")),
              "501 This server does not support embeddings. Start it with `--embeddings`");
  }
  EXPECT_EQ(ErrorOf(Post("/rerank", "{}")),
            "501 This server does not support reranking. Start it with `--reranking`");
}

}  // namespace
}  // namespace kvd::http
