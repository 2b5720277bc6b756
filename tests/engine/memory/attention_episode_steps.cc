// Steps of an episode: each step is reserved and interrupted by verbs, and its parts are committed
// or abandoned in random order.
#include "tests/engine/memory/attention_episode.h"

#include <algorithm>

namespace kvd::memory_model {

void AttentionEpisode::Step() {
  std::vector<Part> parts(static_cast<std::size_t>(random_.OneIn(2) ? 1 : random_.In(1, 3)));
  std::vector<AppendRequest> requests;
  Code expected = Code::kOk;
  std::size_t at_fault = parts.size();
  std::uint64_t blocks_at_most = 0;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    Part& part = parts[index];
    part.handle = AnyHandle();
    for (int tries = 0; tries < 4 && !random_.OneIn(30); ++tries) {
      const bool is_taken = std::any_of(
          parts.data(), &part, [&](const Part& other) { return other.handle == part.handle; });
      if (!is_taken && reference_.CheckMutable(part.handle) == Code::kOk) break;
      part.handle = AnyHandle();
    }
    const ReferenceSequence* sequence = reference_.Find(part.handle);
    if (!random_.OneIn(60)) {
      part.tokens.resize(AnyTokenCount());
      if (sequence != nullptr && sequence->cells.size() < 97 && random_.OneIn(3)) {
        part.tokens.resize(static_cast<std::size_t>(random_.In(60, 250)));
      }
      for (TokenId& token : part.tokens) token = static_cast<TokenId>(random_.In(0, 31999));
    }
    part.pos = Pos{sequence == nullptr ? 0 : static_cast<std::int32_t>(sequence->next_pos())};
    if (random_.OneIn(60)) part.pos = Pos{part.pos.value + (random_.OneIn(2) ? 1 : -1)};
    requests.push_back({part.handle, part.pos, part.tokens});
    blocks_at_most += (part.tokens.size() + layout::kBlockCells - 1) / layout::kBlockCells;
    if (expected != Code::kOk) continue;
    expected = reference_.CheckAppend(part.handle, part.pos.value, part.tokens.size());
    for (std::size_t other = 0; other < index && expected == Code::kOk; ++other) {
      if (parts[other].handle == part.handle) expected = Code::kInvalidArgument;
    }
    if (expected != Code::kOk) at_fault = index;
  }
  const std::uint32_t free_blocks = memory_->Usage().free_blocks;
  const Status status = memory_->steps().Reserve(requests, plan_);
  const bool reserved = Judge("reserve", expected, status, true);
  if (!reserved) {
    if (expected != Code::kOk) {
      EXPECT_EQ(plan_.failed, at_fault);
    } else {
      EXPECT_LT(plan_.failed, parts.size());
      if (status.error().message.starts_with("cells: ")) {
        EXPECT_LT(free_blocks, blocks_at_most);
      }
    }
    EXPECT_EQ(memory_->Usage().free_blocks, free_blocks);
    Check(false);
    return;
  }
  step_is_running_ = true;
  for (const Part& part : parts) hot_.push_back(part.handle);
  for (std::size_t index = 0; index < parts.size(); ++index)
    WriteTags(&parts[index], plan_.sequences[index]);
  Check(false);  // a reservation changes no record

  while (random_.OneIn(3) && !testing::Test::HasFatalFailure()) Verb();
  std::vector<std::size_t> order;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    order.insert(order.begin() + random_.In(0, static_cast<std::int64_t>(order.size())), index);
  }
  for (const std::size_t index : order) {
    EndPart(parts[index], index);
    if (random_.OneIn(6)) Verb();
    if (testing::Test::HasFatalFailure()) return;
  }
  memory_->steps().EndStep(plan_);
  step_is_running_ = false;
  hot_.clear();
  verb_ = "end step";
  Check(true);
}

void AttentionEpisode::WriteTags(Part* part, const StepSequence& reserved) {
  const ReferenceSequence& sequence = *reference_.Find(part->handle);
  part->content_number = sequence.content_number;
  part->first_id = next_id_;
  next_id_ += static_cast<std::uint32_t>(part->tokens.size());
  EXPECT_EQ(reserved.handle, part->handle);
  EXPECT_EQ(reserved.past_cells, sequence.cells.size());
  EXPECT_EQ(reserved.tokens, part->tokens);
  EXPECT_EQ(reserved.edit_number, sequence.edit_number);
  const ExtentView view{reserved.groups[0].extents, reserved.past_cells + reserved.new_cells};
  inspector_->OpenPool();
  for (std::uint32_t ordinal = 0; ordinal < view.cell_count; ++ordinal) {
    const std::size_t index = FindExtent(view, ordinal);
    const layout::Extent& extent = view.entries[index];
    const std::uint32_t cell = extent.first + (ordinal - extent.start);
    if (ordinal < reserved.past_cells) {
      EXPECT_EQ(inspector_->ReadK(extent.block, cell).id, sequence.cells[ordinal].k_id);
      continue;
    }
    EXPECT_GE(index, reserved.groups[0].first_new_extent);
    const std::uint32_t k = ordinal - reserved.past_cells;
    const std::int32_t stored =
        static_cast<std::int32_t>(std::int64_t{part->pos.value} + k - extent.delta);
    inspector_->Write(extent.block, cell, {part->first_id + k, stored},
                      {part->first_id + k, part->tokens[k]});
  }
  inspector_->ClosePool();
}

void AttentionEpisode::EndPart(const Part& part, std::size_t index) {
  if (const ReferenceSequence* computed = reference_.Find(part.handle)) {
    longest_drawn_ = computed->cells.size() + part.tokens.size();
  }
  if (random_.OneIn(6)) {
    memory_->steps().Abandon(plan_, index);
    verb_ = "abandon";
    Check(false);
    return;
  }
  const ReferenceSequence* sequence = reference_.Find(part.handle);
  const bool conflicts = sequence == nullptr || sequence->content_number != part.content_number;
  const bool done = Judge("commit", conflicts ? Code::kConflict : Code::kOk,
                          memory_->steps().Commit(plan_, index), true);
  if (done) reference_.Append(part.handle, part.tokens, part.first_id);
  tally_->conflicts += conflicts;
  Check(done);
}

}  // namespace kvd::memory_model
