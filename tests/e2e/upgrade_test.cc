// Tests the compatibility with earlier versions of kvd: saved files and entries of the prompt cache
// load with their original content (tests/data/README.md), a `meta` of another version causes a
// cold start, and a client of another protocol version is refused.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "tests/e2e/support/raw_client.h"
#include "tests/e2e/support/saved_forms.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;
using test::FormContent;
using test::SavedForm;
using testing::HasSubstr;

const std::vector<std::string> kFolders = {"saved_3b9e3d3"};

struct UpgradeCase {
  std::string folder;
  SavedForm form;
};

std::vector<UpgradeCase> Cases(bool cached_only) {
  std::vector<UpgradeCase> cases;
  for (const std::string& folder : kFolders) {
    for (const SavedForm& form : test::SavedForms()) {
      if (form.is_cached || !cached_only) cases.push_back({folder, form});
    }
  }
  return cases;
}

std::string NameOfCase(const testing::TestParamInfo<UpgradeCase>& info) {
  std::string name = info.param.folder + "_" + info.param.form.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

// Appends `tokens` to the sequence and returns the logits after each of them, [token][vocabulary].
std::vector<float> GoOn(const Client& client, SequenceHandle sequence,
                        const std::vector<TokenId>& tokens) {
  const auto entry = client.Query(sequence);
  EXPECT_TRUE(entry) << entry.error().message;
  if (!entry) return {};
  auto decoding =
      client.StartDecode(sequence, tokens, Pos{entry->next_pos}, wire::LogitsWanted::kAll);
  EXPECT_TRUE(decoding) << decoding.error().message;
  std::vector<float> values;
  for (;;) {
    const auto logits = decoding->Next();
    EXPECT_TRUE(logits) << logits.error().message;
    if (!logits) return {};
    values.insert(values.end(), logits->values().begin(), logits->values().end());
    if (!logits->has_more()) return values;
  }
}

// Generates 8 tokens greedily. The first token is drawn from the sequence's kept logits if
// `has_logits`, otherwise after one more prompt token.
std::vector<TokenId> Greedy(const Client& client, SequenceHandle sequence, bool has_logits) {
  GenerateOptions options;
  const TokenId prompt[] = {5};
  if (!has_logits) options.tokens = prompt;
  options.predict_max = 8;
  options.sampling.temperature = 0;
  options.flags = wire::kIgnoreEos | (has_logits ? wire::kContinue : 0u);
  auto generation = client.StartGenerate(sequence, options);
  EXPECT_TRUE(generation) << generation.error().message;
  std::vector<TokenId> tokens;
  for (;;) {
    const auto piece = generation->Next();
    EXPECT_TRUE(piece) << piece.error().message;
    if (!piece || !*piece) return tokens;
    tokens.insert(tokens.end(), (*piece)->tokens.begin(), (*piece)->tokens.end());
  }
}

std::vector<std::pair<TokenId, std::int32_t>> CellsOf(const Client& client,
                                                      SequenceHandle sequence) {
  const auto cells = client.ReadTokens(sequence);
  EXPECT_TRUE(cells) << cells.error().message;
  std::vector<std::pair<TokenId, std::int32_t>> read;
  for (const TokenAt& cell : *cells) read.emplace_back(cell.token, cell.pos.value);
  return read;
}

float LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

// The largest accepted difference of logits, which lie between -4 and 4 in the models of the saved
// folders. The kernels of another machine may compute attention in bf16 (docs/decisions/0015).
float Tolerance(const SavedForm& form) {
  return form.content == FormContent::kQ8Rows ? 0.2f : 0.05f;
}

class UpgradeTest : public testing::TestWithParam<UpgradeCase> {
 protected:
  const SavedForm& form() const { return GetParam().form; }
  fs::path data() const { return "tests/data/" + GetParam().folder; }

  // Makes a store with the folder's file of this form, and a copy of the folder's prompt cache.
  void SetUp() override {
    const fs::path own = folder_.path() / "store" / std::to_string(::geteuid());
    fs::create_directories(own);
    fs::permissions(folder_.path() / "store", fs::perms::owner_all);
    fs::copy_file(data() / "states" / form().name, own / form().name);
    fs::copy(data() / "cache", folder_.path() / "cache");
    fs::permissions(folder_.path() / "cache", fs::perms::owner_all);
    for (const auto& file : fs::directory_iterator(folder_.path() / "cache")) {
      fs::permissions(file.path(), fs::perms::owner_read | fs::perms::owner_write);
    }
  }
  DaemonProcess Start(bool with_cache, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments =
        ArgumentsFor(form(), (folder_.path() / "store").string(),
                     with_cache ? (folder_.path() / "cache").string() : "");
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto daemon = DaemonProcess::Start({.kvd_path = test::KvdPath(), .arguments = arguments});
    if (!daemon) throw std::runtime_error(daemon.error().message);
    return std::move(*daemon);
  }
  static Client Connect(const DaemonProcess& daemon) {
    auto client = Client::Connect({.socket_path = daemon.socket_path()});
    if (!client) throw std::runtime_error(client.error().message);
    return std::move(*client);
  }

  test::TemporaryFolder folder_;
};

TEST_P(UpgradeTest, ASavedFileOfAnEarlierVersionContinuesWithTheSameBits) {
  const DaemonProcess daemon = Start(false);
  const Client client = Connect(daemon);
  const auto saved = client.Saved();
  ASSERT_TRUE(saved) << saved.error().message;
  ASSERT_EQ(saved->size(), 1u);
  EXPECT_EQ((*saved)[0].flags & (wire::kSavedThisModel | wire::kSavedDamaged),
            wire::kSavedThisModel);
  const bool has_logits = ((*saved)[0].flags & wire::kSavedLogits) != 0;
  const auto loaded = client.Load(form().name);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Client other = Connect(daemon);
  const auto made = MakeForm(other, form());
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(loaded->size(), made->size());
  std::uint64_t cells = 0;
  for (std::size_t i = 0; i < made->size(); ++i) {
    SCOPED_TRACE("sequence " + std::to_string(i));
    const LoadedSequence& sequence = (*loaded)[i];
    EXPECT_EQ(sequence.is_computed, form().content == FormContent::kTokensOnly);
    EXPECT_EQ(sequence.is_converted, form().content == FormContent::kQ8Rows);
    const auto expected = CellsOf(other, (*made)[i]);
    EXPECT_EQ(CellsOf(client, sequence.handle), expected);
    EXPECT_EQ(sequence.cell_count, expected.size());
    cells += expected.size();
    ASSERT_EQ(sequence.has_sampler, form().content == FormContent::kSampled);
    if (sequence.has_sampler) {
      const auto resumed = test::ResumeSampler(client, sequence.handle, 10);
      ASSERT_TRUE(resumed) << resumed.error().message;
      EXPECT_EQ(resumed->size(), 10u);
      EXPECT_EQ(*resumed, test::ResumeSampler(other, (*made)[i], 10));
    }
    const auto expect_continuation = [&] {
      EXPECT_LE(LargestDifference(GoOn(client, sequence.handle, test::FormContinuation()),
                                  GoOn(other, (*made)[i], test::FormContinuation())),
                Tolerance(form()));
    };
    if (!has_logits) expect_continuation();
    const std::vector<TokenId> greedy = Greedy(client, sequence.handle, has_logits);
    EXPECT_EQ(greedy.size(), 8u);
    // The rounding of q8_0 rows may change the likeliest token.
    if (form().content != FormContent::kQ8Rows) {
      EXPECT_EQ(greedy, Greedy(other, (*made)[i], has_logits));
    }
    if (has_logits) expect_continuation();
  }
  EXPECT_EQ((*saved)[0].cell_count, cells);
}

INSTANTIATE_TEST_SUITE_P(All, UpgradeTest, testing::ValuesIn(Cases(false)), NameOfCase);

class CacheUpgradeTest : public UpgradeTest {};

TEST_P(CacheUpgradeTest, ACacheEntryOfAnEarlierVersionIsReused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, whose uid is in the entries' names";
  const DaemonProcess daemon = Start(true);
  const Client client = Connect(daemon);
  ASSERT_EQ(client.Call(wire::CacheArgs{})->record.entries, 1u);
  std::vector<TokenId> prompt = test::FormTokens();
  const std::vector<TokenId> more = test::FormContinuation();
  prompt.insert(prompt.end(), more.begin(), more.end());
  const auto logits_of = [&](std::uint16_t flags, PrefixReuse* reuse) {
    const auto sequence = client.Create();
    EXPECT_TRUE(sequence);
    auto decoding = client.StartDecode(*sequence, prompt, Pos{0}, wire::LogitsWanted::kLast, flags);
    EXPECT_TRUE(decoding) << decoding.error().message;
    const auto logits = decoding->Next();
    EXPECT_TRUE(logits) << logits.error().message;
    *reuse = logits->reuse();
    EXPECT_EQ(logits->row_count(), 1u);
    EXPECT_EQ(CellsOf(client, *sequence).size(), prompt.size());
    return std::vector<float>(logits->values().begin(), logits->values().end());
  };
  PrefixReuse found, nothing;
  const std::vector<float> served = logits_of(0, &found);
  EXPECT_EQ(found.origin, PrefixOrigin::kDisk);
  EXPECT_EQ(found.tokens, test::kFormTokens);
  EXPECT_EQ(client.Call(wire::CacheArgs{})->record.loads, 1u);
  EXPECT_EQ(client.Call(wire::CacheArgs{})->record.entries_dropped, 0u);
  EXPECT_EQ(client.Info()->prefix_tokens_reused[static_cast<int>(PrefixOrigin::kDisk)],
            test::kFormTokens);
  EXPECT_LE(LargestDifference(served, logits_of(wire::kFlagNoPrefix, &nothing)), Tolerance(form()));
  EXPECT_EQ(nothing.tokens, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, CacheUpgradeTest, testing::ValuesIn(Cases(true)), NameOfCase);

// ------------------------------------------------------------------------------ other versions

// A daemon with a store. The tests publish and save sequences in it.
class VersionTest : public test::ServedDaemonTest {
 protected:
  VersionTest() : VersionTest(std::make_shared<test::TemporaryFolder>()) {}
  explicit VersionTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : ServedDaemonTest({"--store", (folder->path() / "store").string()}), folder_(folder) {}

  std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(VersionTest, StateOfAnotherVersionStartsColdAndLeavesSavedFiles) {
  for (const std::uint32_t version : {layout::kLayoutVersion - 1, layout::kLayoutVersion + 1}) {
    const std::string name = "of" + std::to_string(version);
    {
      const Client client = Connect();
      const auto sequence = client.NewSequence();
      ASSERT_TRUE(sequence);
      ASSERT_TRUE(sequence->Decode(test::FormTokens(), Pos{0}));
      ASSERT_TRUE(sequence->Publish(name));
      ASSERT_TRUE(client.Save(sequence->handle(), name));
    }
    ASSERT_TRUE(daemon_->Stop());
    const fs::path meta = daemon_->folder() + "/state/meta";
    {
      std::fstream file(meta, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(offsetof(layout::MetaHeader, version));
      file.write(reinterpret_cast<const char*>(&version), sizeof version);
      ASSERT_TRUE(file.good());
    }
    ASSERT_TRUE(daemon_->StartAgain());
    EXPECT_TRUE(test::LogShows(*daemon_, "cold_start"));
    EXPECT_TRUE(test::LogShows(*daemon_, "meta: version: " + std::to_string(version) +
                                             ", this build reads " +
                                             std::to_string(layout::kLayoutVersion)))
        << daemon_->log_text();
    EXPECT_TRUE(fs::exists(meta.string() + ".bad"));
    const Client client = Connect();
    EXPECT_TRUE(client.List()->empty());
    EXPECT_TRUE(client.Snapshots()->empty());
    const auto loaded = client.Load(name);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ((*loaded)[0].cell_count, test::kFormTokens);
    EXPECT_FALSE((*loaded)[0].is_computed);
  }
  ExpectServesOthers();
}

// The hello and the welcome have the sizes, and the welcome's text has the offset, that protocol 4
// defines. A client of another version sends and reads only the bytes that protocol 4 defines.
TEST_F(VersionTest, AClientOfAnotherProtocolVersionIsRefusedWithBothVersionsNamed) {
  constexpr std::size_t kHelloBytes = 128, kWelcomeBytes = 248, kMessageOffset = 88;
  for (const std::uint32_t version : {wire::kProtocolVersion - 1, wire::kProtocolVersion + 1}) {
    std::array<char, kHelloBytes> hello{};
    std::memcpy(hello.data(), &wire::kHelloMagic, sizeof wire::kHelloMagic);
    std::memcpy(hello.data() + 8, &version, sizeof version);
    const UniqueFd socket = test::ConnectRaw(socket_path());
    ASSERT_TRUE(socket);
    ASSERT_EQ(::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(hello.size()));
    std::array<char, kWelcomeBytes + 1> welcome{};
    ASSERT_EQ(::recv(socket.get(), welcome.data(), kWelcomeBytes, MSG_WAITALL),
              static_cast<ssize_t>(kWelcomeBytes));
    EXPECT_EQ(std::memcmp(welcome.data(), &wire::kWelcomeMagic, sizeof wire::kWelcomeMagic), 0);
    EXPECT_EQ(std::memcmp(welcome.data() + 8, &wire::kProtocolVersion, 4), 0);
    EXPECT_EQ(static_cast<Code>(welcome[12]), Code::kVersionMismatch);
    const std::string message = welcome.data() + kMessageOffset;
    EXPECT_THAT(message, HasSubstr("the client speaks protocol " + std::to_string(version)));
    EXPECT_THAT(message, HasSubstr("the daemon speaks " + std::to_string(wire::kProtocolVersion)));
  }
  ExpectServesOthers();
}

}  // namespace
}  // namespace kvd
