// Tests kvctl with a real daemon, as a user runs it: prefixes computed in advance, files saved and
// loaded, and state files of llama.cpp imported and exported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using test::JsonField;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPrompt =
    "The kite is in the red box, and the drum is with the old man at the end of the long road.";

class KvctlStatesTest : public test::ServedDaemonTest {
 protected:
  KvctlStatesTest() : KvctlStatesTest(std::make_shared<test::TemporaryFolder>()) {}
  explicit KvctlStatesTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : ServedDaemonTest({"--store", (folder->path() / "store").string()}), folder_(folder) {}

  void SetUp() override {
    ServedDaemonTest::SetUp();
    // The fixture's generation has left a retained sequence.
    ASSERT_TRUE(Connect().Call(wire::DropRetainedArgs{}, {}, wire::kFlagForce));
    std::ofstream(Path("prompt.txt")) << kPrompt;
  }
  std::string Path(const std::string& name) const { return (folder_->path() / name).string(); }
  // Runs kvctl, which must succeed, and returns its standard output and error.
  std::string Done(const std::string& arguments) const {
    const test::KvctlOutcome outcome = test::KvctlProcess(socket_path()).Run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << ": " << outcome.output;
    return outcome.output;
  }
  std::string Refused(const std::string& arguments) const {
    const test::KvctlOutcome outcome = test::KvctlProcess(socket_path()).Run(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << arguments << ": " << outcome.output;
    return outcome.output;
  }
  static std::string Unquoted(const std::string& json, const std::string& field) {
    const std::string text = JsonField(json, field);
    return text.size() < 2 ? text : text.substr(1, text.size() - 2);
  }
  std::string Run(const std::string& arguments) const {
    return Done("run '" + std::string(kPrompt) + "' -t 0 -n 12 --ignore-eos --json " + arguments);
  }

  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(KvctlStatesTest, WarmComputesAPrefixThatRunReuses) {
  const std::string warm = Done("warm " + Path("prompt.txt") + " --json");
  EXPECT_EQ(JsonField(warm, "is_retained"), "true");
  EXPECT_EQ(JsonField(warm, "tokens"), JsonField(warm, "tokens_computed"));
  const std::string run = Run("");
  EXPECT_EQ(Unquoted(run, "shared_from"), "retained");
  EXPECT_EQ(JsonField(run, "tokens_computed"), "1");
  const std::string again = Done("warm " + Path("prompt.txt"));
  EXPECT_THAT(again, HasSubstr("1 of them computed"));
  EXPECT_THAT(Refused("warm " + Path("nothing")), HasSubstr("cannot be read"));
}

TEST_F(KvctlStatesTest, PinnedSequencesAreDroppedOnlyByForce) {
  const std::string handle = Unquoted(Done("warm " + Path("prompt.txt") + " --json"), "sequence");
  EXPECT_EQ(JsonField(Done("pin " + handle + " --json"), "is_pinned"), "true");
  EXPECT_THAT(Done("drop --retained"), HasSubstr("0 dropped"));
  EXPECT_THAT(Done("ps"), HasSubstr(handle));
  EXPECT_EQ(JsonField(Done("unpin " + handle + " --json"), "is_pinned"), "false");
  EXPECT_EQ(JsonField(Done("drop --retained --json"), "dropped"), "1");
  EXPECT_THAT(Done("ps"), Not(HasSubstr(handle)));
  EXPECT_THAT(Refused("pin " + handle), HasSubstr("not_found"));
  const std::string pinned =
      Unquoted(Done("warm --pin " + Path("prompt.txt") + " --json"), "sequence");
  EXPECT_EQ(JsonField(Done("drop --retained --json"), "dropped"), "0");
  EXPECT_EQ(JsonField(Done("drop --retained --force --json"), "dropped"), "1");
  EXPECT_THAT(Done("ps"), Not(HasSubstr(pinned)));
}

TEST_F(KvctlStatesTest, SavedFilesCanBeListedLoadedAndRemoved) {
  Run("--keep here");
  Done("attach here --json");
  const std::string snapshot = Unquoted(Done("snapshots --json"), "sequence");
  const std::string size = Done("save --size " + snapshot + " --unpacked --json");
  const std::string saved = Done("save " + snapshot + " file --unpacked --json");
  EXPECT_EQ(JsonField(saved, "file_bytes"), JsonField(size, "unpacked_bytes"));
  EXPECT_THAT(Refused("save " + snapshot + " file"), HasSubstr("exists"));
  const std::string packed = Done("save " + snapshot + " file --force --json");
  EXPECT_LT(std::stoull(JsonField(packed, "file_bytes")),
            std::stoull(JsonField(saved, "file_bytes")));
  Done("save " + snapshot + " tokens --tokens-only --no-logits");
  Done("save " + snapshot + " small --q8");
  const std::string list = Done("saved");
  EXPECT_THAT(list, HasSubstr("file"));
  EXPECT_THAT(list, HasSubstr("q8_0"));
  EXPECT_THAT(list, HasSubstr("this"));
  EXPECT_EQ(JsonField(Done("load small --json"), "converted"), "true");
  EXPECT_EQ(JsonField(Done("load tokens --json"), "computed"), "true");
  const std::string loaded = Done("load file --publish there --json");
  EXPECT_EQ(JsonField(loaded, "cells"), JsonField(packed, "cells"));
  const auto more = [&](const std::string& from) {
    return JsonField(Done("run ' and' --from " + from + " -t 0 -n 12 --ignore-eos --json"), "text");
  };
  EXPECT_EQ(more("there"), more("here"));
  Done("saved --rm file");
  EXPECT_THAT(Refused("load file"), HasSubstr("no such saved state"));
  EXPECT_THAT(Refused("saved --rm file"), HasSubstr("no such saved state"));
  EXPECT_THAT(Refused("save " + snapshot), HasSubstr("name"));
  EXPECT_THAT(Refused("save " + snapshot + " ../x"), HasSubstr("name"));
}

TEST_F(KvctlStatesTest, AnExportedSequenceCanBeImported) {
  Run("--keep here");
  const std::string snapshot = Unquoted(Done("snapshots --json"), "sequence");
  const std::string file = Path("state.bin");
  const std::string exporting = "export " + snapshot + " " + file;
  for (const std::string form : {"", " --v-transposed", " --session", " --type-k f32"}) {
    const std::string exported = Done(exporting + form + " --force --json");
    EXPECT_EQ(JsonField(exported, "bytes"), std::to_string(std::filesystem::file_size(file)));
    const std::string imported = Done("import " + file + " back --force --json");
    EXPECT_EQ(JsonField(imported, "converted"), form == " --type-k f32" ? "true" : "false");
    const auto more = [&](const std::string& from) {
      return JsonField(Done("run ' and' --from " + from + " -t 0 -n 12 --ignore-eos --json"),
                       "text");
    };
    EXPECT_EQ(more("back"), more("here")) << form;
  }
  std::ofstream(Path("bad.bin")) << "no state at all";
  EXPECT_THAT(Refused("import " + Path("bad.bin")), HasSubstr("corrupt"));
  EXPECT_THAT(Refused("import " + Path("missing.bin")), HasSubstr("missing.bin"));
  EXPECT_THAT(Refused("export 99:1 " + Path("x.bin")), HasSubstr("99:1"));
  ExpectServesOthers();
}

}  // namespace
}  // namespace kvd
