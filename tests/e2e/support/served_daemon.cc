#include "tests/e2e/support/served_daemon.h"

#include <chrono>
#include <thread>

namespace kvd::test {

std::string KvdPath() { return BinaryFolder() + "/kvd"; }

bool LogShows(const DaemonProcess& daemon, std::string_view text) {
  for (int i = 0; i < 2000; ++i) {
    if (daemon.log_text().find(text) != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

void ServedDaemonTest::SetUp() {
  std::vector<std::string> arguments = {"-c", "4096", "-t", "1", "--deterministic"};
  arguments.insert(arguments.end(), arguments_.begin(), arguments_.end());
  auto started = DaemonProcess::Start({.kvd_path = KvdPath(), .arguments = arguments});
  ASSERT_TRUE(started) << started.error().message;
  daemon_.emplace(std::move(*started));
  right_answer_ = Answer();
  ASSERT_EQ(right_answer_.size(), 8u);
}

void ServedDaemonTest::TearDown() {
  if (!daemon_) return;
  const std::string log = daemon_->log_text();
  const Status stopped = daemon_->Stop();
  EXPECT_TRUE(stopped) << stopped.error().message;
  if (HasFailure()) std::fprintf(stderr, "---- the daemon's log:\n%s", log.c_str());
}

Client ServedDaemonTest::Connect() {
  auto client = Client::Connect({.socket_path = socket_path(),
                                 .client_name = "test",
                                 .call_timeout = std::chrono::seconds(60)});
  EXPECT_TRUE(client) << client.error().message;
  return std::move(*client);
}

std::vector<TokenId> ServedDaemonTest::Answer() {
  const Client client = Connect();
  auto sequence = client.NewSequence();
  EXPECT_TRUE(sequence) << sequence.error().message;
  if (!sequence) return {};
  const std::vector<TokenId> prompt = {10, 20, 30, 40};
  auto generation = sequence->Generate({.tokens = prompt,
                                        .predict_max = 8,
                                        .sampling = DefaultSamplingAt(0.0f),
                                        .flags = wire::kIgnoreEos});
  EXPECT_TRUE(generation) << generation.error().message;
  if (!generation) return {};
  std::vector<TokenId> tokens;
  for (;;) {
    auto piece = generation->Next();
    EXPECT_TRUE(piece) << piece.error().message;
    if (!piece || !*piece) return tokens;
    tokens.insert(tokens.end(), (*piece)->tokens.begin(), (*piece)->tokens.end());
  }
}

void ServedDaemonTest::ExpectServesOthers() { EXPECT_EQ(Answer(), right_answer_); }

}  // namespace kvd::test
