// The calls of the C interface that read or write files, with folders that cannot be used, full
// file systems and files of another model.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/c_api/c_api_test.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> NamesIn(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

class FailingStoreTest : public test::CApiTest {
 protected:
  FailingStoreTest() : FailingStoreTest(std::make_shared<test::TemporaryFolder>()) {}

  std::filesystem::path StorePath() const { return folder_->path() / "store"; }
  // The folder of this user's saved states.
  std::filesystem::path OwnPath() const { return StorePath() / std::to_string(::geteuid()); }
  int Load(const char* name, kvd_request* later) {
    return kvd_load(client_, name, &loaded_, &count_, &tokens_, &token_count_, later);
  }
  std::size_t SequenceCount() const {
    kvd_sequence_info* list = nullptr;
    std::size_t count = 0;
    EXPECT_EQ(kvd_list(client_, &list, &count, nullptr), KVD_OK) << kvd_error_message();
    kvd_free(list);
    return count;
  }

  kvd_loaded_sequence* loaded_ = nullptr;
  std::size_t count_ = 7;
  kvd_token* tokens_ = nullptr;
  std::size_t token_count_ = 7;

 private:
  explicit FailingStoreTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : CApiTest({"--store", (folder->path() / "store").string()}), folder_(folder) {}

  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(FailingStoreTest, EveryCallSaysThatTheFolderCannotBeOpened) {
  const kvd_sequence source = Filled(10);
  std::ofstream(OwnPath()) << "a file in the place of the folder";
  kvd_saved_info* saved = nullptr;
  kvd_save_info info = {.file_bytes = 7, .unpacked_bytes = 7, .cell_count = 7};
  ExpectRefused({
      {KVD_IO, "Not a directory",
       [&](auto* later) { return kvd_save(client_, source, "x", 0, &info, later); }},
      {KVD_IO, "Not a directory",
       [&](auto* later) { return kvd_save_all(client_, "x", 0, &info, later); }},
      {KVD_IO, "Not a directory", [&](auto* later) { return Load("x", later); }},
      {KVD_IO, "Not a directory",
       [&](auto* later) { return kvd_saved(client_, &saved, &count_, later); }},
      {KVD_IO, "Not a directory",
       [&](auto* later) { return kvd_remove_saved(client_, "x", later); }},
  });
  EXPECT_EQ(info.file_bytes, 7u) << "written on an error";
  EXPECT_EQ(saved, nullptr);
  EXPECT_EQ(loaded_, nullptr);
  EXPECT_EQ(count_, 7u);
  EXPECT_EQ(SequenceCount(), 1u);
  InBothForms([&] {
    EXPECT_EQ(Call([&](auto* later) { return kvd_save_size(client_, source, 0, &info, later); }),
              KVD_OK)
        << "it needs no folder: " << kvd_error_message();
  });
  std::filesystem::remove(OwnPath());
  EXPECT_EQ(kvd_save(client_, source, "x", 0, nullptr, nullptr), KVD_OK) << kvd_error_message();
}

TEST_F(FailingStoreTest, AFolderInThePlaceOfAFileIsNeitherLoadedNorReplacedNorRemoved) {
  const kvd_sequence source = Filled(10);
  std::filesystem::create_directories(OwnPath() / "taken" / "inside");
  ExpectRefused({
      {KVD_CORRUPT, "not a regular file", [&](auto* later) { return Load("taken", later); }},
      {KVD_IO, "taken",
       [&](auto* later) {
         return kvd_save(client_, source, "taken", KVD_SAVE_REPLACE, nullptr, later);
       }},
      {KVD_IO, "taken", [&](auto* later) { return kvd_remove_saved(client_, "taken", later); }},
  });
  EXPECT_THAT(NamesIn(OwnPath()), testing::ElementsAre("taken")) << "no temporary file is left";
  EXPECT_TRUE(std::filesystem::exists(OwnPath() / "taken" / "inside"));
}

TEST_F(FailingStoreTest, AFileOfAnotherModelIsListedAndNotLoaded) {
  auto other =
      DaemonProcess::Start({.kvd_path = test::KvdPath(),
                            .arguments = {"-m", test::TinyModelPath(test::TinyLlama()), "-c", "512",
                                          "-t", "1", "--store", StorePath().string()}});
  ASSERT_TRUE(other) << other.error().message;
  kvd_client* writer = Open(
      [&](kvd_connect_options& options) { options.socket_path = other->socket_path().c_str(); });
  kvd_sequence theirs = 0;
  const kvd_token tokens[] = {5, 6, 7};
  kvd_logits logits;
  ASSERT_EQ(kvd_sequence_create(writer, nullptr, &theirs, nullptr), KVD_OK);
  ASSERT_EQ(kvd_decode(writer, theirs, tokens, 3, 0, KVD_LOGITS_NONE, &logits, nullptr), KVD_OK);
  ASSERT_EQ(kvd_save(writer, theirs, "theirs", 0, nullptr, nullptr), KVD_OK) << kvd_error_message();
  std::swap(client_, writer);
  ExpectRefused({
      {KVD_UNSUPPORTED, "q8_0 packs 32 elements",
       [&](auto* later) {
         return kvd_save(client_, theirs, "x", KVD_SAVE_Q8_ROWS, nullptr, later);
       }},
      {KVD_UNSUPPORTED, "q8_0 packs 32 elements",
       [&](auto* later) {
         return kvd_save_size(client_, theirs, KVD_SAVE_Q8_ROWS, nullptr, later);
       }},
  });
  std::vector<std::byte> file(kvd_state_seq_get_size(client_, theirs, 0));
  EXPECT_EQ(kvd_state_seq_get_data(client_, theirs, file.data(), file.size(), 0), file.size())
      << kvd_error_message();
  std::swap(client_, writer);
  kvd_sequence made = 0;
  EXPECT_EQ(kvd_state_seq_set_data(client_, file.data(), file.size(), 0, &made), 0u);
  EXPECT_EQ(kvd_error_code(), KVD_INVALID_ARGUMENT) << kvd_error_message();
  EXPECT_THAT(kvd_error_message(), HasSubstr("the model "));
  EXPECT_EQ(made, 0u);
  kvd_close(writer);
  ASSERT_TRUE(other->Stop());
  ExpectRefused({{KVD_UNSUPPORTED, "model", [&](auto* later) { return Load("theirs", later); }}});
  EXPECT_EQ(loaded_, nullptr);
  EXPECT_EQ(SequenceCount(), 0u);
  kvd_saved_info* saved = nullptr;
  ASSERT_EQ(kvd_saved(client_, &saved, &count_, nullptr), KVD_OK);
  ASSERT_EQ(count_, 1u);
  EXPECT_STREQ(saved[0].name, "theirs");
  EXPECT_EQ(saved[0].flags & (KVD_SAVED_THIS_MODEL | KVD_SAVED_DAMAGED), 0u);
  kvd_free(saved);
}

// A file system of 256 KiB, which only this process and its children see.
class FullFileSystemTest : public FailingStoreTest {
 protected:
  void SetUp() override {
    path_ = StorePath();
    std::filesystem::create_directory(path_);
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
    is_mounted_ = ::unshare(CLONE_NEWNS) == 0 &&
                  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                  ::mount("kvd-test", path_.c_str(), "tmpfs", 0, "size=256k,mode=0700") == 0;
    if (!is_mounted_) GTEST_SKIP() << "a tmpfs cannot be mounted: " << std::strerror(errno);
    FailingStoreTest::SetUp();
  }
  void TearDown() override {
    FailingStoreTest::TearDown();
    if (is_mounted_) {
      EXPECT_EQ(::umount2(path_.c_str(), MNT_DETACH), 0);
    }
  }

