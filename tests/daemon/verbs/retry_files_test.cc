// Tests requests on files that are retried after an interruption at any point: each file is
// written, removed or loaded once, and its content is that of the first attempt.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/daemon/support/retry_fixture.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using test::kOwn;
using test::kRetrySession;
using test::ReceivedCompletion;
using test::RetryTest;
using testing::HasSubstr;
using wire::Verb;

class RetryFilesTest : public RetryTest {
 protected:
  RetryFilesTest() {
    auto opened = SavedStates::Open(folder_.path().string(), engine_);
    EXPECT_TRUE(opened) << opened.error().message;
    saved_states_ = std::move(*opened);
    Restart();
  }

  std::filesystem::path PathOf(const std::string& name) const {
    return folder_.path() / std::to_string(kOwn) / name;
  }
  std::string BytesOf(const std::string& name) const {
    std::ifstream file(PathOf(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  ReceivedCompletion CallNamed(const wire::Submission& submission, std::string_view name) {
    return Call(submission, std::as_bytes(std::span(name)));
  }
  // Leaves the memory as a daemon that was killed while it executed the request, and starts another
  // daemon.
  void Begin(const wire::Submission& submission) {
    ASSERT_TRUE(memory().sessions().Remember({.session = kRetrySession,
                                              .request = static_cast<RequestId>(submission.request),
                                              .kind = submission.verb},
                                             Sessions::Stage::kBegun, 0));
    Restart();
  }
  void Append(SequenceHandle sequence, std::int32_t pos) {
    const std::vector<TokenId> tokens(3, 7);
    wire::Submission decode = WithId(Make(wire::DecodeArgs{.sequence = sequence, .pos = Pos{pos}}));
    ASSERT_EQ(Call(decode, std::as_bytes(std::span(tokens))).code(), Code::kOk);
  }
  SequenceHandle Loaded(const ReceivedCompletion& answered, std::size_t index = 0) {
    wire::LoadedEntry entry{};
    EXPECT_GE(answered.output.size(), (index + 1) * sizeof entry);
    std::memcpy(&entry, answered.output.data() + index * sizeof entry, sizeof entry);
    return static_cast<SequenceHandle>(entry.handle);
  }

  test::TemporaryFolder folder_;
};

TEST_F(RetryFilesTest, ARetryOfAFinishedSaveDoesNotSaveAgain) {
  const SequenceHandle sequence = Filled(20);
  const wire::Submission save = WithId(Make(Verb::kSave, sequence));
  const ReceivedCompletion first = CallNamed(save, "name");
  ASSERT_EQ(first.code(), Code::kOk) << first.text();
  const std::string bytes = BytesOf("name");
  // A later request is applied before the save is retried.
  Append(sequence, 20);
  Restart();
  const ReceivedCompletion second = CallNamed(Again(save), "name");
  EXPECT_EQ(second.code(), Code::kOk) << second.text();
  const auto saved = first.As<wire::SaveReply>();
  const auto again = second.As<wire::SaveReply>();
  EXPECT_EQ(again.file_bytes, saved.file_bytes);
  EXPECT_EQ(again.unpacked_bytes, saved.unpacked_bytes);
  EXPECT_EQ(again.cells, 20u);
  EXPECT_EQ(BytesOf("name"), bytes);
  ASSERT_EQ(Call(WithId(Make(Verb::kDrop, sequence))).code(), Code::kOk);
  EXPECT_EQ(CallNamed(Again(save), "name").As<wire::SaveReply>().file_bytes, saved.file_bytes);
  ASSERT_EQ(CallNamed(WithId(Make(Verb::kRemoveSaved)), "name").code(), Code::kOk);
  EXPECT_EQ(CallNamed(Again(save), "name").code(), Code::kOk);
  EXPECT_FALSE(std::filesystem::exists(PathOf("name")));
}

// The uid has a quota of file bytes. For any order of the saves, the files of the uid together
// never exceed the uid's quota.
TEST_F(RetryFilesTest, ConcurrentSavesOfOneUidStayWithinItsShare) {
  constexpr std::uint32_t kSaver = 1001;
  const SequenceOwner owner{.id = OwnerOf(kSaver), .session = kRetrySession, .namespace_salt = 0};
  const SequenceHandle sequence = *memory().sequences().Create(owner);
  const std::vector<TokenId> tokens(40, 5);
  StepItem item{.sequence = sequence, .pos = Pos{0}, .tokens = tokens, .first_logits_row = 40};
  engine_.Step({&item, 1});
  ASSERT_TRUE(item.status) << item.status.error().message;
  SavedStates::SaveCall call{.attempt = {},
                             .owner = OwnerOf(kSaver),
                             .account = {},
                             .sequences = {sequence},
                             .readable = {},
                             .profile = {.packed = false},
                             .name = {}};
  const auto size = saved_states_->Save(call, Uncontrolled());
  ASSERT_TRUE(size) << size.error().message;
  constexpr std::uint64_t kFiles = 3;
  Quotas quotas;
  quotas.others.saved_bytes = kFiles * size->unpacked_bytes + size->unpacked_bytes / 2;
  Shares shares(quotas, OwnerOf(kOwn), true);
  call.account = shares.AccountOf(OwnerOf(kSaver));
  std::atomic<std::uint64_t> saved = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, call, thread]() mutable {
        for (int file = 0; file < 8; ++file) {
          call.name = std::to_string(thread) + "-" + std::to_string(file);
          const auto one = saved_states_->Save(call, Uncontrolled());
          if (one) {
            ++saved;
          } else {
            EXPECT_EQ(one.error().code, Code::kNoSpace) << one.error().message;
          }
        }
      });
    }
  }
  EXPECT_EQ(saved, kFiles);
  std::uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_.path() / "1001")) {
    bytes += file.file_size();
  }
  EXPECT_EQ(bytes, kFiles * size->unpacked_bytes);
  EXPECT_TRUE(shares.ListHeld(Resource::kSavedBytes).empty());
  call.name = "own";
  call.account = shares.AccountOf(OwnerOf(kOwn));
  EXPECT_TRUE(saved_states_->Save(call, Uncontrolled())) << "an owner without a limit";
}

