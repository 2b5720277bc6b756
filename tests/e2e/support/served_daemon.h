// ServedDaemonTest: a fixture with a real daemon over the bundled model, and a client that knows
// the correct answers.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd::test {

// A bound for slow machines, not a requirement.
inline constexpr auto kPatience = std::chrono::seconds(60);

std::string KvdPath();

// Waits until the daemon's log contains the text, because a separate thread writes the log. False:
// the text did not appear within 20 s.
bool LogShows(const DaemonProcess& daemon, std::string_view text);

class ServedDaemonTest : public ::testing::Test {
 protected:
  explicit ServedDaemonTest(std::vector<std::string> arguments = {})
      : arguments_(std::move(arguments)) {}

  void SetUp() override;
  void TearDown() override;

  const std::string& socket_path() const { return daemon_->socket_path(); }
  Client Connect();
  // Returns eight numbers that a new client gets for a fixed request: tokens of a greedy
  // generation, unless a fixture overrides the request for another kind of model.
  virtual std::vector<TokenId> Answer();
  // Checks that a new client is served and gets the same answer as at the start.
  void ExpectServesOthers();

  std::optional<DaemonProcess> daemon_;

 private:
  std::vector<std::string> arguments_;
  std::vector<TokenId> right_answer_;
};

}  // namespace kvd::test
