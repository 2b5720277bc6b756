#include "shm/wire_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

namespace kvd::wire {
namespace {

// The field that an error names: what stands before the first colon.
template <class T>
std::string FieldOf(const Result<T>& result) {
  EXPECT_FALSE(result.has_value());
  return result ? "" : result.error().message.substr(0, result.error().message.find(':'));
}

TEST(NameTest, GoodNamesPass) {
  for (const char* name : {"a", "0", "_x", "-", "a.b-c_D9"})
    EXPECT_TRUE(ValidateName(name)) << name;
  EXPECT_TRUE(ValidateName(std::string(64, 'n')));
}

TEST(NameTest, BadNamesAreNamed) {
  for (const char* name : {"", ".", ".a", "a/b", "a b", "\xc3\xa9", "a\n"}) {
    EXPECT_EQ(FieldOf(ValidateName(name)), "name") << name;
  }
  EXPECT_FALSE(ValidateName(std::string(65, 'n')));
  EXPECT_FALSE(ValidateName(std::string_view("a\0b", 3)));
}

Hello GoodHello() {
  Hello hello{};
  hello.magic = kHelloMagic;
  hello.version = kProtocolVersion;
  std::strcpy(hello.name, "tester");
  return hello;
}

TEST(HelloTest, ZerosAreDefaults) {
  const auto checked = ValidateHello(GoodHello());
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(checked->geometry, ChannelGeometry{});
  EXPECT_EQ(checked->name, "tester");
  EXPECT_FALSE(checked->has_session_token);
}

TEST(HelloTest, NumbersAreTaken) {
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
  EXPECT_EQ(field([](Hello& h) { h.reserved[31] = 1; }), "hello.reserved");
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

TEST(WelcomeTest, AGoodOneGivesTheGeometry) {
  EXPECT_EQ(ValidateWelcome(GoodWelcome()).value(), ChannelGeometry{});
}

TEST(WelcomeTest, ARefusalIsItsError) {
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
  EXPECT_EQ(field([](Welcome& w) { w.version = 9; }), "welcome.version");
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

TEST(SubmissionTest, EveryVerbHasAGoodForm) {
  for (std::uint16_t number = 1; number <= kVerbLast; ++number) {
    const auto verb = static_cast<Verb>(number);
    Submission submission = Good(verb);
    if (VerbName(number) == "unknown") {  // a number that no verb has yet
      EXPECT_FALSE(ValidateSubmission(submission, kLimits));
      continue;
    }
    switch (verb) {
      case Verb::kPing:
      case Verb::kInfo:
      case Verb::kProfile:
      case Verb::kCache:
      case Verb::kDefrag:
      case Verb::kCreate:
      case Verb::kDropRetained:
      case Verb::kCancel:
      case Verb::kList:
      case Verb::kSnapshots:
      case Verb::kSaved:
      case Verb::kSaveAll:
      case Verb::kImportState:
      case Verb::kTokenize: break;
      case Verb::kLoad:
      case Verb::kRemoveSaved:
      case Verb::kUnpublish:
      case Verb::kAttach: submission.payload_bytes = 3; break;
      case Verb::kDetokenize:
      case Verb::kEmbed:
      case Verb::kExportState:
      case Verb::kUploadState:
      case Verb::kChat: submission.payload_bytes = 8; break;
      case Verb::kCopyRange: submission.sequence2 = 6; [[fallthrough]];
      default: submission.sequence = 5;
    }
    if (verb == Verb::kFork || verb == Verb::kDivide) submission.argument = 1;
    if (verb == Verb::kPublish) submission.payload_bytes = 3;
    if (verb == Verb::kDecode || verb == Verb::kEncode) submission.payload_bytes = 8;
    if (verb == Verb::kGenerate) submission.payload_bytes = 100;
    const auto check = ValidateSubmission(submission, kLimits);
    EXPECT_TRUE(check) << VerbName(number) << ": " << (check ? "" : check.error().message);
    submission.flags = kFlagRetry;
    EXPECT_TRUE(ValidateSubmission(submission, kLimits)) << VerbName(number);
    submission.flags = 1u << 14;
    EXPECT_FALSE(ValidateSubmission(submission, kLimits)) << VerbName(number);
  }
}

TEST(SubmissionTest, WhatIsSentAgainSaysWhatItHas) {
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
  EXPECT_EQ(field(GoodOn(Verb::kClear), [](S& s) { s.p1 = 1; }), "clear.p0, p1");
  EXPECT_EQ(field(GoodOn(Verb::kReadTokens), [](S& s) { s.p0 = -2; }), "read_tokens.p0");
  EXPECT_EQ(field(GoodOn(Verb::kReadTokens), [](S& s) { s.p1 = 1; }), "read_tokens.p1");
  EXPECT_EQ(field(GoodOn(Verb::kRemoveRange), [](S& s) { s.p0 = 4, s.p1 = 3; }), "remove_range.p1");
  EXPECT_EQ(field(GoodOn(Verb::kFork), [](S& s) { s.argument = 0; }), "fork.argument");
  EXPECT_EQ(field(GoodOn(Verb::kFork), [](S& s) { s.argument = 1025; }), "fork.argument");
  EXPECT_EQ(field(GoodOn(Verb::kDivide), [](S& s) { s.argument = 0; }), "divide.argument");
  EXPECT_EQ(field(GoodOn(Verb::kAdd), [](S& s) { s.argument = 1ll << 40; }), "add.argument");
  EXPECT_EQ(field(GoodOn(Verb::kDecode), [](S& s) { s.payload_bytes = 4, s.argument = 3; }),
            "decode.argument");
  EXPECT_EQ(field(GoodOn(Verb::kDecode), [](S&) {}), "decode.payload_bytes");
  EXPECT_EQ(field(GoodOn(Verb::kDecode), [](S& s) { s.payload_bytes = 4, s.p0 = -1; }),
            "decode.p0");
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

TEST(PrefixReuseTest, OneNumberHoldsIt) {
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

TEST(SubmissionTest, OpenRangesPass) {
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
  EXPECT_EQ(field([](Completion& c) { c.code = 21; }), "completion.code");
  EXPECT_EQ(field([](Completion& c) { c.flags = 2; }), "completion.flags");
  EXPECT_EQ(field([](Completion& c) { c.output_cursor += 1; }), "completion.output_cursor");
  EXPECT_EQ(field([](Completion& c) { c.output_bytes = 65536; }), "completion.output_cursor");
  Completion empty = good;
  empty.output_bytes = 0;
  empty.output_cursor = 1;
  EXPECT_TRUE(ValidateCompletion(empty, kArena));
}

// What each verb may carry at most: bytes, or tokens beside bytes.
struct VerbLimit {
  Verb verb;
  std::uint64_t bytes_max;  // with kTokensMax tokens
  bool has_tokens = false;
};
constexpr std::uint64_t kTokensMax = 1000;

TEST(SubmissionTest, EveryVerbHasALimitThatIsNamed) {
  const std::uint64_t tokens = kTokensMax * sizeof(std::int32_t);
  const std::uint64_t generate = sizeof(GenerateParams) + kBiasesMax * sizeof(LogitBias) +
                                 kStopsMax * (sizeof(std::uint32_t) + kStopBytesMax) + tokens;
  const VerbLimit limits[] = {
      {Verb::kPing, 4096},
      {Verb::kDecode, tokens, true},
      {Verb::kGenerate, generate, true},
      {Verb::kDetokenize, tokens, true},
      {Verb::kEmbed, tokens, true},
      {Verb::kEncode, tokens, true},
      {Verb::kTokenize, 16u << 20},
      {Verb::kChat, 16u << 20},
      {Verb::kUploadState, 16u << 20},
      {Verb::kExportState, sizeof(ExportStateParams) + kStateHandlesMax * 8},
      {Verb::kPublish, layout::kNameBytesMax},
      {Verb::kUnpublish, layout::kNameBytesMax},
      {Verb::kAttach, layout::kNameBytesMax},
      {Verb::kSave, layout::kNameBytesMax},
      {Verb::kSaveAll, layout::kNameBytesMax},
      {Verb::kLoad, layout::kNameBytesMax},
      {Verb::kRemoveSaved, layout::kNameBytesMax},
  };
  for (std::uint16_t number = 1; number <= kVerbLast; ++number) {
    const auto verb = static_cast<Verb>(number);
    const auto known = std::ranges::find(limits, verb, &VerbLimit::verb);
    const VerbLimit limit = known != std::end(limits) ? *known : VerbLimit{verb, 0};
    Submission submission = Good(verb);
    const auto probe = ValidateSubmission(submission, kLimits);
    const bool has_sequence =
        !probe && FieldOf(probe) == std::string(VerbName(number)) + ".sequence";
    submission.sequence = has_sequence ? 5 : 0;
    if (verb == Verb::kCopyRange) submission.sequence2 = 6;
    if (verb == Verb::kFork || verb == Verb::kDivide) submission.argument = 1;
    const SubmissionLimits large{.arena_bytes = kArenaBytesMax, .tokens_max = kTokensMax};
    submission.payload_bytes = static_cast<std::uint32_t>(limit.bytes_max);
    const auto good = ValidateSubmission(submission, large);
    EXPECT_TRUE(good) << VerbName(number) << ": " << (good ? "" : good.error().message);
    // The next size that its unit allows, so that the limit alone is wrong.
    submission.payload_bytes += 8;
    const auto refused = ValidateSubmission(submission, large);
    ASSERT_FALSE(refused) << VerbName(number);
    const std::string field =
        std::string(VerbName(number)) + (limit.has_tokens ? ".tokens" : ".payload_bytes");
    EXPECT_EQ(FieldOf(refused), field);
    EXPECT_EQ(refused.error().code, limit.has_tokens ? Code::kNoSpace : Code::kInvalidArgument);
    if (limit.has_tokens) {
      EXPECT_NE(refused.error().message.find("1002, the pool has 1000 cells"), std::string::npos)
          << refused.error().message;
    }
  }
}

TEST(SubmissionTest, WithoutALimitOfTokensTheArenaDecides) {
  Submission submission = GoodOn(Verb::kDecode);
  submission.payload_bytes = 0xfffffffc;
  EXPECT_EQ(FieldOf(ValidateSubmission(submission, kLimits)), "decode.payload_offset");
}

TEST(VerbNameTest, UnknownNumbersHaveAName) {
  EXPECT_EQ(VerbName(1), "ping");
  EXPECT_EQ(VerbName(static_cast<std::uint16_t>(Verb::kChat)), "chat");
  EXPECT_EQ(VerbName(0), "unknown");
  EXPECT_EQ(VerbName(999), "unknown");
}

}  // namespace
}  // namespace kvd::wire
