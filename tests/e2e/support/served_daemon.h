// ServedDaemonTest: a test fixture with a real daemon over the bundled model, and a client that
// knows what the right answer is.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd::test {

std::string KvdPath();

// Waits until the daemon's log has the text: a thread of its own writes it. False: not in 20 s.
bool LogShows(const DaemonProcess& daemon, std::string_view text);

class ServedDaemonTest : public ::testing::Test {
 protected:
  explicit ServedDaemonTest(std::vector<std::string> arguments = {})
      : arguments_(std::move(arguments)) {}

  void SetUp() override;
  void TearDown() override;

  const std::string& socket_path() const { return daemon_->socket_path(); }
  Client Connect();
  // Eight numbers that a fresh client gets for a fixed request: tokens of a greedy generation, unless
  // a fixture's model does something else.
  virtual std::vector<TokenId> Answer();
  // A new client is served, and rightly.
  void ExpectServesOthers();

  std::optional<DaemonProcess> daemon_;

 private:
  std::vector<std::string> arguments_;
  std::vector<TokenId> right_answer_;
};

}  // namespace kvd::test