TEST_F(RetryFilesTest, ARetryOfAnUnfinishedSaveReplacesItsOwnFile) {
  const SequenceHandle sequence = Filled(20);
  for (const bool was_written : {false, true}) {
    const wire::Submission save = WithId(Make(Verb::kSave, sequence));
    const std::string name = was_written ? "written" : "not-written";
    Begin(save);
    if (was_written) {
      ASSERT_EQ(CallNamed(WithId(Make(Verb::kSave, sequence)), name).code(), Code::kOk);
    }
    const ReceivedCompletion again = CallNamed(Again(save), name);
    EXPECT_EQ(again.code(), Code::kOk) << again.text();
    EXPECT_EQ(again.As<wire::SaveReply>().cells, 20u);
  }
  // A retried save whose first attempt had not begun finds the file of another save.
  const wire::Submission late = WithId(Make(Verb::kSave, sequence));
  EXPECT_EQ(CallNamed(Again(late), "written").code(), Code::kExists);
  const wire::Submission gone = WithId(Make(Verb::kSave, SequenceHandle{0x1'0000'0001}));
  EXPECT_EQ(CallNamed(Again(gone), "more").code(), Code::kNotFound);
  EXPECT_EQ(CallNamed(Again(WithId(Make(Verb::kSaveAll))), "all").code(), Code::kOk);
}

TEST_F(RetryFilesTest, ARetriedRemovalIsAppliedOnce) {
  const SequenceHandle sequence = Filled(20);
  const auto save = [&] {
    ASSERT_EQ(CallNamed(WithId(Make(Verb::kSave, sequence)), "name").code(), Code::kOk);
  };
  save();
  wire::Submission removal = WithId(Make(Verb::kRemoveSaved));
  ASSERT_EQ(CallNamed(removal, "name").code(), Code::kOk);
  // After the removal, a later save writes a file of the same name.
  save();
  Restart();
  EXPECT_EQ(CallNamed(Again(removal), "name").code(), Code::kOk);
  EXPECT_TRUE(std::filesystem::exists(PathOf("name")));
  for (const bool was_removed : {false, true}) {
    removal = WithId(Make(Verb::kRemoveSaved));
    Begin(removal);
    if (was_removed) std::filesystem::remove(PathOf("name"));
    EXPECT_EQ(CallNamed(Again(removal), "name").code(), Code::kOk);
    EXPECT_FALSE(std::filesystem::exists(PathOf("name")));
    if (!was_removed) save();
  }
  EXPECT_EQ(CallNamed(Again(WithId(Make(Verb::kRemoveSaved))), "name").code(), Code::kNotFound);
}

TEST_F(RetryFilesTest, ARetriedLoadIsAppliedOnce) {
  const SequenceHandle sequence = Filled(20);
  ASSERT_EQ(CallNamed(WithId(Make(Verb::kSave, sequence)), "name").code(), Code::kOk);
  const wire::Submission load = WithId(Make(Verb::kLoad));
  const ReceivedCompletion first = CallNamed(load, "name");
  ASSERT_EQ(first.code(), Code::kOk) << first.text();
  ASSERT_EQ(memory().sequences().List().size(), 2u);
  Restart();
  // The retry loads the same file and drops the sequences of the unanswered first attempt.
  const ReceivedCompletion second = CallNamed(Again(load), "name");
  ASSERT_EQ(second.code(), Code::kOk) << second.text();
  EXPECT_EQ(memory().sequences().List().size(), 2u);
  EXPECT_EQ(memory().sequences().Query(Loaded(second))->cell_count, 20u);
  EXPECT_FALSE(memory().sequences().Query(Loaded(first)));
  // If the file is then replaced by another file or removed, the retried load answers with the
  // sequences of the first attempt.
  Append(sequence, 20);
  wire::Submission over = WithId(Make(Verb::kSave, sequence));
  over.flags = wire::kFlagForce;
  ASSERT_EQ(CallNamed(over, "name").code(), Code::kOk);
  for (const bool is_there : {true, false}) {
    if (!is_there) std::filesystem::remove(PathOf("name"));
    const ReceivedCompletion again = CallNamed(Again(load), "name");
    ASSERT_EQ(again.code(), Code::kOk) << again.text();
    EXPECT_EQ(Loaded(again), Loaded(second));
    EXPECT_EQ(again.sequence(), Loaded(second));
    EXPECT_EQ(again.As<wire::LoadReply>().count, 1);
    EXPECT_EQ(memory().sequences().Query(Loaded(again))->cell_count, 20u);
  }
}

