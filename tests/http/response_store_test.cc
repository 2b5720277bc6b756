// Tests ResponseStore.
#include "http/answer/response_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace kvd::http {
namespace {

std::string IdOf(unsigned number) {
  char id[64];
  std::snprintf(id, sizeof id, "resp_%032x", number);
  return id;
}

class ResponseStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kvd-responses-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    auto store = ResponseStore::Open(folder_ + "/responses");
    ASSERT_TRUE(store) << store.error().message;
    store_ = std::move(*store);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  std::unique_ptr<ResponseStore> store_;
};

TEST_F(ResponseStoreTest, KeepsTheResponsesOfTenantsApart) {
  ASSERT_TRUE(store_->Put("anna", IdOf(1), "{1}"));
  ASSERT_TRUE(store_->Put("bert", IdOf(2), "{2}"));
  EXPECT_EQ(*store_->Get("anna", IdOf(1)), "{1}");
  EXPECT_EQ(store_->Get("bert", IdOf(1)).error().code, Code::kNotFound);
  EXPECT_EQ(store_->Remove("bert", IdOf(1)).error().code, Code::kNotFound);
  EXPECT_TRUE(store_->Put("anna", IdOf(1), "{3}"));
  EXPECT_EQ(*store_->Get("anna", IdOf(1)), "{3}");
  EXPECT_TRUE(store_->Remove("anna", IdOf(1)));
  EXPECT_EQ(store_->Get("anna", IdOf(1)).error().code, Code::kNotFound);
}

TEST_F(ResponseStoreTest, ResponsesSurviveTheProcess) {
  ASSERT_TRUE(store_->Put("", IdOf(1), "{1}"));
  store_.reset();
  const auto again = ResponseStore::Open(folder_ + "/responses");
  ASSERT_TRUE(again);
  EXPECT_EQ(*(*again)->Get("", IdOf(1)), "{1}");
}

TEST_F(ResponseStoreTest, OnlyValidIdsBecomeFileNames) {
  for (const std::string& id :
       {std::string(""), std::string("resp_"), std::string("../../etc/passwd"), IdOf(1) + "/",
        IdOf(1).substr(1), std::string("resp_") + std::string(32, 'G'),
        std::string("resp_") + std::string(31, 'a') + "."}) {
    EXPECT_FALSE(ResponseStore::IsId(id)) << id;
    EXPECT_EQ(store_->Get("", id).error().code, Code::kNotFound) << id;
    EXPECT_EQ(store_->Remove("", id).error().code, Code::kNotFound) << id;
  }
}

TEST_F(ResponseStoreTest, RefusesResponsesThatAreTooLong) {
  const Status stored = store_->Put("", IdOf(1), std::string(ResponseStore::kBytesMax + 1, 'x'));
  EXPECT_EQ(stored.error().code, Code::kTooLarge);
  EXPECT_EQ(store_->Get("", IdOf(1)).error().code, Code::kNotFound);
}

TEST_F(ResponseStoreTest, TheOldestResponseIsRemovedFirst) {
  ASSERT_TRUE(store_->Put("", IdOf(0), "{}"));
  const auto folder = std::filesystem::directory_iterator(folder_ + "/responses")->path();
  std::filesystem::last_write_time(
      folder / IdOf(0), std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const std::size_t count = ResponseStore::kResponsesMax + ResponseStore::kPutsBetweenListings;
  for (unsigned i = 1; i < count; ++i) {
    ASSERT_TRUE(store_->Put("", IdOf(i), "{}"));
  }
  EXPECT_EQ(store_->Get("", IdOf(0)).error().code, Code::kNotFound);
  EXPECT_TRUE(store_->Get("", IdOf(static_cast<unsigned>(count - 1))));
}

TEST_F(ResponseStoreTest, WithoutADirectoryNothingIsKept) {
  const auto none = ResponseStore::Open("");
  ASSERT_TRUE(none);
  EXPECT_TRUE((*none)->Put("", IdOf(1), "{}"));
  EXPECT_EQ((*none)->Get("", IdOf(1)).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace kvd::http
