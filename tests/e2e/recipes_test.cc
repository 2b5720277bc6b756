// The recipes of docs/recipes.md: each script and program of examples/ does what the page says.
#include <gmock/gmock.h>

#include <string>

#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/user_shell.h"

namespace kvd {
namespace {

using test::JsonField;
using ::testing::HasSubstr;

constexpr const char* kNotebook =
    "Answer from the notebook. The kite is green, kept by Felix in the harbour. The drum is red, "
    "kept by Tom in the mill.";

class RecipesTest : public ::testing::Test {
 protected:
  test::UserShell shell_;
};

TEST_F(RecipesTest, ThePlannerComputesItsContextOnceForAllWorkers) {
  ASSERT_GT(shell_.StartDaemon("--deterministic", ""), 0);
  const std::string said =
      shell_.Done(std::string("kvd-example-planner '") + kNotebook +
                  "' 'Who keeps the drum?' 'Where is the kite?' 'What colour is the drum?'");
  EXPECT_THAT(said, HasSubstr("Where is the kite? "));
  EXPECT_THAT(said, HasSubstr("harbour"));
  EXPECT_THAT(said, HasSubstr("red"));
  // The workers and the planner compute their own tokens only.
  const std::string info = shell_.Done("kvctl info --json");
  EXPECT_THAT(said, HasSubstr("of them computed"));
  EXPECT_LT(std::stoi(JsonField(info, "tokens_computed")),
            2 * std::stoi(said.substr(said.find("context: ") + 9)) + 200)
      << said;
  EXPECT_EQ(shell_.Run("kvd-example-planner x").exit_code, 2);
}

TEST_F(RecipesTest, TheNightlyWarmUpPublishesAndSavesEachContext) {
  ASSERT_GT(shell_.StartDaemon("--store store", ""), 0);
  shell_.Done(std::string("mkdir contexts; echo '") + kNotebook +
              "' >contexts/notebook.txt; echo 'Answer briefly.' >contexts/brief.txt");
  const std::string first = shell_.Done("$ROOT/examples/nightly.sh contexts");
  EXPECT_THAT(first, HasSubstr("brief: "));
  EXPECT_THAT(first, HasSubstr("kept as snapshot notebook"));
  const std::string again = shell_.Done("$ROOT/examples/nightly.sh contexts");
  EXPECT_THAT(again, HasSubstr("1 of them computed")) << "what has not changed costs nothing";
  const std::string saved = shell_.Done("kvctl saved");
  EXPECT_THAT(saved, HasSubstr("notebook"));
  EXPECT_THAT(saved, HasSubstr("brief"));
  EXPECT_THAT(shell_.Done("kvctl run --from notebook --chat -t 0 'Where is the kite?'"),
              HasSubstr("harbour"));
  EXPECT_EQ(shell_.Run("$ROOT/examples/nightly.sh nowhere").exit_code, 1);
}

TEST_F(RecipesTest, ASnapshotMovesToAnotherDaemon) {
  ASSERT_GT(shell_.StartDaemon("--name one --store store", "--name one"), 0);
  ASSERT_GT(shell_.StartDaemon("--name two --store store", "--name two"), 0);
  shell_.Done(std::string("kvctl --name one warm --chat --system '") + kNotebook +
              "' --keep notebook");
  EXPECT_THAT(shell_.Done("$ROOT/examples/move.sh notebook one two"), HasSubstr("notebook"));
  const std::string answer =
      shell_.Done("kvctl --name two run --json --from notebook --chat -t 0 'Where is the kite?'");
  EXPECT_THAT(answer, HasSubstr("harbour"));
  EXPECT_LT(std::stoi(JsonField(answer, "tokens_computed")), 20) << "the context is not computed";
  EXPECT_EQ(shell_.Run("$ROOT/examples/move.sh absent one two").exit_code, 1);
}

TEST_F(RecipesTest, SeveralModelsAnswerAndTheirDaemonsEnd) {
  const std::string said = shell_.Done(
      "$ROOT/examples/models.sh 'Hello' plain=$ROOT/models/notebook-1m-q8_0.gguf "
      "hybrid=$ROOT/models/notebook-1m-hybrid-q8_0.gguf");
  EXPECT_THAT(said, HasSubstr("plain: "));
  EXPECT_THAT(said, HasSubstr("hybrid: "));
  EXPECT_NE(shell_.Run("kvctl --name plain ping -c 1").exit_code, 0);
  EXPECT_NE(shell_.Run("kvctl --name hybrid ping -c 1").exit_code, 0);
  (void)shell_.Run("kvd --name plain --forget; kvd --name hybrid --forget");
}

TEST_F(RecipesTest, TheSupervisorStartsACrashedDaemonAgain) {
  const std::string daemon_pid = "pgrep -P $(cat pid) -x kvd";
  shell_.Done("$ROOT/examples/supervisor.sh -t 1 -c 1024 --no-tuning >log 2>&1 & echo $! >pid");
  const auto wait = [&] {
    return shell_.Run(
        "for i in $(seq 600); do kvctl ping -c 1 >/dev/null 2>&1 && exit 0; sleep 0.1; done; exit "
        "1");
  };
  ASSERT_EQ(wait().exit_code, 0) << shell_.Done("cat log");
  shell_.Done("kvctl run -n 0 --keep kite 'The kite is green.'");
  const std::string first = shell_.Done(daemon_pid);
  shell_.Done("kill -KILL " + first);
  shell_.Done(
      "for i in $(seq 600); do grep -q 'started again' log && exit 0; sleep 0.1; done; exit 1");
  ASSERT_EQ(wait().exit_code, 0) << shell_.Done("cat log");
  EXPECT_NE(shell_.Done(daemon_pid), first);
  EXPECT_THAT(shell_.Done("kvctl snapshots"), HasSubstr("kite")) << "the state is still there";
  shell_.End(std::stoi(shell_.Done("cat pid")), "TERM");
  EXPECT_NE(shell_.Run("kvctl ping -c 1").exit_code, 0) << "the daemon has ended too";
  EXPECT_EQ(shell_.Run("$ROOT/examples/supervisor.sh -c 0").exit_code, 2);
}

}  // namespace
}  // namespace kvd
