// Tests that a generation with a saved sampler resumes where it stopped: in the same sequence, in a
// fork, and in another process that loaded the sequence from a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "client/kvd.h"
#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;

class KeptSamplersTest : public test::ServedDaemonTest {
 protected:
  explicit KeptSamplersTest(std::vector<std::string> more = {})
      : KeptSamplersTest(std::make_shared<test::TemporaryFolder>(), std::move(more)) {}
  KeptSamplersTest(const std::shared_ptr<test::TemporaryFolder>& folder,
                   std::vector<std::string> more)
      : ServedDaemonTest(Arguments(folder->path().string(), std::move(more))), folder_(folder) {}

  kvd_client* ConnectC() {
    kvd_connect_options options;
    kvd_connect_options_init(&options, sizeof options);
    options.socket_path = socket_path().c_str();
    options.timeout_ms = 60'000;
    kvd_client* client = nullptr;
    EXPECT_EQ(kvd_connect(&options, &client), KVD_OK) << kvd_error_message();
    return client;
  }
  static kvd_generate_params Sampled(std::int32_t predict_max) {
    static const kvd_logit_bias kBias = {30, 1.5f};
    kvd_generate_params params;
    kvd_generate_params_init(&params, sizeof params);
    params.predict_max = predict_max;
    params.temperature = 1.3f;
    params.top_k = 0;
    params.top_p = 0.98f;
    params.min_p = 0;
    params.repeat_penalty = 1.2f;
    params.frequency_penalty = 0.2f;
    params.repeat_last = 24;
    params.seed = 4711;
    params.flags = KVD_IGNORE_EOS;
    params.biases = &kBias;
    params.bias_count = 1;
    return params;
  }
  static kvd_generate_params Resumed(std::int32_t predict_max) {
    kvd_generate_params params;
    kvd_generate_params_init(&params, sizeof params);
    params.predict_max = predict_max;
    params.temperature = 0;  // a resumed sampler ignores the temperature and the seed
    params.seed = 1;
    params.flags = KVD_CONTINUE | KVD_RESUME_SAMPLER;
    return params;
  }
  static std::vector<kvd_token> Generate(kvd_client* client, kvd_sequence sequence,
                                         const kvd_generate_params& params) {
    std::vector<kvd_token> drawn;
    const auto take = [](void* user, const kvd_piece* piece) {
      auto& all = *static_cast<std::vector<kvd_token>*>(user);
      all.insert(all.end(), piece->tokens, piece->tokens + piece->token_count);
      return 0;
    };
    kvd_generate_result result{};
    EXPECT_EQ(kvd_generate(client, sequence, &params, take, &drawn, &result), KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(result.seed, 4711u);
    return drawn;
  }
  static kvd_sequence Create(kvd_client* client) {
    kvd_sequence sequence = 0;
    EXPECT_EQ(kvd_sequence_create(client, &sequence), KVD_OK) << kvd_error_message();
    return sequence;
  }
  void ExpectTheSameAfterLoading();

 private:
  static std::vector<std::string> Arguments(const std::string& store,
                                            std::vector<std::string> more) {
    more.insert(more.end(), {"--store", store});
    return more;
  }
  const std::shared_ptr<test::TemporaryFolder> folder_;
};

class HybridSamplerStatesTest : public KeptSamplersTest {
 protected:
  HybridSamplerStatesTest()
      : KeptSamplersTest({"-m", std::filesystem::absolute("models/notebook-1m-hybrid-q8_0.gguf")}) {
  }
};

void KeptSamplersTest::ExpectTheSameAfterLoading() {
  const std::vector<kvd_token> prompt = {10, 20, 30, 40, 50};
  kvd_client* client = ConnectC();
  // Generates 40 tokens without an interruption for comparison.
  const kvd_sequence whole = Create(client);
  kvd_generate_params params = Sampled(40);
  params.tokens = prompt.data();
  params.token_count = prompt.size();
  const std::vector<kvd_token> expected = Generate(client, whole, params);
  ASSERT_EQ(expected.size(), 40u);

  const kvd_sequence first = Create(client);
  params.predict_max = 15;
  std::vector<kvd_token> drawn = Generate(client, first, params);
  ASSERT_EQ(kvd_save(client, first, "half", 0, nullptr), KVD_OK) << kvd_error_message();
  ASSERT_EQ(kvd_save(client, first, "tokens", KVD_SAVE_TOKENS_ONLY, nullptr), KVD_OK);
  kvd_sequence fork = 0;
  ASSERT_EQ(kvd_sequence_fork(client, first, -1, 1, &fork, nullptr), KVD_OK);
  const std::vector<kvd_token> rest(expected.begin() + 15, expected.end());
  EXPECT_EQ(Generate(client, first, Resumed(25)), rest);
  EXPECT_EQ(Generate(client, fork, Resumed(25)), rest);
  kvd_close(client);

  client = ConnectC();
  kvd_loaded_sequence* loaded = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(kvd_load(client, "half", &loaded, &count), KVD_OK) << kvd_error_message();
  EXPECT_EQ(loaded[0].has_sampler, 1u);
  EXPECT_EQ(Generate(client, loaded[0].sequence, Resumed(10)),
            std::vector<kvd_token>(rest.begin(), rest.begin() + 10));
  EXPECT_EQ(Generate(client, loaded[0].sequence, Resumed(15)),
            std::vector<kvd_token>(rest.begin() + 10, rest.end()));
  kvd_free(loaded);
  kvd_close(client);
}

TEST_F(KeptSamplersTest, AGenerationGoesOnWithTheSameTokensAfterItWasLoaded) {
  ExpectTheSameAfterLoading();
  ExpectServesOthers();
}

TEST_F(HybridSamplerStatesTest, AGenerationGoesOnWithTheSameTokensAfterItWasLoaded) {
  ExpectTheSameAfterLoading();
}

TEST_F(KeptSamplersTest, KvctlLoadsPublishesAndGoesOn) {
  const test::KvctlProcess kvctl(socket_path());
  const auto run = kvctl.Run("run 'The door' -n 12 -t 1.5 -s 99 --ignore-eos --keep half --json");
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const auto one = kvctl.Run("run --from half --continue --resume -n 10 --json");
  ASSERT_EQ(one.exit_code, 0) << one.output;
  std::string handle;
  {
    const Client client = Connect();
    const auto snapshots = client.Snapshots();
    ASSERT_TRUE(snapshots && snapshots->size() == 1u);
    handle = std::to_string(static_cast<std::uint64_t>((*snapshots)[0].sequence));
  }
  ASSERT_EQ(kvctl.Run("save " + handle + " file").exit_code, 0);
  const auto load = kvctl.Run("load file --publish again --json");
  ASSERT_EQ(load.exit_code, 0) << load.output;
  EXPECT_THAT(load.output, HasSubstr("\"sampler\":true"));
  const auto two = kvctl.Run("run --from again --continue --resume -n 10 --json");
  ASSERT_EQ(two.exit_code, 0) << two.output;
  EXPECT_EQ(test::JsonField(one.output, "text"), test::JsonField(two.output, "text"));
  EXPECT_EQ(test::JsonField(two.output, "seed"), "\"99\"");
  // Without --resume the daemon draws a new seed.
  const auto fresh = kvctl.Run("run --from again --continue -t 1.5 --ignore-eos -n 10 --json");
  EXPECT_NE(test::JsonField(fresh.output, "seed"), "\"99\"");
  EXPECT_THAT(kvctl.Run("run --continue").output, HasSubstr("--sequence or --from"));
  EXPECT_THAT(kvctl.Run("run x --from again --continue").output, HasSubstr("takes no prompt"));
}

TEST_F(KeptSamplersTest, WhereThereIsNothingToGoOnWithItIsRefused) {
  kvd_client* client = ConnectC();
  const kvd_sequence empty = Create(client);
  kvd_generate_params params = Resumed(3);
  EXPECT_EQ(kvd_generate(client, empty, &params, nullptr, nullptr, nullptr), KVD_NOT_FOUND);
  EXPECT_THAT(kvd_error_message(), HasSubstr("no generation has drawn"));
  params.flags = KVD_CONTINUE;
  EXPECT_EQ(kvd_generate(client, empty, &params, nullptr, nullptr, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("is empty"));
  // The token before the last one is removed, so that the last token cannot be computed again as it
  // was.
  const kvd_sequence holed = Create(client);
  const std::vector<kvd_token> prompt = {10, 20, 30, 40, 50};
  kvd_logits logits{};
  ASSERT_EQ(kvd_decode(client, holed, prompt.data(), prompt.size(), 0, KVD_LOGITS_NONE, &logits),
            KVD_OK);
  ASSERT_EQ(kvd_sequence_remove(client, holed, 3, 4, nullptr, nullptr), KVD_OK);
  EXPECT_EQ(kvd_generate(client, holed, &params, nullptr, nullptr, nullptr), KVD_UNSUPPORTED);
  EXPECT_THAT(kvd_error_message(), HasSubstr("positions"));
  kvd_sequence_info* list = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(kvd_list(client, &list, &count), KVD_OK);
  EXPECT_EQ(count, 2u) << "no scratch sequence is left";
  kvd_free(list);
  kvd_close(client);
}

}  // namespace
}  // namespace kvd
