// Tests kvctl as a user runs it: the tests run the binary with a fake daemon and check its output
// and exit codes.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "shm/payload_codec.h"
#include "shm/piece_codec.h"
#include "tests/client/support/fake_daemon.h"

namespace kvd {
namespace {

using wire::Verb;

struct Outcome {
  int exit_code = -1;
  std::string output;  // standard output and error
};

template <class T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// Answers as a daemon whose model generates "a b c".
bool Answer(FakeSession& session, const ReceivedSubmission& received) {
  const wire::Submission& submission = received.submission;
  switch (static_cast<Verb>(submission.verb)) {
    case Verb::kTokenize: {
      const bool parses_special = (submission.flags & wire::kFlagParseSpecial) != 0;
      const std::vector<TokenId> tokens =
          parses_special ? std::vector<TokenId>{3, 1, 2} : std::vector<TokenId>{3, 1, 2, 0};
      session.Final(submission, std::as_bytes(std::span(tokens)), {});
      return true;
    }
    case Verb::kDetokenize: {
      // Token 0 is a line break, token 1 the byte ff, and the others are letters.
      const std::string pieces =
          "\n\xff"
          "cd";
      std::vector<TokenId> tokens(received.payload.size() / sizeof(TokenId));
      std::memcpy(tokens.data(), received.payload.data(), tokens.size() * sizeof(TokenId));
      std::string text;
      for (const TokenId token : tokens) text += pieces[static_cast<std::size_t>(token)];
      session.Final(submission, std::as_bytes(std::span(text)), {});
      return true;
    }
    case Verb::kEmbed: {
      const bool is_raw = (submission.flags & wire::kFlagNormalize) == 0;
      const auto texts = wire::ParseTokenLists(received.payload, 64);
      std::vector<float> rows;
      for (std::size_t i = 0; i < texts->size(); ++i) {
        // The pooling of the request is in the second column.
        rows.push_back(is_raw ? 3.0f : 0.5f);
        rows.push_back(static_cast<float>(submission.argument));
      }
      session.Final(submission, std::as_bytes(std::span(rows)),
                    {0, static_cast<std::int64_t>(texts->size()), 2, is_raw ? 0 : 1});
      return true;
    }
    case Verb::kRank: {
      // The score of a document is the number of its bytes.
      const auto texts = wire::ParseTexts(received.payload);
      std::vector<float> scores;
      for (std::size_t i = 1; i < texts->size(); ++i) {
        scores.push_back(static_cast<float>((*texts)[i].size()));
      }
      session.Final(submission, std::as_bytes(std::span(scores)), {});
      return true;
    }
    case Verb::kChatTemplates: {
      const wire::ChatTextView texts[] = {
          {wire::ChatTextKind::kTemplate, "",
           "{{ bos_token }}{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"},
          {wire::ChatTextKind::kTemplate, "tool_use", "{{ tools | tojson }}"},
          {wire::ChatTextKind::kToken, "bos", "<s>"}};
      std::vector<std::byte> records(wire::ChatTextsBytes(texts));
      wire::EncodeChatTexts(texts, records);
      session.Final(submission, records, {});
      return true;
    }
    case Verb::kReadText:
      session.Final(submission, std::as_bytes(std::span("its text", 8)), {});
      return true;
    case Verb::kFork: {
      const std::vector<std::uint64_t> forks(static_cast<std::size_t>(submission.argument),
                                             0x200000005);
      session.Final(submission, std::as_bytes(std::span(forks)), {0x200000005, 2500, 30000});
      return true;
    }
    case Verb::kList: {
      wire::SequenceEntry entry{};
      entry.handle = 0x100000003;
      entry.owner_uid = 1000;
      entry.owner_pid = 42;
      entry.flags = layout::kSequenceLive;
      entry.cell_count = 300;
      entry.shared_cells = 100;
      entry.age_ms = 65'000;
      entry.request_state = wire::kRequestParked;
      entry.request_tokens_done = 12;
      entry.request_tokens = 40;
      entry.parked_ms = 3000;
      session.Final(submission, BytesOf(entry), {});
      return true;
    }
    case Verb::kSnapshots: {
      wire::SnapshotEntry entry{};
      std::strcpy(entry.name, "news");
      entry.sequence = 0x100000003;
      entry.owner_uid = ::geteuid();
      entry.is_own = 1;
      std::array<wire::SnapshotEntry, 2> entries{entry, entry};
      std::strcpy(entries[1].name, "of another tenant");
      entries[1].is_own = 0;
      session.Final(submission, std::as_bytes(std::span(entries)), {});
      return true;
    }
    case Verb::kInfo: {
      wire::InfoReply info{};
      std::strcpy(info.model_name, "tiny");
      info.requests_computing = 2;
      info.requests_waiting = 3;
      info.requests_parked = 1;
      info.tokens_given_back = 64;
      session.Final(submission, BytesOf(info), {});
      return true;
    }
    case Verb::kCache: {
      wire::CacheReply cache{};
      cache.is_on = 1;
      cache.entries = 12345;
      session.Final(submission, BytesOf(cache), {});
      return true;
    }
    case Verb::kTuning: {
      wire::TuningReply tuning{};
      tuning.source = static_cast<std::uint32_t>(ChoiceSource::kMeasuredBefore);
      tuning.progress = static_cast<std::uint32_t>(TuningProgress::kNothingToDo);
      tuning.used_unix_ms = 1'790'000'000'000;
      tuning.choice_count = 4;
      tuning.choices[0] = {.weight_type = "f16",
                           .wide_form = 1,
                           .wide_from_rows = 8,
                           .ahead_bytes = 0,
                           .panel_from_rows = 0,
                           .panel_outs = 0,
                           .is_measured = 1};
      tuning.choices[1] = {.weight_type = "q8_0",
                           .wide_form = 0,
                           .wide_from_rows = 0,
                           .ahead_bytes = 32768,
                           .panel_from_rows = 5,
                           .panel_outs = 32,
                           .is_measured = 1};
      // A form that this kvctl does not know is one of a newer daemon.
      for (const std::uint32_t form : {2u, 3u}) {
        tuning.choices[form] = {.weight_type = "f32",
                                .wide_form = form,
                                .wide_from_rows = 64,
                                .ahead_bytes = 0,
                                .panel_from_rows = 0,
                                .panel_outs = 0,
                                .is_measured = 0};
      }
      session.Final(submission, BytesOf(tuning), {});
      return true;
    }
    case Verb::kProfile: {
      wire::ProfileReply profile{};
      profile.decode = {.steps = 2, .tokens = 2, .ns = {}, .expert_bytes = 5'000'000};
      profile.decode.ns[static_cast<std::size_t>(StepPhase::kAttention)] = 3'000'000;
      profile.decode.ns[static_cast<std::size_t>(StepPhase::kFeedForward)] = 1'000'000;
      session.Final(submission, BytesOf(profile), {});
      return true;
    }
    case Verb::kPin:
      if (submission.sequence != 77) return false;
      session.Fail(submission, Code::kPermission,
                   "sequence 77: belongs to session 5; fork it, or set the force flag");
      return true;
    case Verb::kDrop:
      if ((submission.flags & wire::kFlagForce) != 0) return false;
      session.Fail(submission, Code::kPermission, "sequence 3: another session's");
      return true;
    case Verb::kGenerate: {
      const auto request = wire::ParseGenerate(received.payload, FakeDaemon::kVocab);
      EXPECT_TRUE(request);
      TokenId token = 4;
      for (const std::string_view text : {"a", " b", " c"}) {
        const wire::PieceView piece{wire::kPieceTokens, 0, 0, {&token, 1}, text, {}};
        std::vector<std::byte> bytes(wire::PieceBytes(piece));
        wire::EncodePiece(piece, bytes);
        session.More(submission, bytes, {});
      }
      const wire::GenerateResult result{request->params.seed,
                                        wire::kFinishEnd,
                                        7,
                                        static_cast<std::uint32_t>(request->tokens.size()),
                                        3,
                                        1000,
                                        2000,
                                        2,
                                        1,
                                        0,
                                        0,
                                        0};
      session.Final(submission, BytesOf(result), {});
      return true;
    }
    default: return false;
  }
}

class KvctlTest : public testing::Test {
 protected:
  Outcome Kvctl(const std::string& arguments, const std::string& input = "") {
    return Shell("printf '%s' '" + input + "' | { kvctl --socket " + daemon_.socket_path() + " " +
                 arguments + "; }");
  }
  // Runs a command line as a user's shell does. In the command line, the word kvctl stands for the
  // built binary.
  static Outcome Shell(const std::string& line) {
    const char* folder = std::getenv("KVD_BIN");
    const std::string command = std::string("PATH=") + (folder == nullptr ? "build/bin" : folder) +
                                ":$PATH; { " + line + "; } 2>&1";
    Outcome outcome;
    FILE* pipe = ::popen(command.c_str(), "r");
    std::array<char, 4096> buffer;
    while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
      outcome.output.append(buffer.data(), got);
    }
    outcome.exit_code = WEXITSTATUS(::pclose(pipe));
    return outcome;
  }
  static testing::AssertionResult Holds(const Outcome& outcome, std::string_view part) {
    if (outcome.output.find(part) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << outcome.output << "\n does not hold " << part;
  }

  FakeDaemon daemon_{Answer};
};

TEST_F(KvctlTest, RunStreamsTheText) {
  const Outcome outcome = Kvctl("run 'Once upon' -n 3 --temp 0");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "a b c\n");
  EXPECT_EQ(Kvctl("run", "from standard input").output, "a b c\n");
}

TEST_F(KvctlTest, RunPrintsJson) {
  const Outcome outcome = Kvctl("run x --json --seed 5");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(Holds(outcome, R"("text":"a b c")"));
  EXPECT_TRUE(Holds(outcome, R"("tokens":[4,4,4])"));
  EXPECT_TRUE(Holds(outcome, R"("tokens_reused":7,"tokens_computed":3,"tokens_predicted":3)"));
  EXPECT_TRUE(Holds(outcome, R"("seed":"5")"));
}

TEST_F(KvctlTest, RunContinuesANamedSnapshotOrSequence) {
  EXPECT_EQ(Kvctl("run x --chat --system brief --from news --keep later --force").output,
            "a b c\n");
  EXPECT_EQ(Kvctl("run x --sequence 0x100000003").output, "a b c\n");
  EXPECT_EQ(Kvctl("run x --sequence 1 --from news").exit_code, 2);
  EXPECT_EQ(Kvctl("run x --system brief").exit_code, 2);
  EXPECT_EQ(Kvctl("run").exit_code, 1);  // an empty prompt
  EXPECT_TRUE(Holds(Kvctl("run x --top-p 3"), "invalid_argument: generate.top_p: 3"));
}

TEST_F(KvctlTest, PsShowsSequences) {
  const Outcome outcome = Kvctl("ps");
  EXPECT_TRUE(Holds(outcome, "HANDLE"));
  EXPECT_TRUE(
      Holds(outcome,
            "4294967299  news  uid 1000, pid 42     300     100  200  1m 5s    never  live   "
            "parked 3s 12/40"));
  EXPECT_TRUE(Holds(Kvctl("ps --json"), R"([{"handle":"4294967299","name":"news")"));
  EXPECT_TRUE(Holds(Kvctl("ps --json"), R"("request":"parked","request_tokens_done":12,)"
                                        R"("request_tokens":40,"parked_ms":3000)"));
}

TEST_F(KvctlTest, RunReadsSpecialTokensUnlessItIsToldNotTo) {
  EXPECT_TRUE(Holds(Kvctl("run x --json"), R"("tokens_computed":3)"));
  EXPECT_TRUE(Holds(Kvctl("run x --no-parse-special --json"), R"("tokens_computed":4)"));
  EXPECT_TRUE(Holds(Kvctl("run x --no-parse-special --chat"), "--parse-special excludes --chat"));
}

TEST_F(KvctlTest, WarmComputesAFileAndSharesWithRun) {
  EXPECT_TRUE(Holds(Kvctl("warm - --json", "text"), R"("tokens":3,"tokens_computed":3)"));
  EXPECT_TRUE(Holds(Kvctl("warm - --no-parse-special --json", "text"), R"("tokens":4)"));
  EXPECT_TRUE(Holds(Kvctl("warm - --keep notes --ttl 60 --force", "text"),
                    "3 tokens, 3 of them computed; kept as snapshot notes"));
  EXPECT_TRUE(Holds(Kvctl("warm --chat --system brief --keep notes"), "kept as snapshot notes"));
  EXPECT_TRUE(Holds(Kvctl("warm"), "file: required without --chat"));
  EXPECT_TRUE(Holds(Kvctl("warm - --pin --keep notes"), "--pin excludes --keep"));
  EXPECT_TRUE(Holds(Kvctl("warm - --ttl 60"), "--ttl requires --keep"));
}

TEST_F(KvctlTest, NamesOfSnapshotsStandForTheirSequences) {
  EXPECT_EQ(Kvctl("text news").output, "its text\n");
  EXPECT_EQ(Kvctl("fork news --count 2").exit_code, 0);
  EXPECT_EQ(Kvctl("run x --sequence news").output, "a b c\n");
  EXPECT_TRUE(Holds(Kvctl("rm news --json"), R"({"removed":["4294967299"]})"));
  EXPECT_EQ(Kvctl("pin news").exit_code, 0);
  EXPECT_TRUE(Holds(Kvctl("text old"), "'old' is neither a handle nor the name of a snapshot"));
  EXPECT_TRUE(Holds(Kvctl("text 99:1"), "invalid_argument: sequence: '99:1'"));
}

TEST_F(KvctlTest, SaveNamesTheFileAfterTheSnapshot) {
  EXPECT_TRUE(Holds(Kvctl("save news"), "news  0 cells"));
  EXPECT_TRUE(Holds(Kvctl("save news other"), "other  0 cells"));
  EXPECT_TRUE(Holds(Kvctl("save 4294967299"), "name: required for a handle"));
  EXPECT_TRUE(Holds(Kvctl("save"), "handle: required without --all"));
  EXPECT_TRUE(Holds(Kvctl("save --all --json"), R"([{"name":"news")"));
  EXPECT_FALSE(Holds(Kvctl("save --all"), "of another tenant"));
  EXPECT_TRUE(Holds(Kvctl("save news --all"), "--all: takes neither"));
}

TEST_F(KvctlTest, ExportKeepsAnExistingFileWithoutForce) {
  const Outcome outcome = Kvctl("export news /dev/null");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(Holds(outcome, "exists: /dev/null: exists; --force replaces it"));
}

TEST_F(KvctlTest, DropWithoutAFlagMeansTheRetainedSequences) {
  EXPECT_EQ(Kvctl("drop").output, "0 dropped\n");
  EXPECT_EQ(Kvctl("drop --retained").output, "0 dropped\n");
}

TEST_F(KvctlTest, ForkPrintsHandlesAndCounts) {
  const Outcome outcome = Kvctl("fork 0x100000003 --count 2");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(Holds(outcome, "8589934597\n"));
  EXPECT_TRUE(Holds(outcome, "30000 cells each, forked in 2.5 µs; ends with this session"));
  EXPECT_TRUE(Holds(Kvctl("fork 4294967299 --json"), R"("engine_ns":2500)"));
  EXPECT_EQ(Kvctl("fork 1 --count 0").exit_code, 2);
}

TEST_F(KvctlTest, HoldStaysUntilInterrupted) {
  const Outcome outcome =
      Kvctl("attach news --hold & sleep 0.3; kill -INT $!; wait $!; echo code $?");
  EXPECT_TRUE(Holds(outcome, "held until Ctrl-C"));
  EXPECT_TRUE(Holds(outcome, "code 0"));
}

TEST_F(KvctlTest, RmNeedsForceForASequenceOfAnotherSession) {
  const Outcome outcome = Kvctl("rm 3");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.output, "kvctl: permission: sequence 3: another session's\n");
  EXPECT_EQ(Kvctl("rm --force 3 4").exit_code, 0);
  EXPECT_TRUE(Holds(Kvctl("rm 3 --json"), R"({"error":{"code":"permission","message":)"));
}

