// Tests sequences that clients of a real daemon save and that other clients and a later daemon
// load, names that would lead outside the store, and damaged files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "client/kvd.h"
#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;

struct Folder {
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvd-store-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

class SavedStatesTest : public test::ServedDaemonTest {
 protected:
  SavedStatesTest() : SavedStatesTest(std::make_shared<Folder>()) {}
  explicit SavedStatesTest(const std::shared_ptr<Folder>& folder)
      : ServedDaemonTest({"--store", folder->path.string(), "--deterministic"}), folder_(folder) {}
  std::filesystem::path PathOf(const std::string& name) const {
    return folder_->path / std::to_string(::geteuid()) / name;
  }
  static std::vector<TokenId> Greedy(const Client& client, SequenceHandle handle) {
    GenerateOptions options;
    const TokenId prompt[] = {5};
    options.tokens = prompt;
    options.predict_max = 12;
    options.sampling.temperature = 0;
    auto generation = client.StartGenerate(handle, options);
    EXPECT_TRUE(generation) << generation.error().message;
    std::vector<TokenId> tokens;
    for (;;) {
      auto piece = generation->Next();
      EXPECT_TRUE(piece) << piece.error().message;
      if (!piece || !piece->has_value()) return tokens;
      tokens.insert(tokens.end(), (*piece)->tokens.begin(), (*piece)->tokens.end());
    }
  }
  static SequenceHandle Filled(const Client& client, std::size_t count) {
    const auto handle = client.Create();
    std::vector<TokenId> tokens;
    for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(i * 7 % 200 + 3));
    auto decoding = client.StartDecode(*handle, tokens, Pos{0}, wire::LogitsWanted::kNone);
    EXPECT_TRUE(decoding && decoding->Next());
    return *handle;
  }

  std::shared_ptr<Folder> folder_;
};

TEST_F(SavedStatesTest, AClientContinuesASequenceThatAnotherOneSaved) {
  std::vector<TokenId> expected;
  {
    const Client client = Connect();
    const SequenceHandle handle = Filled(client, 300);
    const auto size = client.SaveSize(handle, {.is_packed = false});
    ASSERT_TRUE(size) << size.error().message;
    const auto plain = client.Save(handle, "plain", {.is_packed = false});
    ASSERT_TRUE(plain) << plain.error().message;
    EXPECT_EQ(plain->file_bytes, size->unpacked_bytes);
    EXPECT_EQ(std::filesystem::file_size(PathOf("plain")), size->unpacked_bytes);
    ASSERT_TRUE(client.Save(handle, "packed"));
    ASSERT_TRUE(client.Save(handle, "tokens", {.tokens_only = true}));
    EXPECT_EQ(client.Save(handle, "plain").error().code, Code::kExists);
    ASSERT_TRUE(client.Save(handle, "plain", {.is_packed = false, .replaces = true}));
    expected = Greedy(client, handle);
  }
  const Client client = Connect();
  for (const char* name : {"plain", "packed", "tokens"}) {
    const auto loaded = client.Load(name);
    ASSERT_TRUE(loaded) << loaded.error().message;
    ASSERT_EQ(loaded->size(), 1u);
    EXPECT_EQ((*loaded)[0].cell_count, 300u);
    EXPECT_EQ((*loaded)[0].is_computed, std::string(name) == "tokens");
    EXPECT_FALSE((*loaded)[0].is_converted);
    EXPECT_EQ(Greedy(client, (*loaded)[0].handle), expected) << name;
  }
  const auto saved = client.Saved();
  ASSERT_TRUE(saved) << saved.error().message;
  ASSERT_EQ(saved->size(), 3u);
  EXPECT_STREQ((*saved)[0].name, "packed");
  EXPECT_EQ((*saved)[0].cell_count, 300u);
  EXPECT_EQ((*saved)[0].flags & wire::kSavedThisModel, wire::kSavedThisModel);
  EXPECT_EQ((*saved)[2].flags & wire::kSavedTokensOnly, wire::kSavedTokensOnly);
  ASSERT_TRUE(client.RemoveSaved("packed"));
  EXPECT_EQ(client.RemoveSaved("packed").error().code, Code::kNotFound);
  EXPECT_EQ(client.Load("packed").error().code, Code::kNotFound);
}

