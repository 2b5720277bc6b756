// Tests kvctl with a real daemon: the names of snapshots and clients, saving and exporting by name,
// and what a client says while its daemon is away.
#include <gmock/gmock.h>

#include <string>

#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/user_shell.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class KvctlNamesTest : public ::testing::Test {
 protected:
  test::UserShell shell_;
};

// A client that waits for its daemon says after a second that it reconnects, and then continues.
TEST_F(KvctlNamesTest, AClientSaysThatItReconnects) {
  const int pid = shell_.StartDaemon("", "");
  ASSERT_GT(pid, 0);
  shell_.Done("kvctl ping -c 1000000 >ping 2>&1 & echo $! >client; sleep 0.3");
  shell_.End(pid, "KILL");
  shell_.Done(
      "for i in $(seq 100); do grep -q reconnecting ping && exit 0; sleep 0.1; done; exit 1");
  ASSERT_GT(shell_.StartDaemon("", ""), 0);
  shell_.Done(
      "for i in $(seq 100); do grep -q reconnected ping && exit 0; sleep 0.1; done; exit 1");
  shell_.End(std::stoi(shell_.Done("cat client")), "TERM");
}

TEST_F(KvctlNamesTest, ListsShowTheNamesOfSnapshotsAndClients) {
  ASSERT_GT(shell_.StartDaemon("", ""), 0);
  shell_.Done("kvctl run -n 0 --keep kite 'The kite is green, kept by Felix in the harbour.'");
  shell_.Done(
      "kvctl attach --hold kite >held 2>&1 & echo $! >client; "
      "for i in $(seq 100); do grep -q held held && exit 0; sleep 0.1; done; exit 1");
  const std::string listed = shell_.Done("kvctl ps");
  EXPECT_THAT(listed, HasSubstr("kite"));
  EXPECT_THAT(listed, HasSubstr(" (kvctl)"));
  const std::string top = shell_.Done("kvctl top --once");
  EXPECT_THAT(top, HasSubstr("kvctl"));
  EXPECT_THAT(top, HasSubstr(" kite"));
  EXPECT_THAT(top, Not(HasSubstr("published")));
  const std::string map = shell_.Done("kvctl map --json");
  EXPECT_THAT(map, HasSubstr("\"name\":\"kite\""));
  EXPECT_THAT(map, HasSubstr("\"client_name\":\"kvctl\""));
  shell_.End(std::stoi(shell_.Done("cat client")), "TERM");
}

TEST_F(KvctlNamesTest, ANameOfASnapshotStandsForItsHandle) {
  ASSERT_GT(shell_.StartDaemon("--store store", ""), 0);
  shell_.Done("kvctl run -n 0 --keep kite 'The kite is green, kept by Felix in the harbour.'");
  EXPECT_THAT(shell_.Done("kvctl text kite"), HasSubstr("The kite is green"));
  EXPECT_THAT(shell_.Done("kvctl log kite"), HasSubstr("sequence "));
  shell_.Done("kvctl fork kite --count 3");
  shell_.Done("kvctl publish kite copy");
  EXPECT_THAT(shell_.Done("kvctl run --sequence copy -t 0 -n 4 --json ' and'"),
              HasSubstr("\"tokens_reused\""));
  shell_.Done("kvctl save kite");
  shell_.Done("kvctl save --all --force");
  EXPECT_THAT(shell_.Run("kvctl save --all").output, HasSubstr("2 of 2 snapshots were not saved"));
  EXPECT_THAT(shell_.Done("kvctl saved"), HasSubstr("copy"));
  shell_.Done("kvctl rm copy");
  EXPECT_THAT(shell_.Done("kvctl snapshots"), Not(HasSubstr("copy")));
  const std::string handle = shell_.Done("kvctl snapshots | awk 'NR == 2 {print $NF}'");
  EXPECT_THAT(shell_.Run("kvctl rm " + handle).output, HasSubstr("kvctl unpublish kite removes"));
  EXPECT_THAT(shell_.Run("kvctl life kite --ttl 5").output, HasSubstr("is a snapshot"));
}

TEST_F(KvctlNamesTest, AnExportReplacesAFileOnlyByForce) {
  ASSERT_GT(shell_.StartDaemon("", ""), 0);
  shell_.Done("kvctl run -n 0 --keep kite 'The kite is green.'; echo precious >source.c");
  EXPECT_EQ(shell_.Run("kvctl export kite source.c").exit_code, 1);
  EXPECT_EQ(shell_.Done("cat source.c"), "precious\n");
  EXPECT_EQ(shell_.Run("ln -s nowhere link; kvctl export kite link").exit_code, 1);
  shell_.Done("kvctl export kite new.bin && kvctl export --force kite source.c");
  EXPECT_EQ(shell_.Run("cmp new.bin source.c").exit_code, 0);
}

TEST_F(KvctlNamesTest, ARunWhoseSequenceIsRemovedSaysSo) {
  ASSERT_GT(shell_.StartDaemon("-c 4096", ""), 0);
  shell_.Done("kvctl run --ignore-eos -n 100000 'The kite' >answer 2>said & echo $! >client");
  const std::string removed = shell_.Done(
      "for i in $(seq 600); do h=$(kvctl ps | awk '/ live / {print $1; exit}'); "
      "[ -n \"$h\" ] && kvctl rm --force $h && break; sleep 0.05; done; "
      "for i in $(seq 600); do [ -s said ] && break; sleep 0.05; done; cat said");
  EXPECT_THAT(removed, HasSubstr("another session has removed the sequence"));
}

TEST_F(KvctlNamesTest, TokenizeShowsPieces) {
  ASSERT_GT(shell_.StartDaemon("", ""), 0);
  const std::string shown = shell_.Done("kvctl tokenize '<|system|>The drum<|end|>'");
  EXPECT_THAT(shown, HasSubstr("\"<|system|>\""));
  EXPECT_THAT(shown, HasSubstr("\"<|end|>\""));
  EXPECT_THAT(shell_.Done("kvctl tokenize --no-parse-special '<|system|>The drum<|end|>'"),
              Not(HasSubstr("\"<|end|>\"")));
}

}  // namespace
}  // namespace kvd
