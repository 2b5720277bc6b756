// Tests kvd_event_fd: one thread waits in poll(2) for several generations at once, while another
// thread calls the same client, and while the daemon is killed and restarted.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "client/kvd.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

constexpr int kPatienceMs = 60'000;
constexpr std::size_t kGenerations = 4;

class EventLoopTest : public test::ServedDaemonTest {
 protected:
  EventLoopTest() : ServedDaemonTest({"-c", "16384", "--deterministic"}) {}

  void SetUp() override {
    ServedDaemonTest::SetUp();
    const std::string path = daemon_->socket_path();
    kvd_connect_options options;
    kvd_connect_options_init(&options, sizeof options);
    options.socket_path = path.c_str();
    options.timeout_ms = kPatienceMs;
    ASSERT_EQ(kvd_connect(&options, &client_), KVD_OK) << kvd_error_message();
    ASSERT_EQ(kvd_event_fd(client_, &descriptor_), KVD_OK) << kvd_error_message();
  }
  void TearDown() override {
    kvd_close(client_);
    ServedDaemonTest::TearDown();
  }

  bool IsReadable(int timeout_ms) const {
    pollfd entry{.fd = descriptor_, .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, timeout_ms) == 1;
  }
  kvd_request Submit(std::size_t number) {
    kvd_sequence sequence = 0;
    EXPECT_EQ(kvd_sequence_create(client_, nullptr, &sequence, nullptr), KVD_OK)
        << kvd_error_message();
    const kvd_token tokens[] = {5, 6, static_cast<kvd_token>(7 + number)};
    kvd_generate_params params;
    kvd_generate_params_init(&params, sizeof params);
    params.tokens = tokens;
    params.token_count = 3;
    params.predict_max = 80;
    params.seed = 1 + number;
    params.temperature = 1.0f;
    kvd_request request = 0;
    EXPECT_EQ(kvd_generate(client_, sequence, &params, nullptr, nullptr, nullptr, &request), KVD_OK)
        << kvd_error_message();
    return request;
  }
  // Runs all generations, waiting only with poll(2) on the descriptor, and returns their texts.
  // `looks` counts the times that the descriptor was readable.
  std::vector<std::string> Run(std::size_t* looks) {
    std::vector<kvd_request> requests;
    for (std::size_t number = 0; number < kGenerations; ++number)
      requests.push_back(Submit(number));
    std::vector<std::string> texts(kGenerations);
    std::size_t left = kGenerations;
    for (*looks = 0; left > 0; ++*looks) {
      if (!IsReadable(kPatienceMs)) {
        ADD_FAILURE() << "nothing came";
        return texts;
      }
      std::size_t index = 0;
      int code = KVD_OK;
      while ((code = kvd_wait_any(client_, requests.data(), requests.size(), 0, &index)) ==
             KVD_OK) {
        kvd_piece piece;
        if (kvd_generate_next(client_, requests[index], 0, &piece, nullptr) != KVD_OK) {
          ADD_FAILURE() << kvd_error_message();
          return texts;
        }
        if (piece.kind == KVD_PIECE_END) {
          --left;
        } else {
          texts[index].append(piece.text, piece.text_bytes);
        }
      }
      if (code == (left > 0 ? KVD_TIMEOUT : KVD_NOT_FOUND)) continue;
      ADD_FAILURE() << kvd_error_message();
      return texts;
    }
    return texts;
  }

  kvd_client* client_ = nullptr;
  int descriptor_ = -1;
};

TEST_F(EventLoopTest, OneThreadWaitsForSeveralGenerations) {
  std::size_t looks = 0;
  const auto texts = Run(&looks);
  for (const std::string& text : texts) EXPECT_GT(text.size(), 20u);
  EXPECT_NE(texts[0], texts[1]);
  // Each time the descriptor is readable, all available pieces are taken. The descriptor must not
  // become readable many times for one piece, nor when no piece is available.
  EXPECT_LE(looks, 3 * kGenerations * 81);
  int again = -1;
  ASSERT_EQ(kvd_event_fd(client_, &again), KVD_OK);
  EXPECT_EQ(again, descriptor_);
  EXPECT_EQ(kvd_wait_any(client_, nullptr, 0, 0, &looks), KVD_NOT_FOUND);
  EXPECT_FALSE(IsReadable(100));
  EXPECT_EQ(kvd_event_fd(nullptr, &again), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_event_fd(client_, nullptr), KVD_INVALID_ARGUMENT);
}

