// The calls of the C interface for snapshots and saved states.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/c_api/c_api_test.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using test::NewSequence;

class NamedCallsTest : public test::CApiTest {
 protected:
  NamedCallsTest() : NamedCallsTest(std::make_shared<test::TemporaryFolder>()) {}

  std::string StorePath() const { return (folder_->path() / "store").string(); }
  // Returns the snapshot of the name; its own name is empty if there is none.
  kvd_snapshot_info Snapshot(const std::string& name) const {
    kvd_snapshot_info* list = nullptr;
    std::size_t count = 0;
    EXPECT_EQ(kvd_snapshots(client_, &list, &count, nullptr), KVD_OK) << kvd_error_message();
    kvd_snapshot_info found{};
    for (std::size_t i = 0; i < count; ++i) {
      if (name == list[i].name) found = list[i];
    }
    kvd_free(list);
    return found;
  }

 private:
  explicit NamedCallsTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : CApiTest({"--store", (folder->path() / "store").string(), "--max-sequences", "100"}),
        folder_(folder) {}

  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(NamedCallsTest, SnapshotsArePublishedListedAttachedAndUnpublished) {
  const kvd_sequence source = Filled(20);
  InBothForms([&] {
    kvd_sequence snapshot = 0;
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_publish(client_, source, "one", NewSequence(500, KVD_PUBLIC), &snapshot,
                                   later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(Snapshot("one").sequence, snapshot);
    EXPECT_EQ(Snapshot("one").is_public, 1u);
    EXPECT_EQ(Snapshot("one").cell_count, 20u);
    EXPECT_GT(Snapshot("one").expires_in_seconds, 0u);
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_publish(client_, source, "one",
                                   NewSequence(0, KVD_FORCE | KVD_EPHEMERAL), nullptr, later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(Snapshot("one").is_public, 0u);
    EXPECT_EQ(Snapshot("one").is_ephemeral, 1u);
    EXPECT_EQ(Snapshot("one").expires_in_seconds, 0u);
    kvd_snapshot_info* list = nullptr;
    std::size_t count = 0;
    ASSERT_EQ(Call([&](auto* later) { return kvd_snapshots(client_, &list, &count, later); }),
              KVD_OK);
    ASSERT_EQ(count, 1u);
    EXPECT_STREQ(list[0].name, "one");
    kvd_free(list);
    kvd_sequence fork = 0;
    kvd_fork_info info{};
    ASSERT_EQ(Call([&](auto* later) { return kvd_attach(client_, "one", &fork, &info, later); }),
              KVD_OK);
    EXPECT_EQ(info.cell_count, 20u);
    EXPECT_EQ(Cells(fork), Cells(source));
    ASSERT_EQ(Call([&](auto* later) { return kvd_unpublish(client_, "one", 0, later); }), KVD_OK);
    EXPECT_STREQ(Snapshot("one").name, "");
    EXPECT_EQ(Query(fork).cell_count, 20u);
  });
}

TEST_F(NamedCallsTest, CallsOnSnapshotsNameTheirErrors) {
  const kvd_sequence source = Filled(10);
  kvd_client* other = Open();
  kvd_sequence others = 0;
  ASSERT_EQ(kvd_sequence_create(other, nullptr, &others, nullptr), KVD_OK);
  ASSERT_EQ(kvd_publish(other, others, "others", nullptr, nullptr, nullptr), KVD_OK);
  ASSERT_EQ(kvd_publish(client_, source, "taken", nullptr, nullptr, nullptr), KVD_OK);
  kvd_sequence made = 0;
  ExpectRefused({
      {KVD_EXISTS, "taken",
       [&](auto* later) { return kvd_publish(client_, source, "taken", nullptr, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "name",
       [&](auto* later) { return kvd_publish(client_, source, ".x", nullptr, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "name: a null pointer",
       [&](auto* later) { return kvd_publish(client_, source, nullptr, nullptr, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) {
         return kvd_publish(client_, source, "x", NewSequence(0, KVD_SPECIAL), nullptr, later);
       }},
      {KVD_INVALID_ARGUMENT, "ttl_seconds",
       [&](auto* later) {
         return kvd_publish(client_, source, "x", NewSequence(31'536'001), nullptr, later);
       }},
      {KVD_NOT_FOUND, "", [&](auto* later) { return kvd_unpublish(client_, "none", 0, later); }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) { return kvd_unpublish(client_, "taken", KVD_PUBLIC, later); }},
      {KVD_INVALID_ARGUMENT, "name: a null pointer",
       [&](auto* later) { return kvd_unpublish(client_, nullptr, 0, later); }},
      {KVD_NOT_FOUND, "",
       [&](auto* later) { return kvd_attach(client_, "none", &made, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "sequence: a null pointer",
       [&](auto* later) { return kvd_attach(client_, "taken", nullptr, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "list: a null pointer",
       [&](auto* later) { return kvd_snapshots(client_, nullptr, nullptr, later); }},
  });
  EXPECT_EQ(kvd_unpublish(client_, "others", KVD_FORCE, nullptr), KVD_OK) << "of this user";
  // A public snapshot of another user may be forked and not removed; a private one is not seen.
  kvd_client* tenant = Open([](kvd_connect_options& options) { options.tenant[0] = 1; });
  ASSERT_EQ(kvd_sequence_create(tenant, nullptr, &others, nullptr), KVD_OK);
  ASSERT_EQ(kvd_publish(tenant, others, "public", NewSequence(0, KVD_PUBLIC), nullptr, nullptr),
            KVD_OK)
      << kvd_error_message();
  ASSERT_EQ(kvd_publish(tenant, others, "private", nullptr, nullptr, nullptr), KVD_OK);
  ExpectRefused({
      {KVD_PERMISSION, "another tenant",
       [&](auto* later) { return kvd_unpublish(client_, "public", 0, later); }},
      {KVD_PERMISSION, "another tenant",
       [&](auto* later) { return kvd_unpublish(client_, "public", KVD_FORCE, later); }},
      {KVD_NOT_FOUND, "private",
       [&](auto* later) { return kvd_unpublish(client_, "private", KVD_FORCE, later); }},
      {KVD_NOT_FOUND, "private",
       [&](auto* later) { return kvd_attach(client_, "private", &made, nullptr, later); }},
  });
  EXPECT_EQ(kvd_attach(client_, "public", &made, nullptr, nullptr), KVD_OK) << "it is still there";
  EXPECT_EQ(kvd_sequence_drop(client_, std::exchange(made, 0), 0, nullptr), KVD_OK);
  kvd_close(tenant);
  std::vector<kvd_sequence> forks(100);
  int code = KVD_OK;
  while (code == KVD_OK) code = kvd_sequence_create(client_, nullptr, forks.data(), nullptr);
  ExpectRefused({
      {KVD_NO_SPACE, "sequences",
       [&](auto* later) { return kvd_attach(client_, "taken", &made, nullptr, later); }},
      {KVD_NO_SPACE, "sequences",
       [&](auto* later) { return kvd_publish(client_, source, "x", nullptr, nullptr, later); }},
  });
  EXPECT_EQ(made, 0u);
  kvd_close(other);
}

TEST_F(NamedCallsTest, StatesAreSavedListedLoadedAndRemoved) {
  const kvd_sequence source = Filled(40);
  InBothForms([&] {
    kvd_save_info size{};
    kvd_save_info info{};
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_save_size(client_, source, KVD_SAVE_UNPACKED, &size, later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(size.file_bytes, 0u);
    EXPECT_EQ(size.cell_count, 40u);
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_save(client_, source, "one", KVD_SAVE_UNPACKED | KVD_SAVE_REPLACE, &info,
                                later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(info.file_bytes, size.unpacked_bytes);
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_save_all(client_, "all", KVD_SAVE_REPLACE, &info, later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_GE(info.cell_count, 40u);
    kvd_saved_info* saved = nullptr;
    std::size_t count = 0;
    ASSERT_EQ(Call([&](auto* later) { return kvd_saved(client_, &saved, &count, later); }), KVD_OK);
    EXPECT_EQ(count, 2u);
    EXPECT_TRUE(std::any_of(saved, saved + count, [](const auto& entry) {
      return std::string(entry.name) == "one" && entry.cell_count == 40 &&
             (entry.flags & KVD_SAVED_THIS_MODEL) != 0;
    }));
    kvd_free(saved);
    kvd_loaded_sequence* loaded = nullptr;
    kvd_token* tokens = nullptr;
    std::size_t token_count = 9;
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_load(client_, "one", &loaded, &count, &tokens, &token_count, later);
              }),
              KVD_OK)
        << kvd_error_message();
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(loaded[0].cell_count, 40u);
    EXPECT_EQ(loaded[0].is_tokens_only, 0u);
    EXPECT_EQ(token_count, 0u);
    EXPECT_EQ(Cells(loaded[0].sequence), Cells(source));
    ASSERT_EQ(kvd_sequence_drop(client_, loaded[0].sequence, 0, nullptr), KVD_OK);
    kvd_free(loaded);
    kvd_free(tokens);
    ASSERT_EQ(Call([&](auto* later) { return kvd_remove_saved(client_, "one", later); }), KVD_OK);
    EXPECT_EQ(kvd_remove_saved(client_, "one", nullptr), KVD_NOT_FOUND);
  });
}

TEST_F(NamedCallsTest, ACallThatWaitsComputesTokensThatWereSavedAlone) {
  const kvd_sequence source = Filled(12);
  ASSERT_EQ(kvd_save(client_, source, "tokens", KVD_SAVE_TOKENS_ONLY, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  kvd_loaded_sequence* loaded = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(kvd_load(client_, "tokens", &loaded, &count, nullptr, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(loaded[0].is_tokens_only, 1u);
  EXPECT_EQ(Cells(loaded[0].sequence), Cells(source));
  kvd_free(loaded);
  kvd_token* tokens = nullptr;
  std::size_t token_count = 0;
  kvd_request request = 0;
  ASSERT_EQ(kvd_load(client_, "tokens", &loaded, &count, &tokens, &token_count, &request), KVD_OK);
  ASSERT_EQ(kvd_finish(client_, request, test::kPatienceMs), KVD_OK) << kvd_error_message();
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(loaded[0].is_tokens_only, 1u);
  EXPECT_EQ(Query(loaded[0].sequence).cell_count, 0u);
  ASSERT_EQ(token_count, 12u);
  EXPECT_EQ(tokens[1], 6);
  kvd_logits logits;
  ASSERT_EQ(kvd_decode(client_, loaded[0].sequence, tokens, token_count, 0, KVD_LOGITS_NONE,
                       &logits, nullptr),
            KVD_OK);
  EXPECT_EQ(Cells(loaded[0].sequence), Cells(source));
  kvd_free(loaded);
  kvd_free(tokens);
}

TEST_F(NamedCallsTest, CallsOnSavedStatesNameTheirErrors) {
  const kvd_sequence source = Filled(10);
  ASSERT_EQ(kvd_save(client_, source, "taken", 0, nullptr, nullptr), KVD_OK) << kvd_error_message();
  kvd_loaded_sequence* loaded = nullptr;
  std::size_t count = 0;
  kvd_token* tokens = nullptr;
  std::size_t token_count = 0;
  const auto load = [&](const char* name, kvd_request* later) {
    return kvd_load(client_, name, &loaded, &count, &tokens, &token_count, later);
  };
  ExpectRefused({
      {KVD_EXISTS, "taken",
       [&](auto* later) { return kvd_save(client_, source, "taken", 0, nullptr, later); }},
      {KVD_EXISTS, "taken",
       [&](auto* later) { return kvd_save_all(client_, "taken", 0, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "name",
       [&](auto* later) { return kvd_save(client_, source, "../x", 0, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "name: a null pointer",
       [&](auto* later) { return kvd_save(client_, source, nullptr, 0, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) { return kvd_save(client_, source, "x", 1U << 20, nullptr, later); }},
      {KVD_NOT_FOUND, "",
       [&](auto* later) { return kvd_save(client_, 99, "x", 0, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) { return kvd_save_all(client_, "x", 1U << 20, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) { return kvd_save_size(client_, source, 1U << 20, nullptr, later); }},
      {KVD_NOT_FOUND, "",
       [&](auto* later) { return kvd_save_size(client_, 99, 0, nullptr, later); }},
      {KVD_NOT_FOUND, "none", [&](auto* later) { return load("none", later); }},
      {KVD_INVALID_ARGUMENT, "name: a null pointer",
       [&](auto* later) { return load(nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "list: a null pointer",
       [&](auto* later) {
         return kvd_load(client_, "taken", nullptr, &count, &tokens, &token_count, later);
       }},
      {KVD_INVALID_ARGUMENT, "list: a null pointer",
       [&](auto* later) { return kvd_saved(client_, nullptr, nullptr, later); }},
      {KVD_NOT_FOUND, "none",
       [&](auto* later) { return kvd_remove_saved(client_, "none", later); }},
      {KVD_INVALID_ARGUMENT, "name: a null pointer",
       [&](auto* later) { return kvd_remove_saved(client_, nullptr, later); }},
  });
  kvd_request request = 99;
  EXPECT_EQ(kvd_load(client_, "taken", &loaded, &count, nullptr, nullptr, &request),
            KVD_INVALID_ARGUMENT);
  EXPECT_EQ(request, 0u);
  EXPECT_EQ(loaded, nullptr);
}

TEST_F(NamedCallsTest, SaveAllNeedsASequence) {
  ExpectRefused({{KVD_NOT_FOUND, "no sequences",
                  [&](auto* later) { return kvd_save_all(client_, "x", 0, nullptr, later); }}});
}

TEST_F(NamedCallsTest, LoadRefusesADamagedFileAndOneSequenceTooMany) {
  const kvd_sequence source = Filled(40);
  ASSERT_EQ(kvd_save(client_, source, "whole", 0, nullptr, nullptr), KVD_OK);
  ASSERT_EQ(kvd_save(client_, source, "broken", 0, nullptr, nullptr), KVD_OK);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(StorePath())) {
    if (entry.path().string().find("broken") == std::string::npos) continue;
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
  }
  kvd_loaded_sequence* loaded = nullptr;
  std::size_t count = 0;
  kvd_token* tokens = nullptr;
  std::size_t token_count = 0;
  const auto load = [&](const char* name, kvd_request* later) {
    return kvd_load(client_, name, &loaded, &count, &tokens, &token_count, later);
  };
  ExpectRefused({{KVD_CORRUPT, "file_bytes", [&](auto* later) { return load("broken", later); }}});
  kvd_saved_info* saved = nullptr;
  ASSERT_EQ(kvd_saved(client_, &saved, &count, nullptr), KVD_OK);
  ASSERT_EQ(count, 2u);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ((saved[i].flags & KVD_SAVED_DAMAGED) != 0, std::string(saved[i].name) == "broken");
  }
  kvd_free(saved);
  kvd_sequence made = 0;
  int code = KVD_OK;
  while (code == KVD_OK) code = kvd_sequence_create(client_, nullptr, &made, nullptr);
  ExpectRefused({{KVD_NO_SPACE, "sequences", [&](auto* later) { return load("whole", later); }}});
  EXPECT_EQ(loaded, nullptr);
}

// A daemon whose tenants may save 1,000 bytes.
class SmallStoreTest : public test::CApiTest {
 protected:
  SmallStoreTest() : SmallStoreTest(std::make_shared<test::TemporaryFolder>()) {}

 private:
  explicit SmallStoreTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : CApiTest({"--store", (folder->path() / "store").string(), "--other-saved-bytes", "1000"}),
        folder_(folder) {}

  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(SmallStoreTest, SaveRefusesMoreBytesThanItsOwnerMayKeep) {
  kvd_close(client_);
  client_ = Open([](kvd_connect_options& options) { options.tenant[0] = 1; });
  const kvd_sequence source = Filled(40);
  ExpectRefused({
      {KVD_NO_SPACE, "",
       [&](auto* later) { return kvd_save(client_, source, "x", 0, nullptr, later); }},
      {KVD_NO_SPACE, "",
       [&](auto* later) { return kvd_save_all(client_, "x", 0, nullptr, later); }},
  });
}

class WithoutAStoreTest : public test::CApiTest {};

TEST_F(WithoutAStoreTest, CallsOnSavedStatesAreUnsupported) {
  const kvd_sequence source = Filled(10);
  kvd_loaded_sequence* loaded = nullptr;
  kvd_saved_info* saved = nullptr;
  std::size_t count = 0;
  kvd_token* tokens = nullptr;
  std::size_t token_count = 0;
  ExpectRefused({
      {KVD_UNSUPPORTED, "--store",
       [&](auto* later) { return kvd_save(client_, source, "x", 0, nullptr, later); }},
      {KVD_UNSUPPORTED, "--store",
       [&](auto* later) { return kvd_save_all(client_, "x", 0, nullptr, later); }},
      {KVD_UNSUPPORTED, "--store",
       [&](auto* later) { return kvd_save_size(client_, source, 0, nullptr, later); }},
      {KVD_UNSUPPORTED, "--store",
       [&](auto* later) {
         return kvd_load(client_, "x", &loaded, &count, &tokens, &token_count, later);
       }},
      {KVD_UNSUPPORTED, "--store",
       [&](auto* later) { return kvd_saved(client_, &saved, &count, later); }},
      {KVD_UNSUPPORTED, "--store",
       [&](auto* later) { return kvd_remove_saved(client_, "x", later); }},
  });
}

}  // namespace
}  // namespace kvd
