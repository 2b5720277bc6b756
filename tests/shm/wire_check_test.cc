#include "shm/wire_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "shm/verb_table.h"

namespace kvd::wire::wire_check_test {
namespace {

// Returns the field that the error names: the text before the first colon.
template <class T>
std::string FieldOf(const Result<T>& result) {
  EXPECT_FALSE(result.has_value());
  return result ? "" : result.error().message.substr(0, result.error().message.find(':'));
}

TEST(NameTest, GoodNamesPass) {
  for (const char* name : {"a", "0", "_x", "-", "a.b-c_D9"})
    EXPECT_TRUE(ValidateName(name)) << name;
  EXPECT_TRUE(ValidateName(std::string(63, 'n')));
}

TEST(NameTest, BadNamesAreNamed) {
  for (const char* name : {"", ".", ".a", "a/b", "a b", "\xc3\xa9", "a\n"}) {
    EXPECT_EQ(FieldOf(ValidateName(name)), "name") << name;
  }
  EXPECT_FALSE(ValidateName(std::string(64, 'n')));
  EXPECT_FALSE(ValidateName(std::string_view("a\0b", 3)));
}

Hello GoodHello() {
  Hello hello{};
  hello.magic = kHelloMagic;
  hello.version = kProtocolVersion;
  std::strcpy(hello.name, "tester");
  return hello;
}

TEST(HelloTest, ZerosMeanDefaults) {
  const auto checked = ValidateHello(GoodHello());
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(checked->geometry, ChannelGeometry{});
  EXPECT_EQ(checked->name, "tester");
  EXPECT_FALSE(checked->has_session_token);
}

TEST(HelloTest, ValidNumbersAreAccepted) {
  Hello hello = GoodHello();
  hello.submission_entries = 1024;
  hello.result_arena_bytes = 1 << 20;
  hello.session_token[3] = 1;
  hello.cache_salt = 9;
  hello.flags = kHelloNoPrefix;
  const auto checked = ValidateHello(hello);
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(checked->cache_salt, 9u);
  EXPECT_FALSE(checked->shares_prefixes);
  EXPECT_EQ(checked->geometry.completion_entries, 2048u);
  EXPECT_EQ(checked->geometry.result_arena_bytes, 1u << 20);
  EXPECT_TRUE(checked->has_session_token);
}

TEST(HelloTest, EachBadFieldIsNamed) {
  const auto field = [](const std::function<void(Hello&)>& spoil) {
    Hello hello = GoodHello();
    spoil(hello);
    return FieldOf(ValidateHello(hello));
  };
  EXPECT_EQ(field([](Hello& h) { h.magic = 1; }), "hello.magic");
  EXPECT_EQ(field([](Hello& h) { h.version = kProtocolVersion + 1; }), "hello.version");
  EXPECT_EQ(field([](Hello& h) { h.flags = kHelloFlagsAll + 1; }), "hello.flags");
  EXPECT_EQ(field([](Hello& h) { h.reserved[11] = 1; }), "hello.reserved");
  EXPECT_EQ(field([](Hello& h) { h.outlive_seconds = kOutliveSecondsMax + 1; }),
            "hello.outlive_seconds");
  EXPECT_EQ(field([](Hello& h) { h.submission_entries = 7; }), "hello.submission_entries");
  EXPECT_EQ(field([](Hello& h) { h.submission_entries = 1u << 31; }), "hello.submission_entries");
  EXPECT_EQ(field([](Hello& h) { h.completion_entries = 256; }), "hello.completion_entries");
  EXPECT_EQ(field([](Hello& h) { h.request_arena_bytes = ~0ull; }), "hello.request_arena_bytes");
  EXPECT_EQ(field([](Hello& h) { h.result_arena_bytes = 1; }), "hello.result_arena_bytes");
  EXPECT_EQ(field([](Hello& h) { h.name[0] = '\n'; }), "hello.name");
  EXPECT_EQ(field([](Hello& h) { h.name[20] = 'x'; }), "hello.name");
}

TEST(HelloTest, AnotherVersionIsAMismatchThatNamesBoth) {
  Hello hello = GoodHello();
  hello.version = 77;
  const auto checked = ValidateHello(hello);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::kVersionMismatch);
  EXPECT_NE(checked.error().message.find("77"), std::string::npos);
  EXPECT_NE(checked.error().message.find(std::to_string(kProtocolVersion)), std::string::npos);
}

Welcome GoodWelcome() {
  const ChannelGeometry geometry;
  Welcome welcome{};
  welcome.magic = kWelcomeMagic;
  welcome.version = kProtocolVersion;
  welcome.descriptor_count = 2;
  welcome.submission_entries = geometry.submission_entries;
  welcome.completion_entries = geometry.completion_entries;
  welcome.request_segment_bytes = geometry.request_segment_bytes();
  welcome.result_segment_bytes = geometry.result_segment_bytes();
  welcome.vocab_size = 100;
  return welcome;
}

TEST(WelcomeTest, AValidWelcomeGivesTheGeometry) {
  EXPECT_EQ(ValidateWelcome(GoodWelcome()).value(), ChannelGeometry{});
}

TEST(WelcomeTest, ARefusalIsReturnedAsItsError) {
  Welcome welcome = GoodWelcome();
  welcome.code = static_cast<std::uint8_t>(Code::kNoSpace);
  std::strcpy(welcome.message, "8 connections, at most 8");
  const auto refused = ValidateWelcome(welcome);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_EQ(refused.error().message, "8 connections, at most 8");
  std::memset(welcome.message, 0xff, sizeof welcome.message);
  EXPECT_NE(ValidateWelcome(welcome).error().message.find("not UTF-8"), std::string::npos);
}

TEST(WelcomeTest, EachBadFieldIsNamed) {
  const auto field = [](const std::function<void(Welcome&)>& spoil) {
    Welcome welcome = GoodWelcome();
    spoil(welcome);
    return FieldOf(ValidateWelcome(welcome));
  };
  EXPECT_EQ(field([](Welcome& w) { w.magic = 0; }), "welcome.magic");
  EXPECT_EQ(field([](Welcome& w) { w.version = kProtocolVersion + 1; }), "welcome.version");
  EXPECT_EQ(field([](Welcome& w) { w.code = 200; }), "welcome.code");
  EXPECT_EQ(field([](Welcome& w) { w.descriptor_count = 4; }), "welcome.descriptor_count");
  EXPECT_EQ(field([](Welcome& w) { w.reserved0 = 3; }), "welcome.reserved0");
  EXPECT_EQ(field([](Welcome& w) { w.vocab_size = 0; }), "welcome.vocab_size");
  EXPECT_EQ(field([](Welcome& w) { w.submission_entries = 3; }), "welcome.submission_entries");
  EXPECT_EQ(field([](Welcome& w) { w.request_segment_bytes = 3; }), "welcome.request_arena_bytes");
  EXPECT_EQ(field([](Welcome& w) { w.result_segment_bytes += 1; }), "welcome.result_arena_bytes");
}

constexpr SubmissionLimits kLimits{.arena_bytes = 65536};
constexpr std::uint64_t kArena = 65536;

Submission Good(Verb verb) {
  Submission submission{};
  submission.verb = static_cast<std::uint16_t>(verb);
  return submission;
}
Submission GoodOn(Verb verb) {
  Submission submission = Good(verb);
  submission.sequence = 5;
  return submission;
}

TEST(SubmissionTest, ARetriedRequestSaysWhatItHasReceived) {
  Submission generate = GoodOn(Verb::kGenerate);
  generate.payload_bytes = sizeof(GenerateParams);
  generate.received = 3;
  generate.last_token = 9;
  EXPECT_EQ(FieldOf(ValidateSubmission(generate, kLimits)), "generate.received");
  generate.flags |= kFlagRetry;
  EXPECT_TRUE(ValidateSubmission(generate, kLimits));
  generate.last_token = -1;
  EXPECT_EQ(FieldOf(ValidateSubmission(generate, kLimits)), "generate.last_token");
  generate.received = 0;
  generate.last_token = 9;
  EXPECT_EQ(FieldOf(ValidateSubmission(generate, kLimits)), "generate.last_token");
  Submission clear = GoodOn(Verb::kClear);
  clear.flags |= kFlagRetry;
  EXPECT_TRUE(ValidateSubmission(clear, kLimits));
  clear.received = 1;
  EXPECT_EQ(FieldOf(ValidateSubmission(clear, kLimits)), "clear.received");
}

TEST(SubmissionTest, EachBadFieldIsNamed) {
  const auto field = [](Submission submission, const std::function<void(Submission&)>& spoil) {
    spoil(submission);
    return FieldOf(ValidateSubmission(submission, kLimits));
  };
  using S = Submission;
  EXPECT_EQ(field({}, [](S&) {}), "verb");
  EXPECT_EQ(field({}, [](S& s) { s.verb = kVerbLast + 1; }), "verb");
  EXPECT_EQ(field(Good(Verb::kPing), [](S& s) { s.flags = kFlagForce; }), "ping.flags");
  EXPECT_EQ(field(Good(Verb::kPing), [](S& s) { s.received = 1; }), "ping.received");
  EXPECT_EQ(field(Good(Verb::kPing), [](S& s) { s.last_token = 1; }), "ping.last_token");
  EXPECT_EQ(field(Good(Verb::kPing), [](S& s) { s.sequence = 1; }), "ping.sequence");
  EXPECT_EQ(field(Good(Verb::kClear), [](S&) {}), "clear.sequence");
  EXPECT_EQ(field(GoodOn(Verb::kClear), [](S& s) { s.sequence2 = 1; }), "clear.sequence2");
  EXPECT_EQ(field(GoodOn(Verb::kCopyRange), [](S&) {}), "copy_range.sequence2");
  EXPECT_EQ(field(GoodOn(Verb::kClear), [](S& s) { s.p1 = 1; }), "clear.p1");
  EXPECT_EQ(field(GoodOn(Verb::kReadTokens), [](S& s) { s.p0 = -2; }), "read_tokens.first_cell");
  EXPECT_EQ(field(GoodOn(Verb::kReadTokens), [](S& s) { s.p1 = 1; }), "read_tokens.p1");
  EXPECT_EQ(field(GoodOn(Verb::kRemoveRange), [](S& s) { s.p0 = 4, s.p1 = 3; }), "remove_range.p1");
  EXPECT_EQ(field(GoodOn(Verb::kFork), [](S& s) { s.argument = 0; }), "fork.count");
  EXPECT_EQ(field(GoodOn(Verb::kFork), [](S& s) { s.argument = 1025; }), "fork.count");
  EXPECT_EQ(field(GoodOn(Verb::kDivide), [](S& s) { s.argument = 0; }), "divide.divisor");
  EXPECT_EQ(field(GoodOn(Verb::kAdd), [](S& s) { s.argument = 1ll << 40; }), "add.delta");
  EXPECT_EQ(field(GoodOn(Verb::kDecode), [](S& s) { s.payload_bytes = 4, s.argument = 3; }),
            "decode.logits");
  EXPECT_EQ(field(GoodOn(Verb::kDecode), [](S&) {}), "decode.payload_bytes");
  EXPECT_EQ(field(GoodOn(Verb::kDecode), [](S& s) { s.payload_bytes = 4, s.p0 = -1; }),
            "decode.pos");
  EXPECT_EQ(field(GoodOn(Verb::kDecode), [](S& s) { s.payload_bytes = 5; }),
            "decode.payload_bytes");
  EXPECT_EQ(field(Good(Verb::kPing), [](S& s) { s.payload_bytes = 4097; }), "ping.payload_bytes");
  EXPECT_EQ(field(Good(Verb::kTokenize), [](S& s) { s.payload_bytes = 65537; }),
            "tokenize.payload_offset");
  EXPECT_EQ(
      field(Good(Verb::kTokenize), [](S& s) { s.payload_bytes = 2, s.payload_offset = 65535; }),
      "tokenize.payload_offset");
  EXPECT_EQ(
      field(Good(Verb::kTokenize), [](S& s) { s.payload_bytes = 2, s.payload_offset = ~0ull - 1; }),
      "tokenize.payload_offset");
}

TEST(PrefixReuseTest, APrefixReuseIsPackedIntoOneNumber) {
  for (const PrefixReuse reuse :
       {PrefixReuse{}, PrefixReuse{0xffffffffu, PrefixOrigin::kDisk, PrefixLimit::kUnsupported},
        PrefixReuse{7, PrefixOrigin::kRetained, PrefixLimit::kComplete}}) {
    EXPECT_EQ(UnpackReuse(PackReuse(reuse)), reuse);
  }
  EXPECT_EQ(PrefixLimitName(PrefixLimit::kNoCheckpoint), "no-checkpoint");
  EXPECT_EQ(PrefixLimitName(static_cast<PrefixLimit>(200)), "unknown");
  EXPECT_EQ(PrefixOriginName(PrefixOrigin::kDisk), "disk");
  EXPECT_EQ(PrefixOriginName(static_cast<PrefixOrigin>(200)), "unknown");
}

TEST(SubmissionTest, OpenRangesAreValid) {
  Submission submission = GoodOn(Verb::kRemoveRange);
  submission.p0 = -1;
  submission.p1 = -1;
  EXPECT_TRUE(ValidateSubmission(submission, kLimits));
}

TEST(CompletionTest, EachBadFieldIsNamed) {
  Completion good{};
  good.verb = 1;
  good.output_bytes = 100;
  good.output_cursor = kArena * 7 + 64;
  EXPECT_TRUE(ValidateCompletion(good, kArena));
  const auto field = [&good](const std::function<void(Completion&)>& spoil) {
    Completion completion = good;
    spoil(completion);
    return FieldOf(ValidateCompletion(completion, kArena));
  };
  EXPECT_EQ(field([](Completion& c) { c.verb = 0; }), "completion.verb");
  EXPECT_EQ(field([](Completion& c) { c.verb = kVerbLast + 1; }), "completion.verb");
  EXPECT_EQ(field([](Completion& c) { c.code = 22; }), "completion.code");
  EXPECT_EQ(field([](Completion& c) { c.flags = 2; }), "completion.flags");
  EXPECT_EQ(field([](Completion& c) { c.output_cursor += 1; }), "completion.output_cursor");
  EXPECT_EQ(field([](Completion& c) { c.output_bytes = 65536; }), "completion.output_cursor");
  Completion empty = good;
  empty.output_bytes = 0;
  empty.output_cursor = 1;
  EXPECT_TRUE(ValidateCompletion(empty, kArena));
}

TEST(SubmissionTest, WithoutATokenLimitTheSizeOfTheArenaApplies) {
  Submission submission = GoodOn(Verb::kDecode);
  submission.payload_bytes = 0xfffffffc;
  EXPECT_EQ(FieldOf(ValidateSubmission(submission, kLimits)), "decode.payload_offset");
}

TEST(VerbNameTest, UnknownVerbNumbersHaveAName) {
  EXPECT_EQ(VerbName(1), "ping");
  EXPECT_EQ(VerbName(static_cast<std::uint16_t>(Verb::kChatTemplates)), "chat_templates");
  EXPECT_EQ(VerbName(0), "unknown");
  EXPECT_EQ(VerbName(999), "unknown");
}

}  // namespace
}  // namespace kvd::wire::wire_check_test