TEST_F(KvctlTest, SnapshotVerbsPrintTheirResults) {
  EXPECT_TRUE(Holds(Kvctl("publish 3 news --public"), "news  30000 cells"));
  EXPECT_TRUE(Holds(Kvctl("attach news"), "30 cells, attached in 1.5 µs"));
  EXPECT_TRUE(Holds(Kvctl("snapshots"), "news"));
  EXPECT_TRUE(Holds(Kvctl("snapshots --json"), R"("name":"news")"));
  EXPECT_EQ(Kvctl("unpublish news --force").exit_code, 0);
}

TEST_F(KvctlTest, TheOtherVerbsPrintTheirResults) {
  EXPECT_EQ(Kvctl("text 3").output, "its text\n");
  EXPECT_EQ(Kvctl("tokenize --no-parse-special hello").output,
            "       3  \"d\"\n       1  \"\\xff\"\n       2  \"c\"\n       0  \"\\n\"\n");
  EXPECT_EQ(Kvctl("tokenize --json", "hello").output,
            "{\"tokens\":[3,1,2],\"pieces\":[\"d\",\"\xef\xbf\xbd\",\"c\"]}\n");
  EXPECT_EQ(Kvctl("embed hello").output, "0.5 -1\n");
  EXPECT_EQ(Kvctl("embed --raw", "hello").output, "3 -1\n");
  EXPECT_EQ(Kvctl("embed --raw --pooling last hello world").output, "3 3\n3 3\n");
  EXPECT_EQ(Kvctl("embed --lines", "hello\n\nworld").output, "0.5 -1\n0.5 -1\n");
  EXPECT_EQ(Kvctl("embed --json --pooling mean hello").output,
            "{\"normalized\":true,\"texts\":[{\"tokens\":4,\"rows\":[[0.5,1.0]]}]}\n");
  EXPECT_TRUE(Holds(Kvctl("embed --pooling sum hello"), "--pooling: sum"));
  EXPECT_TRUE(Holds(Kvctl("embed --lines", ""), "no lines"));
  EXPECT_EQ(Kvctl("rank query a abc ab").output, "3 abc\n2 ab\n1 a\n");
  EXPECT_EQ(Kvctl("rank query", "a\nab\n").output, "2 ab\n1 a\n");
  EXPECT_EQ(Kvctl("rank --json query a ab").output, "{\"scores\":[1.0,2.0]}\n");
  EXPECT_TRUE(Holds(Kvctl("info"), "tiny"));
  EXPECT_TRUE(Holds(Kvctl("info --json"), R"("model_name":"tiny")"));
  EXPECT_TRUE(Holds(Kvctl("info"), "12345"));
  EXPECT_TRUE(Holds(Kvctl("info --json"), "12345"));
  EXPECT_TRUE(Holds(Kvctl("ping -c 5 --bytes 64"), "5 round trips: min"));
  EXPECT_TRUE(Holds(Kvctl("ping -c 5 --json"), R"("count":5)"));
}

