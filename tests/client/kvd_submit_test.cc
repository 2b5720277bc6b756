// Tests kvd_..._submit and kvd_finish, the calls of the C interface that submit a request without
// waiting for its answer.
#include <gtest/gtest.h>

#include <fstream>
#include <latch>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "client/kvd.h"
#include "shm/verb_table.h"
#include "tests/client/support/fake_daemon.h"

namespace kvd {
namespace {

using wire::Verb;

constexpr std::int32_t kPatienceMs = 20'000;

// The fake daemon takes requests and answers none of them until Release() is called.
class KvdSubmitTest : public testing::Test {
 protected:
  KvdSubmitTest() {
    kvd_connect_options options;
    kvd_connect_options_init(&options, sizeof options);
    const std::string path = daemon_.socket_path();
    options.socket_path = path.c_str();
    options.timeout_ms = kPatienceMs;
    options.submission_entries = 8;
    options.request_arena_bytes = 64 << 10;
    EXPECT_EQ(kvd_connect(&options, &client_), KVD_OK) << kvd_error_message();
  }
  ~KvdSubmitTest() override {
    Release();
    kvd_close(client_);
  }
  void Release() {
    if (!is_released_) released_.count_down();
    is_released_ = true;
  }

  std::latch released_{1};
  bool is_released_ = false;
  FakeDaemon daemon_{[this](FakeSession& session, const ReceivedSubmission& received) {
    released_.wait();
    if (received.submission.verb == static_cast<std::uint16_t>(Verb::kDrop)) {
      session.Fail(received.submission, Code::kNotFound, "no such sequence");
      return true;
    }
    if (received.submission.verb == static_cast<std::uint16_t>(Verb::kTokenize)) {
      const std::int32_t tokens[] = {4, 5, static_cast<std::int32_t>(received.payload.size())};
      session.Final(received.submission, std::as_bytes(std::span(tokens)), {0, 3, 0});
      return true;
    }
    return false;
  }};
  kvd_client* client_ = nullptr;
};

// The requests exceed the capacity of the submission ring, the request arena and the session's
// window of unanswered requests.
TEST_F(KvdSubmitTest, SubmittingDoesNotWait) {
  constexpr std::size_t kRequests = 200;
  const std::string text(10'000, 'x');
  std::vector<kvd_sequence> sequences(kRequests);
  std::vector<kvd_token*> tokens(kRequests);
  std::vector<std::size_t> counts(kRequests);
  std::vector<kvd_request> requests;
  for (std::size_t i = 0; i < kRequests; ++i) {
    kvd_request create = 0;
    kvd_request tokenize = 0;
    ASSERT_EQ(kvd_sequence_create_submit(client_, &sequences[i], &create), KVD_OK)
        << kvd_error_message();
    ASSERT_EQ(kvd_tokenize_submit(client_, text.data(), text.size() - i, 0, &tokens[i], &counts[i],
                                  &tokenize),
              KVD_OK)
        << kvd_error_message();
    requests.push_back(create);
    requests.push_back(tokenize);
  }
  EXPECT_EQ(kvd_finish(client_, requests.front(), 0), KVD_TIMEOUT);
  EXPECT_EQ(sequences[0], 0u) << "written before its time";
  Release();
  for (auto request = requests.rbegin(); request != requests.rend(); ++request) {
    ASSERT_EQ(kvd_finish(client_, *request, kPatienceMs), KVD_OK) << kvd_error_message();
  }
  EXPECT_EQ(std::set(sequences.begin(), sequences.end()).size(), kRequests);
  for (std::size_t i = 0; i < kRequests; ++i) {
    ASSERT_EQ(counts[i], 3u);
    EXPECT_EQ(tokens[i][2], static_cast<std::int32_t>(text.size() - i)) << "another payload";
    if (i > 0) {
      EXPECT_GT(sequences[i], sequences[i - 1]) << "sent in another order";
    }
    kvd_free(tokens[i]);
  }
  EXPECT_EQ(kvd_finish(client_, requests.front(), 0), KVD_NOT_FOUND);
}

TEST_F(KvdSubmitTest, AnErrorOfTheVerbEndsTheRequest) {
  kvd_request request = 0;
  ASSERT_EQ(kvd_sequence_drop_submit(client_, 5, 0, &request), KVD_OK);
  Release();
  EXPECT_EQ(kvd_finish(client_, request, kPatienceMs), KVD_NOT_FOUND);
  EXPECT_STREQ(kvd_error_message(), "no such sequence");
  EXPECT_EQ(kvd_finish(client_, request, 0), KVD_NOT_FOUND);
  EXPECT_NE(std::string(kvd_error_message()).find("not in flight"), std::string::npos);
}

TEST_F(KvdSubmitTest, AnAbandonedRequestWritesNoOutput) {
  kvd_sequence sequence = 0;
  kvd_request request = 0;
  ASSERT_EQ(kvd_sequence_create_submit(client_, &sequence, &request), KVD_OK);
  kvd_abandon(client_, request);
  Release();
  EXPECT_EQ(kvd_ping(client_, 8, nullptr), KVD_OK);
  EXPECT_EQ(sequence, 0u);
  EXPECT_EQ(kvd_finish(client_, request, 0), KVD_NOT_FOUND);
}

TEST_F(KvdSubmitTest, NullPointersAndUnknownFlagsAreRefusedBeforeSubmission) {
  kvd_sequence sequence = 0;
  kvd_request request = 0;
  EXPECT_EQ(kvd_sequence_create_submit(client_, &sequence, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_STREQ(kvd_error_message(), "request: a null pointer");
  EXPECT_EQ(kvd_sequence_create_submit(nullptr, &sequence, &request), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_sequence_create_submit(client_, nullptr, &request), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_sequence_drop_submit(client_, 5, KVD_PUBLIC, &request), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_finish(nullptr, 1, 0), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(request, 0u);
}

// Every function of kvd.h that sends one request has a _submit variant. `without` lists the
// functions that send several requests, return results of submitted requests, or only read the
// client's own state.
TEST(KvdHeaderTest, EveryVerbCanBeSubmitted) {
  const std::set<std::string> without = {
      "kvd_renew",         "kvd_session",       "kvd_map_open",        "kvd_finish",
      "kvd_wait_any",      "kvd_event_fd",      "kvd_release",         "kvd_decode_next",
      "kvd_generate_next", "kvd_decode_submit", "kvd_generate_submit", "kvd_leave"};
  std::ifstream file("client/kvd.h");
  ASSERT_TRUE(file);
  std::set<std::string> verbs;
  std::set<std::string> submits;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("int kvd_") || line.find("(kvd_client* client") == std::string::npos) {
      continue;
    }
    const std::string name = line.substr(4, line.find('(') - 4);
    if (name.ends_with("_submit")) submits.insert(name);
    if (!name.ends_with("_submit") && !without.contains(name)) verbs.insert(name);
  }
  EXPECT_GT(verbs.size(), 30u);
  for (const std::string& verb : verbs) {
    EXPECT_TRUE(submits.contains(verb + "_submit")) << verb << " has no form without waiting";
  }
}

}  // namespace
}  // namespace kvd
