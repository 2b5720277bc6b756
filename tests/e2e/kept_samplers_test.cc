// Tests that a generation with a saved sampler resumes where it stopped: in the same sequence, in a
// fork, and in another process that loaded the sequence from a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
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
    EXPECT_EQ(kvd_generate(client, sequence, &params, take, &drawn, &result, nullptr), KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(result.seed, 4711u);
    return drawn;
  }
  static kvd_sequence Create(kvd_client* client) {
    kvd_sequence sequence = 0;
    EXPECT_EQ(kvd_sequence_create(client, nullptr, &sequence, nullptr), KVD_OK)
        << kvd_error_message();
    return sequence;
  }
  // `change`: changes the parameters of the generation.
  void ExpectTheSameAfterLoading(const std::function<void(kvd_generate_params&)>& change);
  // ExpectTheSameAfterLoading for each kind of sampler that keeps state.
  void ExpectEverySamplerTheSameAfterLoading();

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

void KeptSamplersTest::ExpectEverySamplerTheSameAfterLoading() {
  ExpectTheSameAfterLoading([](kvd_generate_params&) {});
  ExpectTheSameAfterLoading([](kvd_generate_params& params) {
    static const char* const kBreakers[] = {"\n", " the"};
    params.dry_multiplier = 2;
    params.dry_allowed_length = 1;
    params.dry_penalty_last = -1;
    params.dry_breakers = kBreakers;
    params.dry_breaker_count = 2;
    params.xtc_probability = 0.5f;
    params.xtc_threshold = 0.05f;
    params.dynatemp_range = 0.5f;
    params.samplers = "dry;top_n_sigma;penalties;xtc;temperature";
  });
  for (const std::int32_t version : {1, 2}) {
    ExpectTheSameAfterLoading([version](kvd_generate_params& params) {
      params.mirostat = version;
      params.mirostat_tau = 3;
      params.mirostat_eta = 0.5f;
    });
  }
  ExpectTheSameAfterLoading([](kvd_generate_params& params) {
    params.adaptive_target = 0.2f;
    params.samplers = "penalties;temperature;adaptive_p";
  });
  ExpectTheSameAfterLoading([](kvd_generate_params& params) {
    params.flags |= KVD_LLAMA_DRAWS;
    params.xtc_probability = 0.5f;
    params.xtc_threshold = 0.05f;
  });
}