TEST_F(SavedStatesTest, AllSequencesOfASessionAreLoadedTogether) {
  std::vector<std::vector<TokenId>> expected;
  {
    const Client client = Connect();
    std::vector<SequenceHandle> handles = {Filled(client, 40), Filled(client, 90)};
    handles.push_back((*client.Fork(handles[1], 50, 1))[0]);
    const auto info = client.SaveAll("all");
    ASSERT_TRUE(info) << info.error().message;
    EXPECT_EQ(info->cell_count, 180u);
    for (const SequenceHandle handle : handles) expected.push_back(Greedy(client, handle));
  }
  const Client client = Connect();
  EXPECT_EQ(client.SaveAll("none").error().code, Code::kNotFound);
  const auto loaded = client.Load("all");
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_EQ(loaded->size(), 3u);
  std::vector<std::vector<TokenId>> answers;
  for (const LoadedSequence& sequence : *loaded) {
    answers.push_back(Greedy(client, sequence.handle));
  }
  EXPECT_THAT(answers, ::testing::UnorderedElementsAreArray(expected));
}

TEST_F(SavedStatesTest, OthersDecodeWhileASequenceIsSavedAndLoaded) {
  const Client client = Connect();
  const SequenceHandle handle = Filled(client, 400);
  std::jthread other([&](const std::stop_token& stop) {
    const Client busy = Connect();
    while (!stop.stop_requested()) {
      const SequenceHandle own = Filled(busy, 20);
      EXPECT_TRUE(busy.Drop(own));
    }
  });
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(client.Save(handle, "state", {.replaces = true}));
    const auto loaded = client.Load("state");
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_TRUE(client.Drop((*loaded)[0].handle));
  }
}

TEST_F(SavedStatesTest, NamesWithPathsAndDamagedFilesAreRefused) {
  const Client client = Connect();
  const SequenceHandle handle = Filled(client, 20);
  for (const char* name : {"../x", ".hidden", "a/b", "", "with space"}) {
    EXPECT_EQ(client.Save(handle, name).error().code, Code::kInvalidArgument) << name;
    EXPECT_EQ(client.Load(name).error().code, Code::kInvalidArgument) << name;
    EXPECT_EQ(client.RemoveSaved(name).error().code, Code::kInvalidArgument) << name;
  }
  EXPECT_EQ(client.Load("nothing").error().code, Code::kNotFound);
  ASSERT_TRUE(client.Save(handle, "good"));
  std::filesystem::copy_file(PathOf("good"), folder_->path / "outside");
  std::filesystem::create_symlink(folder_->path / "outside", PathOf("link"));
  EXPECT_FALSE(client.Load("link"));
  ASSERT_EQ(::mkfifo(PathOf("pipe").c_str(), 0600), 0);
  EXPECT_EQ(client.Load("pipe").error().code, Code::kCorrupt);
  std::filesystem::resize_file(PathOf("good"), 1000);
  const auto damaged = client.Load("good");
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Code::kCorrupt) << damaged.error().message;
  EXPECT_EQ(client.List()->size(), 1u) << "a refused load leaves nothing";
  EXPECT_EQ((*client.Saved())[0].flags, wire::kSavedDamaged);
  ExpectServesOthers();
}