TEST_F(KvctlTest, ProfileListsTheLongestStageFirst) {
  const Outcome shown = Kvctl("info --profile");
  EXPECT_TRUE(Holds(shown, "decode steps: 2, 1.0 tokens and 2.000 ms each"));
  EXPECT_TRUE(Holds(shown, "75.0 %"));
  EXPECT_TRUE(Holds(shown, "steps with prompts: none yet"));
  EXPECT_LT(shown.output.find("attention"), shown.output.find("feed_forward"));
  EXPECT_NE(shown.output.find("2.5 MB of experts read a step"), std::string::npos);
  EXPECT_TRUE(Holds(Kvctl("info --profile --json"), R"("attention":3000000)"));
  EXPECT_TRUE(Holds(Kvctl("info --profile --json"), R"("expert_bytes":5000000)"));
}

TEST_F(KvctlTest, InfoShowsTheChoicesOfProductsAndTheirSource) {
  EXPECT_TRUE(Holds(Kvctl("info"),
                    "f16 bf16 from 8 rows; q8_0 one form, panels from 5 rows, panels of 32 "
                    "outputs, prefetches 32768 bytes ahead; "
                    "f32 outer from 64 rows; f32 unknown from 64 rows; "
                    "measured before (2026-09-21 14:13:20 UTC)"));
  EXPECT_TRUE(Holds(Kvctl("info --json"), R"("tuning":{"source":"measured before")"));
  EXPECT_TRUE(Holds(Kvctl("info --json"),
                    R"({"weight_type":"q8_0","wide_form":"none","wide_from_rows":0,)"
                    R"("ahead_bytes":32768,"panel_from_rows":5,"panel_outs":32,)"
                    R"("is_measured":true})"));
  EXPECT_TRUE(Holds(Kvctl("info --json"), R"("wide_form":"outer","wide_from_rows":64)"));
  EXPECT_TRUE(Holds(Kvctl("info --json"), R"("wide_form":"unknown","wide_from_rows":64)"));
}

