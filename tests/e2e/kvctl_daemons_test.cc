// Tests kvctl daemons: which daemons and states of the user it lists, and what it removes.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/user_shell.h"

namespace kvd {
namespace {

using test::JsonField;
using ::testing::HasSubstr;

class KvctlDaemonsTest : public ::testing::Test {
 protected:
  bool Exists(const std::string& path) const {
    return std::filesystem::exists(std::filesystem::symlink_status(shell_.folder() / path));
  }
  // The path of the state of a daemon, as kvctl daemons shows it.
  std::string StateOf(const std::string& name) const {
    const std::string shown =
        JsonField(shell_.Done("kvctl daemons --json " + name), "state_directory");
    return shown.size() < 2 ? shown : shown.substr(1, shown.size() - 2);
  }

  test::UserShell shell_;
};

TEST_F(KvctlDaemonsTest, ARunningDaemonIsShownWithItsModelAndItsState) {
  const int pid = shell_.StartDaemon("--name notes", "--name notes");
  ASSERT_GT(pid, 0);
  const std::string shown = shell_.Done("kvctl daemons notes");
  EXPECT_THAT(shown, HasSubstr("running, pid " + std::to_string(pid)));
  const std::string json = shell_.Done("kvctl daemons --json notes");
  EXPECT_EQ(JsonField(json, "pid"), std::to_string(pid));
  EXPECT_NE(JsonField(json, "model"), "\"\"");
  EXPECT_THAT(JsonField(json, "socket"), HasSubstr("/kvd/notes.sock"));
  EXPECT_THAT(shell_.Done("kvctl daemons"), HasSubstr("notes"));
}

TEST_F(KvctlDaemonsTest, ARunningDaemonIsNotRemoved) {
  ASSERT_GT(shell_.StartDaemon("--name notes", "--name notes"), 0);
  const test::ShellOutcome refused = shell_.Run("kvctl daemons --prune notes");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("the daemon runs"));
  shell_.Done("kvctl daemons --prune");
  shell_.Done("kvctl --name notes run -n 0 'The kite is green.'");
}

TEST_F(KvctlDaemonsTest, ADaemonWithItsStateElsewhereIsShown) {
  ASSERT_GT(shell_.StartDaemon("--name apart --state-dir state", "--name apart"), 0);
  EXPECT_THAT(shell_.Done("kvctl daemons apart"), HasSubstr("elsewhere"));
}

TEST_F(KvctlDaemonsTest, AStateStaysUntilItsDaemonIsNamed) {
  const int pid = shell_.StartDaemon("--name notes", "--name notes");
  ASSERT_GT(pid, 0);
  shell_.Done("kvctl --name notes run -n 0 --keep kite 'The kite is green.'");
  shell_.End(pid, "KILL");
  ASSERT_TRUE(Exists("kvd/notes.sock"));
  const std::string state = StateOf("notes");
  ASSERT_TRUE(std::filesystem::exists(state + "/meta"));
  EXPECT_THAT(shell_.Done("kvctl daemons"), HasSubstr("stopped"));

  EXPECT_THAT(shell_.Done("kvctl daemons --prune"), HasSubstr("notes.sock"));
  EXPECT_FALSE(Exists("kvd/notes.sock"));
  EXPECT_FALSE(Exists("kvd/notes.sock.lock"));
  EXPECT_TRUE(std::filesystem::exists(state + "/meta")) << "a state is nothing left over";

  const std::string said = shell_.Done("kvctl daemons --prune notes");
  EXPECT_THAT(said, HasSubstr("snapshots: kite"));
  EXPECT_THAT(said, HasSubstr("removed " + state));
  EXPECT_FALSE(std::filesystem::exists(state));
  const test::ShellOutcome gone = shell_.Run("kvctl daemons --prune notes");
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_THAT(gone.output, HasSubstr("not_found"));
}

TEST_F(KvctlDaemonsTest, TheStatesOfTwoModelsAreShownAndRemovedTogether) {
  const int pid = shell_.StartDaemon("--name notes", "--name notes");
  ASSERT_GT(pid, 0);
  shell_.Done("kvctl --name notes run -n 0 --keep kite 'The kite is green.'");
  const std::string used = StateOf("notes");
  const std::string daemon = std::filesystem::path(used).parent_path();
  const std::string other = daemon + "/m-0123456789abcdef";
  shell_.Done("umask 077; mkdir " + other + " && echo x >" + other + "/meta.bad.2");
  EXPECT_THAT(shell_.Done("kvctl daemons notes"),
              AllOf(HasSubstr("running, pid " + std::to_string(pid)), HasSubstr("stopped")));
  EXPECT_THAT(shell_.Run("kvctl daemons --prune notes").output, HasSubstr("the daemon runs"));
  shell_.Done("kvctl daemons --prune");
  EXPECT_TRUE(std::filesystem::exists(other));
  shell_.End(pid, "KILL");
  EXPECT_THAT(shell_.Done("kvctl daemons --prune notes"),
              AllOf(HasSubstr("snapshots: kite"), HasSubstr("removed " + other)));
  EXPECT_FALSE(std::filesystem::exists(daemon));
}

TEST_F(KvctlDaemonsTest, AFileThatIsNoneOfAStateIsKept) {
  shell_.Done("umask 077; mkdir -p kvd-state/mine && echo precious >kvd-state/mine/letter");
  const test::ShellOutcome kept = shell_.Run("kvctl daemons --prune mine");
  EXPECT_EQ(kept.exit_code, 1);
  EXPECT_THAT(kept.output, HasSubstr("not empty"));
  EXPECT_TRUE(Exists("kvd-state/mine/letter"));
}

TEST_F(KvctlDaemonsTest, AnEmptyDirectoryAndItsLockAreLeftovers) {
  shell_.Done("umask 077; mkdir -p kvd-state/old && echo 1 >kvd-state/old/lock");
  EXPECT_THAT(shell_.Done("kvctl daemons --prune"), HasSubstr("kvd-state/old"));
  EXPECT_FALSE(Exists("kvd-state"));
}

TEST_F(KvctlDaemonsTest, AnOrderlyEndWithoutSequencesLeavesNothing) {
  const int pid = shell_.StartDaemon("--name notes", "--name notes");
  ASSERT_GT(pid, 0);
  const std::string state = StateOf("notes");
  ASSERT_TRUE(std::filesystem::exists(state));
  shell_.End(pid, "TERM");
  EXPECT_FALSE(std::filesystem::exists(state));
  EXPECT_FALSE(Exists("kvd/notes.sock"));
  EXPECT_FALSE(Exists("kvd/notes.sock.lock"));
}

TEST_F(KvctlDaemonsTest, FlagsOfOneDaemonAreRefused) {
  EXPECT_THAT(shell_.Run("kvctl --name x daemons").output, HasSubstr("--socket, --name: not with"));
  EXPECT_THAT(shell_.Run("kvctl daemons a/b").output, HasSubstr("is not the name of a daemon"));
  EXPECT_THAT(shell_.Run("kvctl daemons absent").output, HasSubstr("no daemon and no state"));
}

}  // namespace
}  // namespace kvd
