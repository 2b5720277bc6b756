// Compares an episode's memory, and the bytes that a kill would have left, with the reference.
#include "tests/engine/memory/attention_episode.h"

#include <string>

namespace kvd::memory_model {

bool AttentionEpisode::Judge(const char* verb, Code expected, const Status& actual,
                             bool may_lack_space) {
  verb_ = verb;
  const Code code = actual ? Code::kOk : actual.error().code;
  if (code == Code::kNoSpace && expected == Code::kOk && may_lack_space) {
    const std::string& message = actual.error().message;
    EXPECT_TRUE(message.starts_with("cells: ") || message.starts_with("lists: ")) << message;
    ++tally_->no_space;
    ++tally_->by_verb[verb][2];
    return false;
  }
  EXPECT_EQ(code, expected) << verb << ": " << (actual ? "" : actual.error().message);
  if (code == Code::kNoSpace) ++tally_->no_space;
  ++tally_->by_verb[verb][code == Code::kOk ? 0 : code == Code::kNoSpace ? 2 : 1];
  ++(code == Code::kOk ? tally_->succeeded : tally_->refused);
  return code == Code::kOk;
}

void AttentionEpisode::Check(bool succeeded) {
  SCOPED_TRACE(verb_);
  ++tally_->operations;
  tally_->long_operations += longest_drawn_ > 3 * layout::kBlockCells;
  longest_drawn_ = 0;
  const std::uint32_t digest = inspector_->RecordsDigest();
  if (!succeeded) {
    ASSERT_EQ(digest, digest_) << "a refused operation changed something";
  }
  CheckMoments(digest);
  digest_ = digest;
  ASSERT_NO_FATAL_FAILURE(inspector_->ExpectTables(step_is_running_));
  ASSERT_NO_FATAL_FAILURE(inspector_->ExpectEqual(reference_));
  if (step_is_running_) ExpectStepKeepsItsBlocks();
  ArmMoments();
}

void AttentionEpisode::ExpectStepKeepsItsBlocks() const {
  for (std::size_t index = 0; index < plan_.count; ++index) {
    for (const layout::Extent& extent : plan_.sequences[index].groups[0].extents) {
      ASSERT_FALSE(memory_->is_free_block(0, extent.block)) << "block " << extent.block;
    }
  }
}

void AttentionEpisode::ArmMoments() {
  if (!random_.OneIn(kProbeEvery)) return;
  memory_->commit_log_for_test().set_probe_for_test(
      [this](CommitLog::Moment) { moments_.emplace_back(memory_->meta_bytes()); });
}

void AttentionEpisode::CheckMoments(std::uint32_t digest_after) {
  memory_->commit_log_for_test().set_probe_for_test({});
  bool was_after = false;
  for (const MetaCopy& copy : moments_) {
    const Result<ConstMetaView> view = ValidateHeader(copy.bytes());
    ASSERT_TRUE(view);
    ASSERT_TRUE(
        CommitLog::Replay(MetaView(copy.bytes().data(), view->offsets(), view->geometry())));
    const std::uint32_t digest = inspector_->RecordsDigest(copy.bytes());
    if (!has_several_commits_) {
      ASSERT_TRUE(digest == digest_ || digest == digest_after);
      ASSERT_TRUE(!was_after || digest == digest_after);
    }
    was_after |= digest == digest_after;
    const Result<DerivedTables> tables = RebuildTables(copy.bytes());
    ASSERT_TRUE(tables) << tables.error().message;
  }
  tally_->probed_commits += !moments_.empty();
  moments_.clear();
  has_several_commits_ = false;
}

}  // namespace kvd::memory_model