TEST_F(KvctlTest, UsageErrorsExitWithTwo) {
  EXPECT_EQ(Kvctl("").exit_code, 2);
  EXPECT_EQ(Kvctl("frobnicate").exit_code, 2);
  EXPECT_EQ(Kvctl("ps --unknown").exit_code, 2);
  EXPECT_EQ(Kvctl("--help").exit_code, 0);
}

TEST_F(KvctlTest, VersionIsPrinted) {
  const Outcome outcome = Kvctl("--version");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(std::regex_match(outcome.output, std::regex(R"(kvctl \d+\.\d+\.\d+\n)")));
}

TEST_F(KvctlTest, AnUnknownSubcommandIsNamedWithTheNearestOne) {
  EXPECT_TRUE(
      Holds(Kvctl("tokenise x"), "'tokenise': no such subcommand; the nearest one is tokenize"));
  EXPECT_TRUE(Holds(Kvctl("snap"), "the nearest one is snapshots"));
  EXPECT_TRUE(
      Holds(Kvctl("frobnicate"), "'frobnicate': no such subcommand; kvctl --help lists them"));
}

TEST_F(KvctlTest, AdviceAboutAMissingDaemonRepeatsHowItWasNamed) {
  const std::string place =
      "unset KVD_SOCKET; XDG_RUNTIME_DIR=/nonexistent; export XDG_RUNTIME_DIR; ";
  EXPECT_TRUE(Holds(Shell(place + "kvctl --name other ps"),
                    "start one with: kvd --name other [--model FILE.gguf]"));
  EXPECT_TRUE(Holds(Shell(place + "kvctl --socket '/nonexistent/a b.sock' ps"),
                    "start one with: kvd --socket '/nonexistent/a b.sock' [--model FILE.gguf]"));
  EXPECT_TRUE(Holds(Shell(place + "KVD_SOCKET=/nonexistent/c.sock kvctl ps"),
                    "start one with: kvd --socket /nonexistent/c.sock [--model FILE.gguf]"));
  EXPECT_TRUE(Holds(Shell(place + "kvctl ps"), "start one with: kvd [--model FILE.gguf]"));
}