TEST_F(EventLoopTest, CallsOfOtherThreadsConsumeNoEvents) {
  std::size_t looks = 0;
  const auto right = Run(&looks);
  std::atomic<bool> ends = false;
  std::vector<std::jthread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!ends) {
        if (kvd_ping(client_, 100, nullptr, nullptr) != KVD_OK)
          ADD_FAILURE() << kvd_error_message();
      }
    });
  }
  for (int round = 0; round < 5; ++round) EXPECT_EQ(Run(&looks), right) << round;
  ends = true;
}

// Submits requests of many verbs, more than the session's window holds, and waits only with
// poll(2).
TEST_F(EventLoopTest, TheDescriptorSignalsEveryKindOfVerb) {
  constexpr std::size_t kSequences = 80;
  std::vector<kvd_sequence> sequences(kSequences);
  std::vector<kvd_request> requests;
  const auto submitted = [&](int code, const kvd_request& request) {
    EXPECT_EQ(code, KVD_OK) << kvd_error_message();
    requests.push_back(request);
  };
  kvd_request request = 0;
  for (kvd_sequence& sequence : sequences) {
    submitted(kvd_sequence_create(client_, nullptr, &sequence, &request), request);
  }
  kvd_daemon_info info{};
  info.size = sizeof info;
  submitted(kvd_info(client_, &info, &request), request);
  kvd_sequence_info* list = nullptr;
  std::size_t count = 0;
  submitted(kvd_list(client_, &list, &count, &request), request);
  kvd_snapshot_info* snapshots = nullptr;
  std::size_t snapshot_count = 9;
  submitted(kvd_snapshots(client_, &snapshots, &snapshot_count, &request), request);
  std::uint64_t nanoseconds = 0;
  submitted(kvd_ping(client_, 100, &nanoseconds, &request), request);
  std::vector<bool> has_ended(requests.size());
  for (std::size_t left = requests.size(); left > 0;) {
    std::size_t index = 0;
    while (kvd_wait_any(client_, requests.data(), requests.size(), 0, &index) == KVD_OK) {
      ASSERT_EQ(kvd_finish(client_, requests[index], 0), KVD_OK) << kvd_error_message();
      ASSERT_FALSE(has_ended[index]);
      has_ended[index] = true;
      --left;
    }
    if (left > 0) {
      std::string missing;
      for (std::size_t i = 0; i < requests.size(); ++i) {
        if (!has_ended[i]) missing += " " + std::to_string(i);
      }
      ASSERT_TRUE(IsReadable(kPatienceMs)) << "waits for" << missing << kvd_error_message();
    }
  }
  EXPECT_GT(info.vocab_size, 0u);
  EXPECT_GE(count, kSequences) << "the list was asked for after the sequences were made";
  EXPECT_EQ(snapshot_count, 0u);
  EXPECT_GT(nanoseconds, 0u);
  kvd_free(list);
  kvd_free(snapshots);
}

TEST_F(EventLoopTest, TheDescriptorSignalsAfterADaemonIsKilledAndRestarted) {
  std::size_t looks = 0;
  const auto right = Run(&looks);
  std::atomic<bool> has_ended = false;
  std::jthread waiter([&] {
    for (std::size_t round = 0; round < 4; round += test::Stride(2))
      EXPECT_EQ(Run(&looks), right) << round;
    has_ended = true;
  });
  int kills = 0;
  for (; !has_ended; ++kills) {
    // In a sanitizer build a daemon that lives for 40 ms computes almost nothing.
    std::this_thread::sleep_for(std::chrono::milliseconds(40) * test::Stride(5));
    daemon_->Kill();
    const Status again = daemon_->StartAgain();
    ASSERT_TRUE(again) << again.error().message;
  }
  EXPECT_GE(kills, 2);
}

TEST_F(EventLoopTest, ADaemonThatDoesNotReturnIsOneError) {
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  const std::string path = daemon_->socket_path();
  options.socket_path = path.c_str();
  options.reconnect_timeout_ms = 300;
  kvd_close(client_);
  ASSERT_EQ(kvd_connect(&options, &client_), KVD_OK) << kvd_error_message();
  ASSERT_EQ(kvd_event_fd(client_, &descriptor_), KVD_OK);
  std::vector<kvd_request> requests = {Submit(0)};
  daemon_->Kill();
  std::size_t index = 0;
  int code = KVD_TIMEOUT;
  while (code == KVD_TIMEOUT || code == KVD_OK) {
    ASSERT_TRUE(IsReadable(kPatienceMs));
    code = kvd_wait_any(client_, requests.data(), 1, 0, &index);
    if (code != KVD_OK) continue;
    kvd_piece piece;
    code = kvd_generate_next(client_, requests[0], 0, &piece, nullptr);
  }
  EXPECT_EQ(code, KVD_DISCONNECTED) << kvd_error_message();
}

}  // namespace
}  // namespace kvd