TEST_F(RetryFilesTest, APartialLoadIsDroppedAfterAKill) {
  ASSERT_EQ(CallNamed(WithId(Make(Verb::kSave, Filled(20))), "name").code(), Code::kOk);
  const wire::Submission load = WithId(Make(Verb::kLoad));
  const RequestTag part{.session = kRetrySession,
                        .request = static_cast<RequestId>(load.request),
                        .kind = load.verb,
                        .completes = false};
  const SequenceOwner owner{.id = OwnerId{kOwn}, .session = kRetrySession, .namespace_salt = 0};
  ASSERT_TRUE(memory().sequences().Create(owner, part));
  Restart();
  EXPECT_EQ(CallNamed(Again(load), "name").code(), Code::kOk);
  EXPECT_EQ(memory().sequences().List().size(), 2u);
  const wire::Submission missing = WithId(Make(Verb::kLoad));
  EXPECT_EQ(CallNamed(Again(missing), "none").code(), Code::kNotFound);
}

TEST_F(RetryFilesTest, ARetriedLoadWhoseFileHasChangedIsAConflict) {
  (void)Filled(20);
  (void)Filled(25);
  ASSERT_EQ(CallNamed(WithId(Make(Verb::kSaveAll)), "two").code(), Code::kOk);
  wire::Submission save = WithId(Make(wire::SaveAllArgs{.bits = wire::kSaveTokensOnly}));
  ASSERT_EQ(CallNamed(save, "tokens").code(), Code::kOk);
  for (const char* const name : {"two", "tokens"}) {
    const wire::Submission load = WithId(Make(Verb::kLoad));
    ASSERT_EQ(CallNamed(load, name).code(), Code::kOk);
    const std::size_t count = memory().sequences().List().size();
    Restart();
    EXPECT_EQ(CallNamed(Again(load), name).code(), Code::kOk);
    EXPECT_EQ(memory().sequences().List().size(), count);
    std::filesystem::remove(PathOf(name));
    const ReceivedCompletion again = CallNamed(Again(load), name);
    EXPECT_EQ(again.code(), Code::kConflict);
    EXPECT_THAT(again.text(), HasSubstr("its file has changed since"));
    EXPECT_EQ(memory().sequences().List().size(), count);
  }
}

TEST_F(RetryFilesTest, ARetriedImportAsksForItsUploadAgain) {
  const std::vector<std::byte> file(100, std::byte{7});
  const auto upload = [&](std::size_t begin, std::size_t end) {
    wire::Submission submission = WithId(Make(wire::UploadStateArgs{.offset = begin}));
    const auto piece = std::span(file).subspan(begin, end - begin);
    EXPECT_EQ(Call(submission, piece).As<wire::UploadStateReply>().bytes, end);
    EXPECT_EQ(Call(Again(submission), piece).As<wire::UploadStateReply>().bytes, end);
  };
  upload(0, 60);
  upload(60, 100);
  const wire::Submission import = WithId(Make(Verb::kImportState));
  EXPECT_THAT(Call(import).text(), HasSubstr("state file: length: 100 bytes"))
      << "it had come whole";
  // The uploaded file is gone, so that the retry fails and drops the sequences of the first
  // attempt.
  const RequestTag part{.session = kRetrySession,
                        .request = static_cast<RequestId>(import.request),
                        .kind = import.verb,
                        .completes = false};
  ASSERT_TRUE(memory().sequences().Create({.id = OwnerId{kOwn}, .session = kRetrySession}, part));
  const ReceivedCompletion again = Call(Again(import));
  EXPECT_EQ(again.code(), Code::kConflict) << again.text();
  EXPECT_TRUE(memory().sequences().List().empty());
  // The daemon restarts after the upload's first piece; the second piece is refused.
  upload(0, 60);
  Restart();
  wire::Submission late = WithId(Make(wire::UploadStateArgs{.offset = 60}));
  EXPECT_EQ(Call(Again(late), std::span(file).subspan(60)).code(), Code::kConflict);
}

}  // namespace
}  // namespace kvd
