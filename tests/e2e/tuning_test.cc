// Tests measured choices of products with real daemons: --retune, the file that the next start
// uses, files that are ignored, what stays valid when the choices change, and --deterministic.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "base/text.h"
#include "client/client.h"
#include "kernels/kernel_table.h"
#include "kernels/product_choice.h"
#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Arguments = std::vector<std::string>;

class TuningTest : public testing::Test {
 protected:
  TuningTest() {
    ModelShape shape = test::TinyLlama();
    shape.type = kernels::DataType::kF16;
    shape.context = 1024;
    arguments_ = {"-m",          test::TinyModelPath(shape),
                  "-c",          "8192",
                  "-t",          "2",
                  "--cache-dir", (folder_.path() / "cache").string(),
                  "--store",     (folder_.path() / "store").string()};
    prompt_ = test::RandomTokens(3, 300, shape.vocab);
  }
  void Start(const Arguments& more) {
    auto started = DaemonProcess::Start({.kvd_path = test::KvdPath(), .arguments = With(more)});
    ASSERT_TRUE(started) << started.error().message;
    daemon_.emplace(std::move(*started));
  }
  void StartAgain(const Arguments& more) {
    const Status stopped = daemon_->Stop();
    ASSERT_TRUE(stopped) << stopped.error().message;
    const Status started = daemon_->StartAgain(With(more));
    ASSERT_TRUE(started) << started.error().message;
  }
  Arguments With(const Arguments& more) const {
    Arguments all = arguments_;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Client Connect() {
    auto client = Client::Connect({.socket_path = daemon_->socket_path()});
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }
  ChoiceSource Source() {
    return static_cast<ChoiceSource>(Connect().Call(wire::TuningArgs{})->record.source);
  }
  std::string Info(const std::string& arguments = "info") {
    return test::KvctlProcess(daemon_->socket_path()).Run(arguments).output;
  }

  struct Computed {
    PrefixReuse reuse;
    std::vector<float> logits;  // of the last token
  };
  // Computes the prompt in a new sequence, which is retained or saved under `save_as`.
  Computed Compute(std::span<const TokenId> prompt, const std::string& save_as = "",
                   std::uint16_t flags = 0) {
    const Client client = Connect();
    const auto sequence = client.Create();
    EXPECT_TRUE(sequence);
    auto decoding = client.StartDecode(*sequence, prompt, Pos{0}, wire::LogitsWanted::kLast, flags);
    EXPECT_TRUE(decoding) << decoding.error().message;
    const auto logits = decoding->Next();
    EXPECT_TRUE(logits) << logits.error().message;
    Computed computed{logits->reuse(), {logits->values().begin(), logits->values().end()}};
    if (save_as.empty()) {
      EXPECT_TRUE(client.Retain(*sequence));
    } else {
      EXPECT_TRUE(client.Save(*sequence, save_as));
    }
    return computed;
  }

  std::filesystem::path File() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(daemon_->folder())) {
      if (entry.path().filename() == "tuning") return entry.path();
    }
    return {};
  }
  std::string AwaitFile() const {
    for (int i = 0; i < 4000 && File().empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::ifstream file(File());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Replaces the products of the daemon's file by `products`.
  void Rewrite(const std::string& products) const {
    const std::string text = AwaitFile();
    const std::string body = text.substr(0, text.find("product ")) + products;
    std::array<char, 32> checksum{};
    std::snprintf(checksum.data(), checksum.size(), "crc32c %08x\n",
                  Crc32c(0, std::as_bytes(std::span(body.data(), body.size()))));
    std::ofstream(File()) << body << checksum.data();
  }
  // The scalar table, which has no choices, is selected only without AVX2.
  static bool HasAlternatives() {
    return kernels::SelectKernels(nullptr).table != kernels::ScalarTable();
  }
  // What `kvctl info` says about products of f16 that were not measured.
  static std::string DefaultOfF16() {
    const kernels::ProductChoice choice =
        kernels::DefaultChoices(*kernels::SelectKernels(nullptr).table)
            .For(kernels::DataType::kF16);
    if (choice.wide_from_rows == 0) return "f16 one form; ";
    return Concat("f16 ", kernels::WideFormName(choice.wide_form), " from ", choice.wide_from_rows,
                  " rows; ");
  }

  test::TemporaryFolder folder_;
  Arguments arguments_;
  std::vector<TokenId> prompt_;
  std::optional<DaemonProcess> daemon_;
};

TEST_F(TuningTest, ChoicesOfRetuneApplyAtOnceAndAfterARestart) {
  if (!HasAlternatives()) GTEST_SKIP() << "the machine lacks AVX2";
  Start({"--retune"});
  EXPECT_EQ(Source(), ChoiceSource::kMeasuredAtStart);
  const auto first = Connect().Call(wire::TuningArgs{});
  ASSERT_TRUE(first);
  EXPECT_GT(first->record.slices, 0u);
  EXPECT_GT(first->record.used_unix_ms, 0u);
  EXPECT_EQ(first->record.measured_unix_ms, first->record.used_unix_ms);
  EXPECT_THAT(AwaitFile(), HasSubstr("\nproduct f16 wide "));
  EXPECT_THAT(Info(), HasSubstr("measured at the start (20"));

  StartAgain({});
  EXPECT_EQ(Source(), ChoiceSource::kMeasuredBefore);
  const auto second = Connect().Call(wire::TuningArgs{});
  EXPECT_EQ(second->record.used_unix_ms, first->record.used_unix_ms);
  EXPECT_EQ(second->record.slices, 0u);
  ASSERT_EQ(second->record.choice_count, first->record.choice_count);
  for (std::size_t i = 0; i < first->record.choice_count; ++i) {
    EXPECT_EQ(second->record.choices[i].wide_form, first->record.choices[i].wide_form);
    EXPECT_EQ(second->record.choices[i].wide_from_rows, first->record.choices[i].wide_from_rows);
  }
  EXPECT_THAT(Info("--json info"), HasSubstr("\"source\":\"measured before\""));
}

TEST_F(TuningTest, AnIdleDaemonMeasuresForTheNextStart) {
  if (!HasAlternatives()) GTEST_SKIP() << "the machine lacks AVX2";
  Start({});
  EXPECT_EQ(Source(), ChoiceSource::kDefaults);
  EXPECT_THAT(AwaitFile(), HasSubstr("\nproduct f16 wide "));
  const auto tuning = Connect().Call(wire::TuningArgs{});
  ASSERT_TRUE(tuning);
  EXPECT_EQ(static_cast<TuningProgress>(tuning->record.progress), TuningProgress::kMeasured);
  EXPECT_EQ(static_cast<ChoiceSource>(tuning->record.source), ChoiceSource::kDefaults);
  EXPECT_GT(tuning->record.slices, 0u);
  EXPECT_THAT(Info(), HasSubstr("defaults; measured for the next start (20"));
  StartAgain({});
  EXPECT_EQ(Source(), ChoiceSource::kMeasuredBefore);
}

TEST_F(TuningTest, WithoutTuningTheFileIsNotUsed) {
  if (!HasAlternatives()) GTEST_SKIP() << "the machine lacks AVX2";
  Start({"--retune"});
  Rewrite("product f16 wide outer from 2\n");
  StartAgain({"--no-tuning"});
  EXPECT_EQ(Source(), ChoiceSource::kOff);
  EXPECT_THAT(Info(), HasSubstr(DefaultOfF16()));
  StartAgain({});
  EXPECT_EQ(Source(), ChoiceSource::kMeasuredBefore);
  EXPECT_THAT(Info(), HasSubstr("f16 outer from 2 rows; "));
}

TEST_F(TuningTest, ADamagedOrForeignFileIsIgnoredWithOneLine) {
  if (!HasAlternatives()) GTEST_SKIP() << "the machine lacks AVX2";
  Start({"--retune"});
  std::string text = AwaitFile();
  EXPECT_THAT(daemon_->log_text(), Not(HasSubstr("tuning_ignored")));
  std::ofstream(File()) << text.substr(0, text.size() / 2);
  StartAgain({});
  EXPECT_EQ(Source(), ChoiceSource::kDefaults);
  EXPECT_TRUE(test::LogShows(*daemon_, "tuning_ignored reason=\"the checksum is missing"));
  std::ofstream(File()) << text;
  StartAgain({"-t", "1"});
  EXPECT_EQ(Source(), ChoiceSource::kDefaults);
  EXPECT_TRUE(test::LogShows(*daemon_, "tuning_ignored reason=\"measured with threads '2'"));
}

TEST_F(TuningTest, StatesComputedWithOtherChoicesStayValid) {
  if (!HasAlternatives()) GTEST_SKIP() << "the machine lacks AVX2";
  Start({"--retune"});
  Rewrite("product f16 wide none\n");
  StartAgain({});
  const std::vector<TokenId> retained(prompt_.begin(), prompt_.begin() + 100);
  const std::vector<TokenId> saved(prompt_.begin() + 100, prompt_.begin() + 200);
  const std::vector<TokenId> on_disk(prompt_.begin() + 200, prompt_.end());
  const std::vector<float> logits = Compute(retained).logits;
  (void)Compute(saved, "kept");
  (void)Compute(on_disk);
  {
    const Client client = Connect();
    for (int i = 0; i < 4000 && client.Call(wire::CacheArgs{})->record.entries < 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ASSERT_GE(client.Call(wire::CacheArgs{})->record.entries, 2u);
  }

  Rewrite("product f16 wide outer from 2\n");
  StartAgain({});
  EXPECT_EQ(Source(), ChoiceSource::kMeasuredBefore);
  EXPECT_THAT(Info(), HasSubstr("f16 outer from 2 rows; "));
  // Retained: the cells are still in the pool.
  const Computed again = Compute(retained);
  EXPECT_EQ(again.reuse.tokens, retained.size() - 1);
  EXPECT_EQ(again.reuse.origin, PrefixOrigin::kRetained);
  ASSERT_EQ(again.logits.size(), logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(again.logits[i], logits[i], 1e-2);
  // Saved: the state is loaded with its cells.
  const Client client = Connect();
  const auto loaded = client.Load("kept");
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_EQ(loaded->size(), 1u);
  // Cached on disk: a daemon without the pool reads the entry.
  ASSERT_TRUE(daemon_->Stop());
  for (const char* const name : {"meta", "pool"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(daemon_->folder())) {
      if (entry.path().filename() == name) {
        std::filesystem::remove(entry.path());
        break;
      }
    }
  }
  ASSERT_TRUE(daemon_->StartAgain(With({})));
  EXPECT_EQ(Source(), ChoiceSource::kMeasuredBefore);
  const Computed from_disk = Compute(on_disk);
  EXPECT_EQ(from_disk.reuse.tokens, on_disk.size() - 1);
  EXPECT_EQ(from_disk.reuse.origin, PrefixOrigin::kDisk);
}

TEST_F(TuningTest, DeterministicResultsDoNotDependOnTheFile) {
  if (!HasAlternatives()) GTEST_SKIP() << "the machine lacks AVX2";
  Start({"--retune"});
  std::vector<std::vector<float>> logits;
  for (const char* const products :
       {"", "product f16 wide none\n", "product f16 wide outer from 2\n",
        "product f16 wide outer from 256\n"}) {
    Rewrite(products);
    StartAgain({"--deterministic"});
    EXPECT_EQ(Source(), ChoiceSource::kDeterministic);
    EXPECT_THAT(Info(), HasSubstr("; deterministic"));
    logits.push_back(Compute(prompt_, "", wire::kFlagNoPrefix).logits);
    EXPECT_FALSE(logits.back().empty());
    EXPECT_EQ(logits.back(), logits.front()) << products;
  }
}

}  // namespace
}  // namespace kvd
