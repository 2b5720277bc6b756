// Tests the submission that each method of Client sends, and how the client reads the answer.
#include "client/client.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <mutex>

#include "tests/client/support/fake_daemon.h"

namespace kvd {
namespace {

using wire::Verb;

// A fake daemon that records every submission and gives the same answer to all of them.
class ClientTest : public testing::Test {
 protected:
  struct Answer {
    std::vector<std::byte> output;
    FakeSession::Values values;
  };

  template <class T>
  void AnswerWith(const std::vector<T>& list, FakeSession::Values values = {}) {
    const std::lock_guard lock(mutex_);
    const auto bytes = std::as_bytes(std::span(list));
    answer_ = {{bytes.begin(), bytes.end()}, values};
  }
  ReceivedSubmission Received() {
    const std::lock_guard lock(mutex_);
    return received_;
  }
  wire::Submission Sent() { return Received().submission; }

  std::mutex mutex_;
  Answer answer_;
  ReceivedSubmission received_;
  FakeDaemon daemon_{[this](FakeSession& session, const ReceivedSubmission& received) {
    const std::lock_guard lock(mutex_);
    received_ = received;
    if (!received.check) return false;
    session.Final(received.submission, answer_.output, answer_.values);
    return true;
  }};
  Client client_ = Client::Connect(daemon_.options()).value();
  static constexpr SequenceHandle kSequence{77};
};

TEST_F(ClientTest, ForkReturnsHandlesAndCounts) {
  AnswerWith<std::uint64_t>({5, 6, 7}, {5, 1234, 30});
  ForkInfo info;
  const auto forks = client_.Fork(kSequence, -1, 3, &info);
  ASSERT_TRUE(forks) << forks.error().message;
  EXPECT_EQ(forks->back(), SequenceHandle{7});
  EXPECT_EQ(info.engine_ns, 1234u);
  EXPECT_EQ(info.cell_count, 30u);
  EXPECT_EQ(Sent().sequence, 77u);
  EXPECT_EQ(Sent().argument, 3);
  EXPECT_EQ(Sent().p0, -1);
  // The fake daemon sends three handles; the call asks for two.
  EXPECT_EQ(client_.Fork(kSequence, 10, 2).error().code, Code::kCorrupt);
  EXPECT_EQ(client_.Fork(kSequence, 10, 0).error().code, Code::kInvalidArgument);
}

TEST_F(ClientTest, RangesAreSentUnchanged) {
  AnswerWith<char>({}, {0, 5, 0});
  EXPECT_EQ(client_.RemoveRange(kSequence, {Pos{3}, Pos{8}}).value(), 5u);
  EXPECT_EQ(Sent().p0, 3);
  EXPECT_EQ(Sent().p1, 8);
  EXPECT_EQ(client_.RemoveRange(kSequence, {}).value(), 5u);
  EXPECT_EQ(Sent().p0, 0);
  EXPECT_EQ(Sent().p1, -1);
  EXPECT_TRUE(client_.Add(kSequence, {Pos{3}, Pos{8}}, -3));
  EXPECT_EQ(Sent().argument, -3);
  EXPECT_EQ(client_.Divide(kSequence, {}, 2).value(), 5u);
  EXPECT_EQ(client_.CopyRange(kSequence, SequenceHandle{78}, {Pos{0}, Pos{5}}).value(), 5u);
  EXPECT_EQ(Sent().sequence2, 78u);
  EXPECT_EQ(client_.RemoveRange(kSequence, {Pos{-3}, Pos{8}}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(client_.RemoveRange(kSequence, {Pos{9}, Pos{8}}).error().code, Code::kInvalidArgument);
}

TEST_F(ClientTest, ListsAreArraysOfRecords) {
  wire::SequenceEntry entry{};
  entry.handle = 9;
  entry.cell_count = 30;
  AnswerWith<wire::SequenceEntry>({entry, entry});
  EXPECT_EQ(client_.List()->size(), 2u);
  // The answer has two entries; a query expects one.
  EXPECT_EQ(client_.Query(kSequence).error().code, Code::kCorrupt);
  AnswerWith<char>({1, 2, 3});
  EXPECT_EQ(client_.List().error().code, Code::kCorrupt);
  EXPECT_EQ(client_.Info().error().code, Code::kCorrupt);
}

TEST_F(ClientTest, ASnapshotNameOfFullLengthNeedsNoTerminator) {
  wire::SnapshotEntry entry{};
  std::memset(entry.name, 'n', sizeof entry.name);
  entry.is_public = 1;
  AnswerWith<wire::SnapshotEntry>({entry});
  const auto snapshots = client_.Snapshots();
  ASSERT_TRUE(snapshots);
  EXPECT_EQ(snapshots->front().name, std::string(64, 'n'));
  EXPECT_TRUE(snapshots->front().is_public);
}

TEST_F(ClientTest, TextVerbsSendTextAndFlags) {
  AnswerWith<TokenId>({1, 2});
  EXPECT_EQ(client_.Tokenize("hi", wire::kFlagAddSpecial).value(), std::vector<TokenId>({1, 2}));
  EXPECT_EQ(Sent().flags, wire::kFlagAddSpecial);
  EXPECT_EQ(Received().payload.size(), 2u);
  AnswerWith<char>({'h', 'i'});
  const TokenId tokens[] = {1, 2};
  EXPECT_EQ(client_.Detokenize(tokens).value(), "hi");
  EXPECT_EQ(client_.Detokenize({}).value(), "");
}

TEST_F(ClientTest, ChatTemplatesAreReadFromTheReply) {
  const wire::ChatTextView texts[] = {{wire::ChatTextKind::kTemplate, "", "{{ messages }}"},
                                      {wire::ChatTextKind::kTemplate, "tool_use", "{{ tools }}"},
                                      {wire::ChatTextKind::kToken, "bos", "<s>"}};
  std::vector<std::byte> records(wire::ChatTextsBytes(texts));
  wire::EncodeChatTexts(texts, records);
  AnswerWith<std::byte>(records);
  const auto found = client_.ChatTemplates();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found->FindTemplate(""), "{{ messages }}");
  EXPECT_EQ(*found->FindTemplate("tool_use"), "{{ tools }}");
  EXPECT_EQ(found->FindTemplate("rag"), nullptr);
  EXPECT_EQ(*found->FindToken("bos"), "<s>");
  records.pop_back();
  AnswerWith<std::byte>(records);
  EXPECT_EQ(client_.ChatTemplates().error().code, Code::kCorrupt);
}

TEST_F(ClientTest, PublishAndAttachSendTheName) {
  AnswerWith<char>({}, {500, 10, 20});
  EXPECT_EQ(client_.Publish(kSequence, "snap", wire::kFlagPublic).value(), SequenceHandle{500});
  EXPECT_EQ(Sent().flags, wire::kFlagPublic);
  ForkInfo info;
  EXPECT_EQ(client_.Attach("snap", &info).value(), SequenceHandle{500});
  EXPECT_EQ(info.cell_count, 20u);
  EXPECT_TRUE(client_.Unpublish("snap", Force::kYes));
  EXPECT_EQ(Sent().flags, wire::kFlagForce);
  EXPECT_EQ(client_.Attach("").error().code, Code::kInvalidArgument);
  AnswerWith<char>({});
  EXPECT_EQ(client_.Create().error().code, Code::kCorrupt);  // the answer has no handle
}

TEST_F(ClientTest, GenerateChecksItsOwnArguments) {
  const TokenId tokens[] = {1};
  const auto error = [&](const std::function<void(GenerateOptions&)>& spoil) {
    GenerateOptions options{.tokens = tokens};
    spoil(options);
    const auto generation = client_.StartGenerate(kSequence, options);
    EXPECT_FALSE(generation);
    return generation ? "" : generation.error().message;
  };
  using O = GenerateOptions;
  EXPECT_NE(error([](O& o) { o.tokens = {}; }).find("token_count"), std::string::npos);
  EXPECT_NE(error([](O& o) { o.sampling.temperature = NAN; }).find("temperature"),
            std::string::npos);
  const wire::LogitBias bias[] = {{FakeDaemon::kVocab, 1}};
  EXPECT_NE(error([&](O& o) { o.biases = bias; }).find("bias"), std::string::npos);
  const std::string_view stops[] = {""};
  EXPECT_NE(error([&](O& o) { o.stops = stops; }).find("stop"), std::string::npos);
}

TEST_F(ClientTest, ASequenceIsDroppedWithItsObjectUnlessDetached) {
  AnswerWith<char>({}, {500, 0, 0});
  {
    const Sequence sequence = client_.NewSequence().value();
  }
  while (Sent().verb != static_cast<std::uint16_t>(Verb::kDrop)) std::this_thread::yield();
  EXPECT_EQ(Sent().sequence, 500u);
  {
    Sequence sequence = client_.NewSequence().value();
    Sequence moved = std::move(sequence);
    EXPECT_EQ(moved.Detach(), SequenceHandle{500});
  }
  EXPECT_TRUE(client_.Keep(kSequence));
  EXPECT_EQ(Sent().verb, static_cast<std::uint16_t>(Verb::kKeep));
}

}  // namespace
}  // namespace kvd