void KeptSamplersTest::ExpectTheSameAfterLoading(
    const std::function<void(kvd_generate_params&)>& change) {
  const std::vector<kvd_token> prompt = {10, 20, 30, 40, 50};
  kvd_client* client = ConnectC();
  // Generates 40 tokens without an interruption for comparison.
  const kvd_sequence whole = Create(client);
  kvd_generate_params params = Sampled(40);
  change(params);
  params.tokens = prompt.data();
  params.token_count = prompt.size();
  const std::vector<kvd_token> expected = Generate(client, whole, params);
  ASSERT_EQ(expected.size(), 40u);

  const kvd_sequence first = Create(client);
  params.predict_max = 15;
  std::vector<kvd_token> drawn = Generate(client, first, params);
  ASSERT_EQ(kvd_save(client, first, "half", KVD_SAVE_REPLACE, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  ASSERT_EQ(kvd_save(client, first, "tokens",
                     std::uint32_t{KVD_SAVE_TOKENS_ONLY} | std::uint32_t{KVD_SAVE_REPLACE}, nullptr,
                     nullptr),
            KVD_OK);
  kvd_sequence fork = 0;
  ASSERT_EQ(kvd_sequence_fork(client, first, -1, 1, nullptr, &fork, nullptr, nullptr), KVD_OK);
  const std::vector<kvd_token> rest(expected.begin() + 15, expected.end());
  EXPECT_EQ(Generate(client, first, Resumed(25)), rest);
  EXPECT_EQ(Generate(client, fork, Resumed(25)), rest);
  kvd_close(client);

  client = ConnectC();
  kvd_loaded_sequence* loaded = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(kvd_load(client, "half", &loaded, &count, nullptr, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  EXPECT_EQ(loaded[0].has_sampler, 1u);
  EXPECT_EQ(Generate(client, loaded[0].sequence, Resumed(10)),
            std::vector<kvd_token>(rest.begin(), rest.begin() + 10));
  EXPECT_EQ(Generate(client, loaded[0].sequence, Resumed(15)),
            std::vector<kvd_token>(rest.begin() + 10, rest.end()));
  kvd_free(loaded);
  kvd_close(client);
}

TEST_F(KeptSamplersTest, ALoadedGenerationContinuesWithTheSameTokens) {
  ExpectEverySamplerTheSameAfterLoading();
  ExpectServesOthers();
}

TEST_F(HybridSamplerStatesTest, ALoadedGenerationContinuesWithTheSameTokens) {
  ExpectEverySamplerTheSameAfterLoading();
}

TEST_F(KeptSamplersTest, KvctlLoadsPublishesAndContinues) {
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

TEST_F(KeptSamplersTest, OptionsOfKvctlNameTheSamplersAndTheirErrors) {
  const test::KvctlProcess kvctl(socket_path());
  const auto run = [&](const std::string& options) {
    return kvctl.Run("run 'The door' -n 8 -s 3 --ignore-eos --json " + options);
  };
  const auto text = [&](const std::string& options) {
    const auto done = run(options);
    EXPECT_EQ(done.exit_code, 0) << options << ": " << done.output;
    return test::JsonField(done.output, "text");
  };
  const std::string plain = text("-t 1.5 --top-k 0");
  EXPECT_EQ(text("-t 1.5 --top-k 0 --samplers 'penalties;dry;top-k;typ;nucleus;min_p;temp'"),
            plain);
  EXPECT_EQ(text("-t 1.5 --top-k 0 --sampling-seq edskypmxt"), plain);
  EXPECT_EQ(text("-t 1.5 --top-k 3 --sampler-seq pmt"), plain) << "top_k is not in the chain";
  EXPECT_NE(text("-t 1.5 --mirostat 2 --mirostat-ent 8 --mirostat-lr 0.5"), plain);
  EXPECT_NE(text("-t 1.5 --top-k 0 --llama-draws"), plain);
  EXPECT_NE(text("-t 1.5 --samplers 'temperature;adaptive_p' --adaptive-target 0.1 "
                 "--adaptive-decay 0.5"),
            plain);
  text(
      "--top-nsigma 1 --xtc-probability 0.5 --xtc-threshold 0.2 --dynatemp-range 0.5 "
      "--dynatemp-exp 2 --dry-multiplier 0.8 --dry-base 2 --dry-allowed-length 1 "
      "--dry-penalty-last-n -1 --dry-sequence-breaker none");
  text("--dry-multiplier 0.8 --dry-sequence-breaker '.' --dry-sequence-breaker ' the'");
  for (const auto& [options, words] : std::vector<std::pair<std::string, std::string>>{
           {"--samplers 'top_k;infill'", "is not a sampler"},
           {"--samplers 'top_k;top_k'", "occurs twice"},
           {"--sampling-seq kz", "'z' is not the letter"},
           {"--mirostat 3", "mirostat: 3 given, must be 0, 1 or 2"},
           {"--dry-base 0.5", "dry_base: 0.5 given"},
           {"--adaptive-decay 1", "adaptive_decay: 1 given"},
           {"--dry-multiplier 1 --dry-sequence-breaker " + std::string(41, 'x'),
            "generate.breaker bytes"}}) {
    const auto refused = run(options);
    EXPECT_NE(refused.exit_code, 0) << options;
    EXPECT_THAT(refused.output, HasSubstr(words)) << options;
  }
  const auto help = kvctl.Run("run --help");
  for (const char* option :
       {"--samplers", "--sampling-seq", "--top-nsigma", "--xtc-probability", "--xtc-threshold",
        "--dry-multiplier", "--dry-base", "--dry-allowed-length", "--dry-penalty-last-n",
        "--dry-sequence-breaker", "--mirostat", "--mirostat-lr", "--mirostat-ent",
        "--dynatemp-range", "--dynatemp-exp", "--adaptive-target", "--adaptive-decay"}) {
    EXPECT_THAT(help.output, HasSubstr(option));
  }
}

TEST_F(KeptSamplersTest, WrongChainsAndBreakersAreRefusedByTheLibrary) {
  kvd_client* client = ConnectC();
  const kvd_sequence sequence = Create(client);
  const kvd_token prompt[] = {10};
  const auto refused = [&](const std::function<void(kvd_generate_params&)>& change) {
    kvd_generate_params params = Sampled(1);
    params.tokens = prompt;
    params.token_count = 1;
    change(params);
    EXPECT_EQ(kvd_generate(client, sequence, &params, nullptr, nullptr, nullptr, nullptr),
              KVD_INVALID_ARGUMENT);
    return std::string(kvd_error_message());
  };
  static const char* const kTooMany[17] = {};
  static const char* const kNull[1] = {nullptr};
  static const char* const kEmpty[1] = {""};
  EXPECT_THAT(refused([](auto& params) { params.samplers = "top_x"; }), HasSubstr("top_x"));
  EXPECT_THAT(refused([](auto& params) {
                params.dry_breakers = kTooMany;
                params.dry_breaker_count = 17;
              }),
              HasSubstr("dry_breaker_count: 17"));
  EXPECT_THAT(refused([](auto& params) { params.dry_breaker_count = 1; }),
              HasSubstr("params.dry_breakers"));
  EXPECT_THAT(refused([](auto& params) {
                params.dry_breakers = kNull;
                params.dry_breaker_count = 1;
              }),
              HasSubstr("params.dry_breakers"));
  EXPECT_THAT(refused([](auto& params) {
                params.dry_breakers = kEmpty;
                params.dry_breaker_count = 1;
              }),
              HasSubstr("generate.breaker bytes"));
  EXPECT_THAT(refused([](auto& params) { params.xtc_threshold = 2; }), HasSubstr("xtc_threshold"));
  // A program that was compiled with an earlier kvd.h has a shorter struct, and the defaults.
  kvd_generate_params shorter;
  const std::size_t old_size = offsetof(kvd_generate_params, top_n_sigma);
  kvd_generate_params_init(&shorter, old_size);
  shorter.tokens = prompt;
  shorter.token_count = 1;
  shorter.predict_max = 1;
  EXPECT_EQ(kvd_generate(client, sequence, &shorter, nullptr, nullptr, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  kvd_close(client);
}

TEST_F(KeptSamplersTest, ContinuingWithoutASamplerStateIsRefused) {
  kvd_client* client = ConnectC();
  const kvd_sequence empty = Create(client);
  kvd_generate_params params = Resumed(3);
  EXPECT_EQ(kvd_generate(client, empty, &params, nullptr, nullptr, nullptr, nullptr),
            KVD_NOT_FOUND);
  EXPECT_THAT(kvd_error_message(), HasSubstr("no generation has drawn"));
  params.flags = KVD_CONTINUE;
  EXPECT_EQ(kvd_generate(client, empty, &params, nullptr, nullptr, nullptr, nullptr),
            KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("is empty"));
  // The token before the last one is removed, so that the last token cannot be computed again as it
  // was.
  const kvd_sequence holed = Create(client);
  const std::vector<kvd_token> prompt = {10, 20, 30, 40, 50};
  kvd_logits logits{};
  ASSERT_EQ(
      kvd_decode(client, holed, prompt.data(), prompt.size(), 0, KVD_LOGITS_NONE, &logits, nullptr),
      KVD_OK);
  ASSERT_EQ(kvd_sequence_remove(client, holed, 3, 4, nullptr, nullptr, nullptr), KVD_OK);
  EXPECT_EQ(kvd_generate(client, holed, &params, nullptr, nullptr, nullptr, nullptr),
            KVD_UNSUPPORTED);
  EXPECT_THAT(kvd_error_message(), HasSubstr("positions"));
  kvd_sequence_info* list = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(kvd_list(client, &list, &count, nullptr), KVD_OK);
  EXPECT_EQ(count, 2u) << "no scratch sequence is left";
  kvd_free(list);
  kvd_close(client);
}

}  // namespace
}  // namespace kvd
