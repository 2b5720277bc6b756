// Tests requests for as much work or memory as possible, with the real daemon. Each request for too
// much is refused with a named error or is scheduled fairly, and other clients are still served.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/sanitizers.h"
#include "tests/e2e/support/raw_client.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/user_process.h"
#include "tests/support/many_sections.h"

namespace kvd {
namespace {

using test::GoodHello;
using test::RawClient;
using test::SubmissionOf;
using ::testing::HasSubstr;
using wire::Verb;

constexpr int kPatience = 60'000;  // milliseconds; a bound for slow machines, not a requirement

template <class T>
void Put(std::vector<std::byte>* bytes, const T& value) {
  const auto* const begin = reinterpret_cast<const std::byte*>(&value);
  bytes->insert(bytes->end(), begin, begin + sizeof value);
}

// Changes an exported session file with one cell, so that the cell belongs to `ids` sequences.
std::vector<std::byte> WithManyIds(std::span<const std::byte> exported, std::uint32_t ids) {
  // The file holds: magic, version, one token, architecture; no outputs, logits and embeddings; one
  // cell; its position.
  const auto number_at = [&](std::size_t offset) {
    std::uint32_t number = 0;
    std::memcpy(&number, exported.data() + offset, sizeof number);
    return number;
  };
  const std::size_t outputs = 20 + number_at(16);
  EXPECT_EQ(number_at(8), 1u);
  EXPECT_EQ(number_at(outputs), 0u);
  const std::size_t cells = outputs + 4 + 8 + 8;
  EXPECT_EQ(number_at(cells), 1u);
  const std::size_t count = cells + 8;
  EXPECT_EQ(number_at(count), 1u);
  std::vector<std::byte> file(exported.begin(),
                              exported.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<std::uint32_t> numbers = {ids};
  for (std::uint32_t id = 0; id < ids; ++id) numbers.push_back(id);
  const auto bytes = std::as_bytes(std::span(numbers));
  file.insert(file.end(), bytes.begin(), bytes.end());
  file.insert(file.end(), exported.begin() + static_cast<std::ptrdiff_t>(count + 8),
              exported.end());
  return file;
}

class BoundedWorkTest : public test::ServedDaemonTest {
 protected:
  explicit BoundedWorkTest(std::vector<std::string> arguments = {})
      : ServedDaemonTest(std::move(arguments)) {}

  RawClient Raw(std::uint64_t request_arena_bytes = 1 << 20) {
    wire::Hello hello = GoodHello();
    hello.request_arena_bytes = request_arena_bytes;
    auto client = RawClient::Connect(socket_path(), hello);
    EXPECT_TRUE(client.has_value());
    return std::move(*client);
  }
  // Sends the submission and waits for the final answer.
  wire::Completion Call(RawClient& client, const wire::Submission& submission,
                        std::span<const std::byte> payload, std::string* text = nullptr) {
    EXPECT_TRUE(client.Submit(submission, payload));
    return NextAnswer(client, text);
  }
  wire::Completion NextAnswer(RawClient& client, std::string* text = nullptr) {
    for (;;) {
      const auto completion = client.Wait(kPatience);
      EXPECT_TRUE(completion) << "no answer";
      if (!completion) return {};
      if (text != nullptr) {
        const auto output = client.channel().completions().output(*completion);
        text->assign(reinterpret_cast<const char*>(output.data()), output.size());
      }
      client.channel().completions().Release(*completion);
      client.Ring();
      if ((completion->flags & wire::kMore) == 0) return *completion;
    }
  }
  void Upload(RawClient& client, std::span<const std::byte> file, std::size_t piece_bytes) {
    for (std::size_t at = 0; at < file.size(); at += piece_bytes) {
      wire::Submission submission = SubmissionOf(Verb::kUploadState, ++request_);
      submission.argument = static_cast<std::int64_t>(at);
      const auto piece = file.subspan(at, std::min(piece_bytes, file.size() - at));
      ASSERT_EQ(Call(client, submission, piece).code, 0);
    }
  }
  void ExpectRefused(RawClient& client, Verb verb, std::span<const std::byte> payload, Code code,
                     const char* words) {
    std::string text;
    const wire::Completion answer = Call(client, SubmissionOf(verb, ++request_), payload, &text);
    EXPECT_EQ(static_cast<Code>(answer.code), code) << text;
    EXPECT_THAT(text, HasSubstr(words));
  }
  // Returns a session file that the library exported from the model, changed so that its only cell
  // belongs to `ids` sequences.
  static std::vector<std::byte> FileOfManyIds(const Client& client, std::uint32_t ids) {
    const auto sequence = client.NewSequence();
    EXPECT_TRUE(sequence->Decode(std::vector<TokenId>{7}, Pos{0}, wire::LogitsWanted::kNone));
    const SequenceHandle handle = sequence->handle();
    const auto exported =
        client.ExportLlama({&handle, 1}, {.is_session = true, .layout = LlamaFileLayout::k2025});
    EXPECT_TRUE(exported) << exported.error().message;
    return WithManyIds(*exported, ids);
  }
  wire::Submission Import() { return SubmissionOf(Verb::kImportState, ++request_); }

  std::uint64_t request_ = 0;
};

TEST_F(BoundedWorkTest, ACellThatNamesTooManySequencesIsRefusedByName) {
  const Client client = Connect();
  const auto refusal = [&](std::uint32_t ids, Code code) {
    const auto imported = client.ImportLlama(FileOfManyIds(client, ids),
                                             {.sequence_id = LlamaReadOptions::kEverySequence});
    EXPECT_FALSE(imported);
    if (imported) return std::string();
    EXPECT_EQ(imported.error().code, code);
    return imported.error().message;
  };
  const std::string text = refusal(100'000, Code::kCorrupt);
  EXPECT_THAT(text, HasSubstr("sequence_count"));
  EXPECT_THAT(text, HasSubstr("100000, a cell belongs to at most 256"));
  EXPECT_THAT(refusal(256, Code::kUnsupported),
              HasSubstr("the file has only the tokens of sequence 0"))
      << "it was read";
  ExpectServesOthers();
}

TEST_F(BoundedWorkTest, AStateWithTooManySectionsIsRefusedByName) {
  RawClient client = Raw(32 << 20);
  std::vector<std::byte> state = test::StateOfManySections(3);
  auto* const header = reinterpret_cast<state_file::FileHeader*>(state.data());
  header->section_count = 100'000;
  header->header_crc = Crc32c(
      0, std::span<const std::byte>(state).first(offsetof(state_file::FileHeader, header_crc)));
  Upload(client, state, 100);
  std::string text;
  const wire::Completion answer = Call(client, Import(), {}, &text);
  EXPECT_EQ(static_cast<Code>(answer.code), Code::kCorrupt);
  EXPECT_THAT(text, HasSubstr("section_count: 100000"));
  ExpectServesOthers();
}

TEST_F(BoundedWorkTest, AHostileStateDelaysNoOtherClient) {
  RawClient client = Raw(32 << 20);
  Upload(client, test::StateOfManySections(450'000), 16 << 20);
  ASSERT_TRUE(client.Submit(Import(), {}));
  const Client other = Connect();
  ASSERT_TRUE(other.Info());
  ASSERT_TRUE(other.Tokenize(std::string(5000, 'x'), 0));
  const Status stopped = daemon_->Stop();
  EXPECT_TRUE(stopped) << stopped.error().message;
  ASSERT_TRUE(daemon_->StartAgain());
}

// Returns a text of wire::kTextBytesMax bytes, on which the tokenizer works for several seconds.
std::vector<std::byte> LongText() {
  std::vector<std::byte> text(wire::kTextBytesMax, std::byte{'a'});
  for (std::size_t i = 0; i < text.size(); i += 7) text[i] = std::byte{' '};
  return text;
}

TEST_F(BoundedWorkTest, LongWorkOfSeveralClientsDelaysNoOtherClient) {
  const std::vector<std::byte> text = LongText();
  std::vector<RawClient> busy;
  for (int i = 0; i < 4; ++i) {
    busy.push_back(Raw(32 << 20));
    ASSERT_TRUE(busy.back().Submit(SubmissionOf(Verb::kTokenize, 1), text));
  }
  const Client other = Connect();
  ASSERT_TRUE(other.Info());
  ASSERT_TRUE(other.Tokenize(std::string(5000, 'x'), 0));
  // The earlier long requests are all still in work.
  for (RawClient& client : busy) EXPECT_FALSE(client.channel().completions().HasNext());
  busy.clear();  // closes the connections, which ends their work
  ExpectServesOthers();
}

TEST_F(BoundedWorkTest, ACancelEndsTheRunningRequestAndIsAnswered) {
  RawClient client = Raw(32 << 20);
  ASSERT_TRUE(client.Submit(SubmissionOf(Verb::kTokenize, 1), LongText()));
  wire::Submission cancel = SubmissionOf(Verb::kCancel, 2);
  cancel.argument = 1;
  ASSERT_TRUE(client.Submit(cancel));
  ASSERT_TRUE(client.Submit(SubmissionOf(Verb::kPing, 3)));
  std::string text;
  wire::Completion answer = NextAnswer(client, &text);
  EXPECT_EQ(answer.request, 1u);
  EXPECT_EQ(static_cast<Code>(answer.code), Code::kCancelled) << text;
  answer = NextAnswer(client);
  EXPECT_EQ(answer.request, 2u);
  EXPECT_EQ(answer.value0, 1) << "it was found";
  EXPECT_EQ(NextAnswer(client).request, 3u);
  ExpectServesOthers();
}

TEST_F(BoundedWorkTest, SigtermEndsTheDaemonWhileLongWorkRuns) {
  const std::vector<std::byte> text = LongText();
  std::vector<RawClient> busy;
  for (int i = 0; i < 8; ++i) {
    busy.push_back(Raw(32 << 20));
    ASSERT_TRUE(busy.back().Submit(SubmissionOf(Verb::kTokenize, 1), text));
  }
  ASSERT_TRUE(Connect().Info());
  const Status stopped = daemon_->Stop();
  EXPECT_TRUE(stopped) << stopped.error().message;
  for (RawClient& client : busy) {
    const auto answer = client.Wait(0);
    EXPECT_FALSE(answer && answer->code == 0) << "its work was done first";
  }
  ASSERT_TRUE(daemon_->StartAgain());
}

TEST_F(BoundedWorkTest, RequestsLargerThanTheirVerbsAreRefusedByName) {
  RawClient client = Raw(64 << 20);
  const std::vector<std::byte> tokens((4096 + 1) * sizeof(TokenId));
  ExpectRefused(client, Verb::kDetokenize, tokens, Code::kTooLarge,
                "detokenize.tokens: 4097, the pool has 4096 cells");
  const std::vector<std::byte> lists(wire::kTokenListsBytesMax + 4);
  ExpectRefused(client, Verb::kEmbed, lists, Code::kInvalidArgument,
                "embed.payload_bytes: 4210696 is not in [12, 4210692]");
  const std::vector<std::byte> large(wire::kTextBytesMax + 1, std::byte{'a'});
  ExpectRefused(client, Verb::kTokenize, large, Code::kInvalidArgument,
                "tokenize.payload_bytes: 16777217 is not in [0, 16777216]");
  ExpectRefused(client, Verb::kRank, large, Code::kInvalidArgument, "rank.payload_bytes");
  ExpectRefused(client, Verb::kUploadState, large, Code::kInvalidArgument,
                "upload_state.payload_bytes");
  ExpectServesOthers();
}

// Sanitizers end a process that runs out of memory, so the test of missing memory is left out of
// sanitizer builds.
#if !KVD_ADDRESS_SANITIZER && !KVD_THREAD_SANITIZER
std::uint64_t VirtualBytes(pid_t pid) {
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  std::uint64_t pages = 0;
  statm >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(BoundedWorkTest, WithoutMemoryTheRequestIsRefusedAndTheDaemonLives) {
  RawClient client = Raw(64 << 20);
  const std::uint64_t held = VirtualBytes(daemon_->pid());
  const rlimit small{.rlim_cur = held + (8 << 20), .rlim_max = RLIM_INFINITY};
  ASSERT_EQ(::prlimit(daemon_->pid(), RLIMIT_AS, &small, nullptr), 0);
  std::string text;
  const wire::Completion answer =
      Call(client, SubmissionOf(Verb::kTokenize, ++request_), LongText(), &text);
  EXPECT_EQ(static_cast<Code>(answer.code), Code::kNoSpace) << text;
  EXPECT_THAT(text, HasSubstr("no memory"));
  const rlimit none{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  ASSERT_EQ(::prlimit(daemon_->pid(), RLIMIT_AS, &none, nullptr), 0);
  ExpectServesOthers();
}
#endif

// A daemon with small quotas of bytes for another uid.
class BoundedBytesTest : public BoundedWorkTest {
 protected:
  static constexpr uid_t kOther = 65534;

  explicit BoundedBytesTest(std::vector<std::string> arguments = {})
      : BoundedWorkTest(WithOther(std::move(arguments))) {}
  static std::vector<std::string> WithOther(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--allow-uid", "65534"});
    return arguments;
  }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to run a process of another uid";
    BoundedWorkTest::SetUp();
    ASSERT_EQ(::chmod(daemon_->folder().c_str(), 0711), 0);
  }
  static int AsOther(const std::function<int()>& body) {
    return test::StatusAsUser(kOther, kOther, body);
  }
};

TEST_F(BoundedBytesTest, RequestArenasOfAnotherUidAreLimitedTogether) {
  EXPECT_EQ(AsOther([&] {
              wire::Hello hello = GoodHello();
              wire::Welcome welcome{};
              hello.request_arena_bytes = 1 << 30;
              if (RawClient::Connect(socket_path(), hello, &welcome)) return 1;
              if (static_cast<Code>(welcome.code) != Code::kNoSpace) return 2;
              if (std::strstr(welcome.message, "request arena bytes") == nullptr) return 3;
              hello.request_arena_bytes = 40 << 20;
              {
                const auto first = RawClient::Connect(socket_path(), hello, &welcome);
                if (!first) return 4;
                if (RawClient::Connect(socket_path(), hello, &welcome)) return 5;
              }
              // The daemon notices the closed connection after a short time.
              for (int attempt = 0; attempt < 1000; ++attempt) {
                if (RawClient::Connect(socket_path(), hello, &welcome)) return 0;
                ::usleep(10'000);
              }
              return 6;
            }),
            0);
  ExpectServesOthers();
}

class BoundedUploadsTest : public BoundedBytesTest {
 protected:
  BoundedUploadsTest() : BoundedBytesTest({"--other-held-bytes", "20000000"}) {}
};

TEST_F(BoundedUploadsTest, UploadsAndRequestsOfAnotherUidAreCountedTogether) {
  EXPECT_EQ(AsOther([&] {
              const auto connect = [&] {
                wire::Hello hello = GoodHello();
                hello.request_arena_bytes = 16 << 20;
                return RawClient::Connect(socket_path(), hello);
              };
              auto first = connect();
              auto second = connect();
              if (!first || !second) return 1;
              const std::vector<std::byte> piece(8 << 20);
              const auto code_of = [&](RawClient& client, std::int64_t offset) {
                wire::Submission upload = SubmissionOf(Verb::kUploadState, 1);
                upload.argument = offset;
                if (!client.Submit(upload, piece)) return Code::kInternal;
                const auto answer = client.Wait(kPatience);
                return answer ? static_cast<Code>(answer->code) : Code::kInternal;
              };
              if (code_of(*first, 0) != Code::kOk) return 2;
              // The first upload and the copy of the second upload together exceed the quota of
              // bytes.
              if (code_of(*second, 0) != Code::kNoSpace) return 3;
              first.reset();
              for (int attempt = 0; attempt < 1000; ++attempt) {
                if (code_of(*second, 0) == Code::kOk) return 0;
                ::usleep(10'000);
              }
              return 4;
            }),
            0);
  ExpectServesOthers();
}

}  // namespace
}  // namespace kvd