  std::filesystem::path path_;

 private:
  bool is_mounted_ = false;
};

TEST_F(FullFileSystemTest, ASaveThatDoesNotFitLeavesNoFile) {
  const kvd_sequence large = Filled(1500);
  const kvd_sequence small = Filled(10);
  constexpr std::uint32_t kFlags = KVD_SAVE_UNPACKED | KVD_SAVE_REPLACE;
  ExpectRefused({
      {KVD_NO_SPACE, "No space left",
       [&](auto* later) { return kvd_save(client_, large, "x", kFlags, nullptr, later); }},
      {KVD_NO_SPACE, "No space left",
       [&](auto* later) { return kvd_save_all(client_, "x", kFlags, nullptr, later); }},
  });
  EXPECT_THAT(NamesIn(OwnPath()), IsEmpty());
  EXPECT_EQ(kvd_save(client_, small, "x", 0, nullptr, nullptr), KVD_OK) << kvd_error_message();
}

TEST_F(FullFileSystemTest, AStateFileThatDoesNotFitIsNotLeft) {
  const kvd_sequence sequence = Filled(1500);
  const std::string path = path_ / "state";
  EXPECT_EQ(kvd_state_seq_save_file(client_, sequence, path.c_str(), 0), 0u);
  EXPECT_EQ(kvd_error_code(), KVD_NO_SPACE) << kvd_error_message();
  EXPECT_EQ(kvd_state_save_file(client_, path.c_str(), 0), 0u);
  EXPECT_EQ(kvd_error_code(), KVD_NO_SPACE) << kvd_error_message();
  EXPECT_THAT(NamesIn(path_), IsEmpty());
}

TEST_F(FailingStoreTest, PathsOfStateFilesThatTheSystemRefusesAreNamed) {
  const kvd_sequence sequence = Filled(10);
  const std::string folder = StorePath() / "folder";
  std::filesystem::create_directories(std::filesystem::path(folder) / "inside");
  const std::string file = StorePath() / "file";
  std::ofstream(file) << "x";
  const std::string below = file + "/below";
  const auto refused = [](std::size_t bytes, const std::string& message) {
    EXPECT_EQ(bytes, 0u);
    EXPECT_EQ(kvd_error_code(), KVD_IO) << kvd_error_message();
    EXPECT_THAT(kvd_error_message(), HasSubstr(message));
  };
  kvd_sequence made = 0;
  kvd_sequence* all = nullptr;
  std::size_t count = 7;
  refused(kvd_state_seq_save_file(client_, sequence, folder.c_str(), 0), folder);
  refused(kvd_state_save_file(client_, folder.c_str(), 0), folder);
  refused(kvd_state_seq_save_file(client_, sequence, below.c_str(), 0), below);
  refused(kvd_state_seq_load_file(client_, below.c_str(), 0, &made), below);
  refused(kvd_state_load_file(client_, below.c_str(), 0, &all, &count), below);
  EXPECT_EQ(made, 0u);
  EXPECT_EQ(all, nullptr);
  EXPECT_EQ(count, 7u);
  EXPECT_THAT(NamesIn(StorePath()), testing::UnorderedElementsAre("folder", "file"))
      << "no temporary file is left";
}

// Another user, to whom the kernel denies what the daemon's user may do.
TEST_F(FailingStoreTest, AStateFileOfAnotherUserIsDenied) {
  const std::string path = StorePath() / "denied";
  std::ofstream(path) << "x";
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Files are opened before the client is used, which is the parent's.
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(99);
    kvd_sequence made = 0;
    const bool fails = kvd_state_seq_load_file(client_, path.c_str(), 0, &made) == 0;
    ::_exit(fails ? kvd_error_code() : 98);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), KVD_PERMISSION);
}

}  // namespace
}  // namespace kvd