TEST_F(KvctlTest, ErrorsNameTheFlagOfTheCommandLine) {
  EXPECT_TRUE(Holds(Kvctl("pin 77"),
                    "permission: sequence 77: belongs to session 5; fork it, or "
                    "use --force"));
}

// The first words of the lines that follow "Subcommands:" in the output of kvctl --help.
std::vector<std::string> VerbsOf(const std::string& help) {
  std::vector<std::string> verbs;
  const std::string heading = "\nSubcommands:\n";
  const std::size_t start = help.find(heading);
  if (start == std::string::npos) return verbs;
  std::istringstream lines(help.substr(start + heading.size()));
  std::string verb;
  for (std::string text; std::getline(lines, text);) {
    if (std::istringstream(text) >> verb) verbs.push_back(verb);
  }
  return verbs;
}

// `text` must have lines of at most 100 columns, and each flag with a value names the value in
// capitals and states its default.
void CheckHelp(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  const std::regex flag("\n  (-[^ ]+) ([A-Z]+)\\b");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), flag); at != std::sregex_iterator();
       ++at) {
    const std::string type = (*at)[2];
    EXPECT_FALSE(type == "INT" || type == "UINT" || type == "FLOAT") << at->str();
    const auto begin = static_cast<std::size_t>(at->position() + at->length());
    const std::string rest = text.substr(begin, text.find("\n  -", begin) - begin);
    EXPECT_NE(rest.find("Default:"), std::string::npos) << at->str() << rest;
  }
}