TEST_F(SavedStatesTest, TheCInterfaceSavesAndLoads) {
  const Client client = Connect();
  const SequenceHandle handle = Filled(client, 30);
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  options.socket_path = socket_path().c_str();
  kvd_client* c = nullptr;
  ASSERT_EQ(kvd_connect(&options, &c), KVD_OK) << kvd_error_message();
  const auto sequence = static_cast<kvd_sequence>(handle);
  kvd_save_info info{};
  ASSERT_EQ(kvd_save_size(c, sequence, 0, &info, nullptr), KVD_OK) << kvd_error_message();
  EXPECT_EQ(info.file_bytes, 0u);
  ASSERT_EQ(kvd_save(c, sequence, "c", KVD_SAVE_UNPACKED, &info, nullptr), KVD_OK)
      << kvd_error_message();
  EXPECT_EQ(info.file_bytes, info.unpacked_bytes);
  EXPECT_EQ(kvd_save(c, sequence, "c", 1u << 20, nullptr, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_save(c, sequence, nullptr, 0, nullptr, nullptr), KVD_INVALID_ARGUMENT);
  ASSERT_EQ(kvd_save(c, sequence, "c", KVD_SAVE_REPLACE, nullptr, nullptr), KVD_OK);
  kvd_loaded_sequence* loaded = nullptr;
  size_t count = 0;
  ASSERT_EQ(kvd_load(c, "c", &loaded, &count, nullptr, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(loaded[0].cell_count, 30u);
  EXPECT_STREQ(loaded[0].k_type, "f16");
  kvd_free(loaded);
  ASSERT_EQ(kvd_save_all(c, "all", 0, nullptr, nullptr), KVD_OK) << kvd_error_message();
  kvd_saved_info* saved = nullptr;
  ASSERT_EQ(kvd_saved(c, &saved, &count, nullptr), KVD_OK);
  ASSERT_EQ(count, 2u);
  EXPECT_STREQ(saved[1].name, "c");
  kvd_free(saved);
  EXPECT_EQ(kvd_remove_saved(c, "c", nullptr), KVD_OK);
  EXPECT_EQ(kvd_load(c, "c", &loaded, &count, nullptr, nullptr, nullptr), KVD_NOT_FOUND);
  kvd_close(c);
}

// Decodes the first `count` tokens of Filled()'s prompt and one more token in a new sequence, and
// returns the number of tokens that it took from another sequence.
std::uint32_t SharedTokens(const Client& client, std::size_t count) {
  const auto handle = client.Create();
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(i * 7 % 200 + 3));
  tokens.push_back(2);
  auto decoding = client.StartDecode(*handle, tokens, Pos{0}, wire::LogitsWanted::kNone);
  EXPECT_TRUE(decoding);
  const auto logits = decoding->Next();
  EXPECT_TRUE(logits);
  EXPECT_TRUE(client.Drop(*handle));
  return logits->reuse().tokens;
}

TEST_F(SavedStatesTest, LoadedCellsAreReusedByOtherPrompts) {
  const Client client = Connect();
  const SequenceHandle handle = Filled(client, 100);
  ASSERT_TRUE(client.Save(handle, "whole"));
  ASSERT_TRUE(client.Save(handle, "q8", {.q8_rows = true}));
  const auto fork = client.Fork(handle, -1, 1);
  ASSERT_TRUE(fork);
  ASSERT_TRUE(client.RemoveRange((*fork)[0], {Pos{60}, Pos{70}}));
  ASSERT_TRUE(client.Save((*fork)[0], "edited"));
  ASSERT_TRUE(client.Drop(handle) && client.Drop((*fork)[0]));
  const Client other = Connect();
  EXPECT_EQ(SharedTokens(other, 100), 0u);
  const auto q8 = client.Load("q8");
  ASSERT_TRUE(q8);
  EXPECT_EQ(SharedTokens(other, 100), 0u) << "converted cells are not what the model computes";
  const auto edited = client.Load("edited");
  ASSERT_TRUE(edited);
  EXPECT_EQ(SharedTokens(other, 100), 60u) << "up to the edit";
  const auto whole = client.Load("whole");
  ASSERT_TRUE(whole);
  EXPECT_EQ(SharedTokens(other, 100), 100u);
}

class NoStoreTest : public test::ServedDaemonTest {};

TEST_F(NoStoreTest, WithoutAStoreSavingIsRefused) {
  const Client client = Connect();
  const auto handle = client.Create();
  EXPECT_EQ(client.Save(*handle, "x").error().code, Code::kUnsupported);
  EXPECT_THAT(client.Load("x").error().message, HasSubstr("--store"));
  EXPECT_EQ(client.Saved().error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace kvd
