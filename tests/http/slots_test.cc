// Tests Slots, SlotLease and SlotFile.
#include "http/answer/slots.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace kvd::http {
namespace {

// Waits for a slot, reports its number, and keeps the lease.
Await<void> Take(Slots& slots, std::optional<std::uint32_t> number, std::vector<TokenId> prompt,
                 std::vector<SlotLease>& leases, std::vector<std::uint32_t>& numbers) {
  SlotLease lease = co_await SlotLease::Acquire(slots, number, prompt);
  numbers.push_back(lease.slot().number);
  leases.push_back(std::move(lease));
}

class SlotsTest : public ::testing::Test {
 protected:
  void Ask(std::optional<std::uint32_t> number, std::vector<TokenId> prompt) {
    boost::asio::co_spawn(loop_, Take(slots_, number, std::move(prompt), leases_, numbers_),
                          boost::asio::detached);
    Run();
  }
  void Run() {
    loop_.restart();
    loop_.poll();
  }
  void Release(std::size_t lease) {
    leases_[lease] = SlotLease();
    Run();
  }

  Loop loop_;
  Slots slots_{loop_, 3};
  std::vector<SlotLease> leases_;
  std::vector<std::uint32_t> numbers_;
};

TEST_F(SlotsTest, ChoosesTheLongestCommonPrefixThenTheLeastRecentlyUsedSlot) {
  leases_.reserve(8);
  slots_.at(1).tokens = {1, 2, 3};
  slots_.at(2).tokens = {1, 2, 9};
  Ask(std::nullopt, {1, 2, 3, 4});
  EXPECT_EQ(numbers_.back(), 1u);
  Ask(std::nullopt, {1, 2, 3, 4});
  EXPECT_EQ(numbers_.back(), 2u);
  Ask(std::nullopt, {7});
  EXPECT_EQ(numbers_.back(), 0u);
  EXPECT_EQ(slots_.busy_count(), 3u);
  Release(1);
  Release(0);
  Ask(std::nullopt, {8});
  EXPECT_EQ(numbers_.back(), 2u) << "released first";
}

TEST_F(SlotsTest, TokensAfterAShiftDoNotCount) {
  leases_.reserve(8);
  slots_.at(1).tokens = {1, 2, 3};
  slots_.at(1).is_edited = true;
  slots_.at(1).kept = 1;
  slots_.at(2).tokens = {1, 2};
  Ask(std::nullopt, {1, 2, 3});
  EXPECT_EQ(numbers_.back(), 2u);
}

TEST_F(SlotsTest, RequestsWaitInOrderForTheirNumberOfSlots) {
  leases_.reserve(8);
  for (int i = 0; i < 3; ++i) Ask(std::nullopt, {1});
  Ask(2, {1});
  Ask(std::nullopt, {1});
  EXPECT_EQ(numbers_.size(), 3u);
  EXPECT_EQ(slots_.waiting_count(), 2u);
  const std::uint32_t first = numbers_[0];
  Release(0);
  ASSERT_EQ(numbers_.size(), 4u);
  if (first == 2) {
    EXPECT_EQ(numbers_[3], 2u);
  } else {
    EXPECT_EQ(numbers_[3], first) << "the request for slot 2 does not block the one behind it";
  }
  EXPECT_EQ(slots_.waiting_count(), 1u);
}

TEST_F(SlotsTest, WhileAnAnswerIsParkedIdleSlotsGiveUpTheirSequencesTheLeastRecentlyUsedFirst) {
  leases_.reserve(8);
  std::vector<SequenceHandle> retained;
  slots_.OnGiveUp([&](SequenceHandle sequence) { retained.push_back(sequence); });
  for (const std::uint32_t number : {2u, 0u, 1u}) {
    Ask(number, {1});
    leases_.back().slot().sequence = MakeHandle(number, 1);
    leases_.back().slot().tokens = {1, 2};
  }
  Release(0);  // slot 2
  Release(1);  // slot 0
  EXPECT_TRUE(retained.empty());
  slots_.NoteParking(true);
  EXPECT_EQ(retained, (std::vector{MakeHandle(2, 1), MakeHandle(0, 1)})) << "slot 1 is busy";
  EXPECT_EQ(slots_.at(2).sequence, SequenceHandle::kNone);
  EXPECT_TRUE(slots_.at(2).tokens.empty());
  EXPECT_EQ(slots_.at(1).sequence, MakeHandle(1, 1));
  Release(2);
  EXPECT_EQ(retained.back(), MakeHandle(1, 1)) << "it has become idle";
  slots_.NoteParking(false);
  Ask(0, {1});
  leases_.back().slot().sequence = MakeHandle(0, 2);
  Release(3);
  EXPECT_EQ(retained.size(), 3u) << "no answer is parked any more";
  EXPECT_EQ(slots_.at(0).sequence, MakeHandle(0, 2));
}

TEST_F(SlotsTest, AFileKeepsTheSequencesOfSlots) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("kvd-slots-" + std::to_string(::getpid())))
          .string();
  std::filesystem::remove(path);
  {
    auto file = SlotFile::Open(path, 3);
    ASSERT_TRUE(file) << file.error().message;
    slots_.Keep(std::move(*file));
    slots_.Begin(77);
    leases_.reserve(8);
    Ask(1, {1});
    leases_[0].slot().sequence = MakeHandle(5, 6);
    Release(0);
  }
  Slots again(loop_, 2);
  auto file = SlotFile::Open(path, 2);
  ASSERT_TRUE(file);
  again.Keep(std::move(*file));
  again.Begin(77);
  EXPECT_EQ(again.at(1).sequence, MakeHandle(5, 6));
  EXPECT_TRUE(again.at(1).are_tokens_unknown);
  EXPECT_EQ(again.at(0).sequence, SequenceHandle::kNone);
  EXPECT_FALSE(again.at(0).are_tokens_unknown);
  // The handles of another session are other sequences.
  again.Begin(78);
  EXPECT_EQ(again.at(1).sequence, SequenceHandle::kNone);
  EXPECT_FALSE(again.at(1).are_tokens_unknown);
  const auto other = SlotFile::Open(path, 2);
  EXPECT_EQ(other->session(), 78u);
  EXPECT_EQ(other->handles()[1], SequenceHandle::kNone);
  std::filesystem::resize_file(path, 3);  // less than one number
  const auto cut = SlotFile::Open(path, 2);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->session(), 0u);
  EXPECT_EQ(cut->handles()[1], SequenceHandle::kNone);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kvd::http