// No daemon listens on the socket, so that a verb whose options are correct fails when it connects
// or reads its file, and changes nothing.
TEST_F(KvctlTest, HelpOfEveryVerbShowsAnExampleThatParses) {
  const std::vector<std::string> verbs = VerbsOf(Kvctl("--help").output);
  ASSERT_GE(verbs.size(), 27u);
  CheckHelp(Kvctl("--help").output);
  for (const std::string& verb : verbs) {
    SCOPED_TRACE(verb);
    const Outcome help = Kvctl(verb + " --help");
    EXPECT_EQ(help.exit_code, 0);
    CheckHelp(help.output);
    std::istringstream lines(help.output);
    std::vector<std::string> examples;
    for (std::string text; std::getline(lines, text);) {
      if (text.starts_with("Example: ")) examples.push_back(text.substr(std::strlen("Example: ")));
    }
    ASSERT_EQ(examples.size(), 1u) << help.output;
    const std::string& example = examples.front();
    EXPECT_TRUE((example + " ").starts_with("kvctl " + verb + " ")) << example;
    // It needs no daemon, and removes what is left of this user's.
    if (verb == "daemons") continue;
    const Outcome outcome =
        Shell("KVD_SOCKET=/nonexistent/kvd.sock; export KVD_SOCKET; " + example + " </dev/null");
    EXPECT_EQ(outcome.exit_code, 1) << example << "\n" << outcome.output;
    EXPECT_EQ(outcome.output.find("invalid_argument"), std::string::npos) << outcome.output;
  }
}

}  // namespace
}  // namespace kvd
