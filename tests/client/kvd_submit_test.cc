// Tests calls of the C interface with `later`, which submit a request without waiting for its
// answer, and kvd_finish.
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <set>
#include <string>
#include <utility>
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
    ASSERT_EQ(kvd_sequence_create(client_, nullptr, &sequences[i], &create), KVD_OK)
        << kvd_error_message();
    ASSERT_EQ(
        kvd_tokenize(client_, text.data(), text.size() - i, 0, &tokens[i], &counts[i], &tokenize),
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
  ASSERT_EQ(kvd_sequence_drop(client_, 5, 0, &request), KVD_OK);
  Release();
  EXPECT_EQ(kvd_finish(client_, request, kPatienceMs), KVD_NOT_FOUND);
  EXPECT_STREQ(kvd_error_message(), "no such sequence");
  EXPECT_EQ(kvd_finish(client_, request, 0), KVD_NOT_FOUND);
  EXPECT_NE(std::string(kvd_error_message()).find("not in flight"), std::string::npos);
}

TEST_F(KvdSubmitTest, AnAbandonedRequestWritesNoOutput) {
  kvd_sequence sequence = 0;
  kvd_request request = 0;
  ASSERT_EQ(kvd_sequence_create(client_, nullptr, &sequence, &request), KVD_OK);
  kvd_abandon(client_, request);
  Release();
  EXPECT_EQ(kvd_ping(client_, 8, nullptr, nullptr), KVD_OK);
  EXPECT_EQ(sequence, 0u);
  EXPECT_EQ(kvd_finish(client_, request, 0), KVD_NOT_FOUND);
}

TEST_F(KvdSubmitTest, ASubmitThatFailsMakesTheRequestZero) {
  kvd_sequence sequence = 0;
  kvd_token token = 1;
  kvd_generate_params params;
  kvd_generate_params_init(&params, sizeof params);
  params.tokens = &token;
  params.token_count = 1;
  kvd_generate_result result;
  const auto on_piece = [](void*, const kvd_piece*) { return 0; };
  const auto fails = [](const auto& call) {
    kvd_request request = 99;
    EXPECT_EQ(call(&request), KVD_INVALID_ARGUMENT);
    EXPECT_EQ(request, 0u);
    return std::string(kvd_error_message());
  };
  EXPECT_EQ(
      fails([&](auto* later) { return kvd_sequence_create(nullptr, nullptr, &sequence, later); }),
      "client: a null pointer");
  EXPECT_EQ(
      fails([&](auto* later) { return kvd_sequence_create(client_, nullptr, nullptr, later); }),
      "sequence: a null pointer");
  fails([&](auto* later) { return kvd_sequence_drop(client_, 5, KVD_PUBLIC, later); });
  fails([&](auto* later) {
    return kvd_decode(client_, 1, &token, 1, 0, KVD_LOGITS_ALL + 1, nullptr, later);
  });
  EXPECT_EQ(fails([&](auto* later) {
              return kvd_generate(client_, 1, &params, on_piece, nullptr, nullptr, later);
            }),
            "on_piece: must be null with later, see kvd_generate_next");
  EXPECT_EQ(fails([&](auto* later) {
              return kvd_generate(client_, 1, &params, nullptr, nullptr, &result, later);
            }),
            "result: must be null with later, see kvd_generate_next");
  EXPECT_EQ(kvd_finish(nullptr, 1, 0), KVD_INVALID_ARGUMENT);
}

TEST_F(KvdSubmitTest, NothingIsWrittenToOutputsAfterTheClientIsClosed) {
  auto info = std::make_unique<kvd_daemon_info>();
  info->size = sizeof *info;
  auto sequence = std::make_unique<kvd_sequence>(0);
  auto tokens = std::make_unique<kvd_token*>(nullptr);
  auto count = std::make_unique<std::size_t>(0);
  kvd_request requests[3] = {};
  ASSERT_EQ(kvd_info(client_, info.get(), &requests[0]), KVD_OK);
  ASSERT_EQ(kvd_sequence_create(client_, nullptr, sequence.get(), &requests[1]), KVD_OK);
  ASSERT_EQ(kvd_tokenize(client_, "x", 1, 0, tokens.get(), count.get(), &requests[2]), KVD_OK);
  kvd_close(std::exchange(client_, nullptr));
  EXPECT_EQ(*sequence, 0u);
  EXPECT_EQ(*tokens, nullptr);
  info.reset();
  sequence.reset();
  tokens.reset();
  count.reset();
  Release();
}

}  // namespace
}  // namespace kvd
