// Tests sessions that outlive their processes, with a real daemon: a process is killed in the
// middle of an answer, or leaves, and another process of the session resumes the answer. The daemon
// is killed too in half of the cases.
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "client/kvd.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/visibility.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using test::CodeOf;
using testing::HasSubstr;
using Token = std::array<std::uint8_t, 16>;

constexpr std::uint32_t kOutliveSeconds = 600;

// What a process has received of an answer.
struct Received {
  std::vector<TokenId> tokens;
  std::string text;
  std::vector<wire::TokenLogprob> logprobs;
  std::uint32_t finish = 0;  // 0: the answer has not ended

  void Append(const wire::PieceView& piece) {
    tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
    text += piece.text;
    logprobs.insert(logprobs.end(), piece.logprobs.begin(), piece.logprobs.end());
  }
  void Append(const Received& rest) {
    tokens.insert(tokens.end(), rest.tokens.begin(), rest.tokens.end());
    text += rest.text;
    logprobs.insert(logprobs.end(), rest.logprobs.begin(), rest.logprobs.end());
    finish = rest.finish;
  }
  TokenId last() const { return tokens.empty() ? 0 : tokens.back(); }
  std::uint32_t received() const { return static_cast<std::uint32_t>(tokens.size()); }
};

// The parts of a request that differ between the tests.
struct Question {
  const char* name;
  const char* grammar = "";
  std::vector<std::string_view> stops{};
  std::uint32_t logprob_count = 0;
  std::uint32_t flags = 0;
  std::int32_t predict_max = 60;
  std::size_t prompt_tokens = 5;
  std::int32_t mirostat = 0;
  std::vector<wire::TriggerView> triggers{};
};

const Question kQuestions[] = {
    {.name = "plain", .flags = wire::kIgnoreEos},
    {.name = "with many forced tokens",
     .grammar = "root ::= (\"- name: \" [a-z]{3,9} \", number: \" [0-9]{1,3} \"\\n\"){6}",
     .predict_max = 200},
    {.name = "with characters of several tokens", .grammar = "root ::= [α-ω]{12} [一-龥]{12}"},
    {.name = "with stop texts",
     .grammar = "root ::= ([a-c]{3} \", \"){9} \"END\" [a-c]*",
     .stops = {", E", ", zz"}},
    {.name = "with a stop text in forced text",
     .grammar =
         "root ::= (\"- name: \" [a-z]{3,9} \", number: \" [0-9]{1,3} \"\\n\"){6} \"The end.\"",
     .stops = {"The end", "number: x"},
     .predict_max = 200},
    {.name = "with log-probabilities", .logprob_count = 3, .flags = wire::kIgnoreEos},
    {.name = "with a lazy grammar",
     .grammar = "root ::= \"e\" (\" - \" [a-z]{3,9} \", \" [0-9]{1,3}){9}",
     .predict_max = 150,
     .triggers = {{.token = kNoToken, .text = "e"}}},
    {.name = "with a sampler that adapts", .flags = wire::kIgnoreEos, .mirostat = 2},
};

std::vector<TokenId> PromptOf(const Question& question) {
  std::vector<TokenId> prompt;
  for (std::size_t i = 0; i < question.prompt_tokens; ++i) {
    prompt.push_back(static_cast<TokenId>(10 + i * 7 % 190));
  }
  return prompt;
}

// `prompt` must outlive the options.
GenerateOptions OptionsOf(const Question& question, std::span<const TokenId> prompt) {
  SamplingParams sampling = DefaultSamplingAt(1.5f);
  sampling.mirostat = question.mirostat;
  return {.tokens = prompt,
          .predict_max = question.predict_max,
          .sampling = sampling,
          .logprob_count = question.logprob_count,
          .seed = 4711,
          .flags = question.flags,
          .wants_progress = true,
          .shares_prefix = false,
          .stops = question.stops,
          .grammar = question.grammar,
          .triggers = question.triggers};
}

// Takes pieces until the answer has `tokens_max` tokens or has ended.
Received Take(Generation& generation, std::size_t tokens_max) {
  Received answer;
  while (answer.tokens.size() < tokens_max) {
    const auto piece = generation.Next(std::chrono::seconds(60));
    EXPECT_TRUE(piece) << piece.error().message;
    if (!piece) break;
    if (!*piece) {
      answer.finish = generation.result().finish;
      break;
    }
    answer.Append(**piece);
  }
  return answer;
}
Received TakeAll(Generation generation) { return Take(generation, ~std::size_t{0}); }

// What another process needs to resume an answer.
struct Note {
  Token token{};
  SequenceHandle sequence{};
  RequestId request{};
  Received answer;
};

template <class T>
void Write(int fd, const T* values, std::size_t count) {
  (void)!::write(fd, &count, sizeof count);
  (void)!::write(fd, values, count * sizeof(T));
}
template <class T>
void Read(int fd, T& values) {
  std::size_t count = 0;
  ASSERT_EQ(::read(fd, &count, sizeof count), static_cast<ssize_t>(sizeof count));
  values.resize(count);
  if (count == 0) return;
  const std::size_t bytes = count * sizeof values[0];
  ASSERT_EQ(::read(fd, values.data(), bytes), static_cast<ssize_t>(bytes));
}
void WriteNote(int fd, const Note& note) {
  (void)!::write(fd, note.token.data(), note.token.size());
  (void)!::write(fd, &note.sequence, sizeof note.sequence);
  (void)!::write(fd, &note.request, sizeof note.request);
  Write(fd, note.answer.tokens.data(), note.answer.tokens.size());
  Write(fd, note.answer.text.data(), note.answer.text.size());
  Write(fd, note.answer.logprobs.data(), note.answer.logprobs.size());
  (void)!::write(fd, &note.answer.finish, sizeof note.answer.finish);
}
void ReadNote(int fd, Note& note) {
  ASSERT_EQ(::read(fd, note.token.data(), note.token.size()), 16);
  ASSERT_EQ(::read(fd, &note.sequence, sizeof note.sequence), 8);
  ASSERT_EQ(::read(fd, &note.request, sizeof note.request), 8);
  Read(fd, note.answer.tokens);
  Read(fd, note.answer.text);
  Read(fd, note.answer.logprobs);
  ASSERT_EQ(::read(fd, &note.answer.finish, sizeof note.answer.finish), 4);
}

class OutlivingTest : public test::ServedDaemonTest {
 protected:
  explicit OutlivingTest(const std::string& model = "")
      : ServedDaemonTest(model.empty()
                             ? std::vector<std::string>{"-c", "8192", "--prefill-chunk", "32"}
                             : std::vector<std::string>{"-m", model, "--deterministic"}) {}

  Result<Client> Open(const Token& token = {}) const {
    return Client::Connect({.socket_path = socket_path(),
                            .session_token = token,
                            .outlive_seconds = kOutliveSeconds,
                            .call_timeout = std::chrono::seconds(60)});
  }
  Client Heir(const Note& note) const {
    auto client = Open(note.token);
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }
  // Asks the question in a process that is killed after `tokens` tokens of the answer, or after
  // `prompt_tokens` tokens of the prompt. Returns what that process has received.
  Note AskAndDie(const Question& question, std::size_t tokens, std::uint64_t prompt_tokens = 0) {
    int ends[2];
    Note note;
    EXPECT_EQ(::pipe(ends), 0);
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto prompt = PromptOf(question);
      auto client = Open();
      if (!client) ::_exit(2);
      auto sequence = client->NewSequence();
      if (!sequence) ::_exit(3);
      auto generation = sequence->Generate(OptionsOf(question, prompt));
      if (!generation) ::_exit(4);
      note.token = client->session().session_token;
      note.sequence = sequence->handle();
      note.request = generation->request();
      for (std::uint64_t done = 0; done < prompt_tokens;) {
        const auto piece = generation->Next();
        if (!piece || !*piece) ::_exit(5);
        if ((*piece)->kind == wire::kPieceProgress) done = (*piece)->done;
      }
      note.answer = Take(*generation, tokens);
      WriteNote(write_end.get(), note);
      (void)::kill(::getpid(), SIGKILL);
    }
    write_end = UniqueFd();
    ReadNote(read_end.get(), note);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "exit status " << WEXITSTATUS(status);
    return note;
  }
  void KillDaemon() {
    daemon_->Kill();
    const Status again = daemon_->StartAgain();
    ASSERT_TRUE(again) << again.error().message;
  }
  Received RightAnswer(const Question& question) {
    const auto prompt = PromptOf(question);
    const Client client = Connect();
    const auto sequence = client.NewSequence();
    EXPECT_TRUE(sequence) << sequence.error().message;
    auto generation = sequence->Generate(OptionsOf(question, prompt));
    EXPECT_TRUE(generation) << generation.error().message;
    return TakeAll(std::move(*generation));
  }
  static Received Resume(const Client& client, const Note& note, const Question& question,
                         std::uint32_t received, TokenId last) {
    const auto prompt = PromptOf(question);
    auto generation = client.ResumeGenerate(note.request, note.sequence,
                                            OptionsOf(question, prompt), received, last);
    EXPECT_TRUE(generation) << generation.error().message;
    if (!generation) return {};
    EXPECT_EQ(generation->request(), note.request);
    return TakeAll(std::move(*generation));
  }
  // Resumes the answer after the received tokens, then repeats it from its beginning.
  static void ExpectResumes(const Client& heir, const Note& note, const Question& question,
                            const Received& right) {
    Received whole = note.answer;
    whole.Append(Resume(heir, note, question, whole.received(), whole.last()));
    ExpectEqual(whole, right);
    ExpectEqual(Resume(heir, note, question, 0, 0), right);
  }
  static void ExpectEqual(const Received& answer, const Received& right) {
    EXPECT_EQ(answer.tokens, right.tokens);
    EXPECT_EQ(answer.text, right.text);
    EXPECT_EQ(answer.finish, right.finish);
    ASSERT_EQ(answer.logprobs.size(), right.logprobs.size());
    for (std::size_t i = 0; i < right.logprobs.size(); ++i) {
      ASSERT_EQ(answer.logprobs[i].token, right.logprobs[i].token);
      ASSERT_EQ(answer.logprobs[i].logprob, right.logprobs[i].logprob);
    }
  }
};

// Sanitizer builds take every third kill.
TEST_F(OutlivingTest, AnotherProcessResumesAGenerationAfterAKillAtEveryPoint) {
  std::size_t number = 0;
  for (const Question& question : kQuestions) {
    const Received right = RightAnswer(question);
    ASSERT_GT(right.tokens.size(), 20u) << question.name;
    for (const std::size_t tokens :
         {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{5}, std::size_t{18},
          std::size_t{9}, right.tokens.size() - 1, ~std::size_t{0}}) {
      for (const bool kills_daemon : {false, true}) {
        if (number++ % test::Stride(3) != 0) continue;
        SCOPED_TRACE(testing::Message() << question.name << ", killed after " << tokens << " tokens"
                                        << (kills_daemon ? " with the daemon" : ""));
        const Note note = AskAndDie(question, tokens);
        EXPECT_EQ(note.answer.finish != 0, tokens == ~std::size_t{0});
        if (kills_daemon) KillDaemon();
        const Client heir = Heir(note);
        ExpectResumes(heir, note, question, right);
        if (HasFailure()) return;
      }
    }
  }
}

class HybridOutlivingTest : public OutlivingTest {
 protected:
  HybridOutlivingTest()
      : OutlivingTest(std::filesystem::absolute("models/notebook-1m-hybrid-q8_0.gguf")) {}
};

// A token that the grammar refuses at first takes two draws. With a recurrent state, the row of a
// token that was streamed and not computed is not computed again on a fork.
TEST_F(HybridOutlivingTest, DrawsOfLlamaCppContinueWithAGrammarAfterAKillOfTheDaemon) {
  const Question question{.name = "with llama.cpp's draws",
                          .grammar = "root ::= ([a-f]{2,5} \", \"){8} [0-9]{4}",
                          .flags = wire::kLlamaDraws};
  const Received right = RightAnswer(question);
  ASSERT_GT(right.tokens.size(), 12u);
  for (const std::size_t tokens : {1, 2, 3, 7, 12}) {
    SCOPED_TRACE(testing::Message() << "killed after " << tokens << " tokens");
    const Note note = AskAndDie(question, tokens);
    KillDaemon();
    ExpectResumes(Heir(note), note, question, right);
  }
}

TEST_F(OutlivingTest, APartlyComputedPromptIsCompleted) {
  const Question question{.name = "long", .predict_max = 12, .prompt_tokens = 1500};
  const Received right = RightAnswer(question);
  for (const bool kills_daemon : {false, true}) {
    const Note note = AskAndDie(question, 0, 100);
    if (kills_daemon) KillDaemon();
    const Client heir = Heir(note);
    const auto entry = heir.Query(note.sequence);
    ASSERT_TRUE(entry) << entry.error().message;
    EXPECT_GE(entry->cell_count, 96u);
    EXPECT_LT(entry->cell_count, 1500u) << "the prompt was computed before the process was killed";
    ExpectEqual(Resume(heir, note, question, 0, 0), right);
  }
}

TEST_F(OutlivingTest, AGenerationIsResumedBesideNewRequests) {
  const Question& question = kQuestions[0];
  const Received right = RightAnswer(question);
  const Note note = AskAndDie(question, 3);
  const Client heir = Heir(note);
  // The new requests would have the numbers of the earlier process's requests if the library did
  // not skip numbers.
  const auto prompt = PromptOf(question);
  std::vector<Sequence> sequences;
  std::vector<Generation> others;
  for (int i = 0; i < 4; ++i) {
    auto sequence = heir.NewSequence();
    ASSERT_TRUE(sequence) << sequence.error().message;
    sequences.push_back(std::move(*sequence));
    auto generation = sequences.back().Generate(OptionsOf(question, prompt));
    ASSERT_TRUE(generation) << generation.error().message;
    EXPECT_NE(generation->request(), note.request);
    others.push_back(std::move(*generation));
  }
  auto resumed = heir.ResumeGenerate(note.request, note.sequence, OptionsOf(question, prompt),
                                     note.answer.received(), note.answer.last());
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(
      CodeOf(heir.ResumeGenerate(note.request, note.sequence, OptionsOf(question, prompt), 0, 0)),
      Code::kConflict)
      << "the request is in flight";
  EXPECT_EQ(
      CodeOf(heir.ResumeGenerate(RequestId{}, note.sequence, OptionsOf(question, prompt), 0, 0)),
      Code::kInvalidArgument);
  for (Generation& other : others) ExpectEqual(TakeAll(std::move(other)), right);
  Received whole = note.answer;
  whole.Append(TakeAll(std::move(*resumed)));
  ExpectEqual(whole, right);
}

TEST_F(OutlivingTest, AnEventLoopResumesAGeneration) {
  const Question& question = kQuestions[1];
  const Received right = RightAnswer(question);
  const Note note = AskAndDie(question, 5);
  const Client heir = Heir(note);
  const auto descriptor = heir.connection()->OpenEventDescriptor();
  ASSERT_TRUE(descriptor) << descriptor.error().message;
  const auto prompt = PromptOf(question);
  auto resumed = heir.ResumeGenerate(note.request, note.sequence, OptionsOf(question, prompt),
                                     note.answer.received(), note.answer.last());
  ASSERT_TRUE(resumed) << resumed.error().message;
  Received whole = note.answer;
  for (bool has_ended = false; !has_ended;) {
    const auto ready = heir.connection()->TakeReady();
    ASSERT_TRUE(ready) << ready.error().message;
    if (ready->empty()) {
      pollfd entry{.fd = *descriptor, .events = POLLIN, .revents = 0};
      ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
      continue;
    }
    ASSERT_EQ(*ready, std::vector{note.request});
    const auto piece = resumed->Next(std::chrono::milliseconds(0));
    ASSERT_TRUE(piece) << piece.error().message;
    has_ended = !*piece;
    if (*piece) whole.Append(**piece);
  }
  whole.finish = resumed->result().finish;
  ExpectEqual(whole, right);
}

TEST_F(OutlivingTest, ResumingAnUnknownRequestIsAnErrorAndChangesNothing) {
  const Question& question = kQuestions[0];
  const auto prompt = PromptOf(question);
  const Note note = AskAndDie(question, 4);
  const Client heir = Heir(note);
  const auto code_of = [&](std::uint32_t received, TokenId last) {
    auto generation = heir.ResumeGenerate(note.request, note.sequence, OptionsOf(question, prompt),
                                          received, last);
    EXPECT_TRUE(generation) << generation.error().message;
    for (;;) {
      const auto piece = generation->Next();
      if (!piece) return piece.error().code;
      if (!*piece) return Code::kOk;
    }
  };
  EXPECT_EQ(code_of(1000, 5), Code::kConflict) << "more than the daemon can have sent";
  const auto entry = heir.Query(note.sequence);
  ASSERT_TRUE(entry) << entry.error().message;
  ASSERT_GT(entry->cell_count, 5u);
  ASSERT_TRUE(heir.RemoveRange(note.sequence, {Pos{entry->next_pos - 1}, kPosEnd}));
  EXPECT_EQ(code_of(0, 0), Code::kConflict) << "the sequence was edited";
  const Sequence sequence(heir, note.sequence);
  EXPECT_EQ(sequence.Query()->cell_count, entry->cell_count - 1);
}

TEST_F(OutlivingTest, AClientThatLeavesKeepsItsSequencesAndItsGeneration) {
  for (const Question& question : {kQuestions[0], kQuestions[3]}) {
    const Received right = RightAnswer(question);
    const auto prompt = PromptOf(question);
    Note note;
    {
      const auto client = Open();
      ASSERT_TRUE(client) << client.error().message;
      auto sequence = client->NewSequence();
      ASSERT_TRUE(sequence);
      const auto other = client->NewSequence();
      ASSERT_TRUE(other);
      auto generation = sequence->Generate(OptionsOf(question, prompt));
      ASSERT_TRUE(generation) << generation.error().message;
      note = {.token = client->session().session_token,
              .sequence = sequence->handle(),
              .request = generation->request(),
              .answer = Take(*generation, 6)};
      ASSERT_TRUE(client->Leave());
      EXPECT_TRUE(client->Leave()) << "a client may leave twice";
      EXPECT_EQ(CodeOf(client->Ping()), Code::kDisconnected);
      const auto after = client->Ping();
      EXPECT_THAT(after.error().message, HasSubstr("has left"));
    }
    const Client heir = Heir(note);
    EXPECT_EQ(CodeOf(heir.Query(note.sequence)), Code::kOk);
    ExpectResumes(heir, note, question, right);
  }
}

TEST_F(OutlivingTest, LeavingWakesAWaitingThread) {
  const auto client = Open();
  ASSERT_TRUE(client) << client.error().message;
  const auto sequence = client->NewSequence();
  ASSERT_TRUE(sequence);
  const Question question{.name = "endless", .flags = wire::kIgnoreEos, .predict_max = 3000};
  const auto prompt = PromptOf(question);
  auto generation = sequence->Generate(OptionsOf(question, prompt));
  ASSERT_TRUE(generation) << generation.error().message;
  Code code = Code::kOk;
  {
    std::jthread waiter([&] {
      for (;;) {
        const auto piece = generation->Next(std::chrono::milliseconds(-1));
        if (!piece) code = piece.error().code;
        if (!piece || !*piece) return;
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_TRUE(client->Leave());
  }
  EXPECT_EQ(code, Code::kDisconnected);
  EXPECT_TRUE(client->Renew()) << "a client that has left may open a new session";
  EXPECT_EQ(CodeOf(client->Ping()), Code::kOk);
  const auto entry = client->Query(sequence->handle());
  ASSERT_TRUE(entry) << entry.error().message;
  EXPECT_NE(entry->session, client->session().session) << "the sequence stays with the old session";
}

TEST_F(OutlivingTest, AClientThatClosesEndsItsSession) {
  Token token{};
  {
    const auto client = Open();
    ASSERT_TRUE(client) << client.error().message;
    token = client->session().session_token;
  }
  EXPECT_EQ(CodeOf(Open(token)), Code::kSessionLost);
}

class OutlivingCTest : public OutlivingTest {
 protected:
  kvd_client* ConnectC(const std::uint8_t* token) const {
    kvd_connect_options options;
    kvd_connect_options_init(&options, sizeof options);
    options.socket_path = socket_path().c_str();
    options.timeout_ms = 60'000;
    options.outlive_seconds = kOutliveSeconds;
    if (token != nullptr) std::copy_n(token, sizeof options.session_token, options.session_token);
    kvd_client* client = nullptr;
    EXPECT_EQ(kvd_connect(&options, &client), KVD_OK) << kvd_error_message();
    return client;
  }
  static kvd_generate_params Params() {
    static const kvd_token kPrompt[] = {10, 20, 30};
    kvd_generate_params params;
    kvd_generate_params_init(&params, sizeof params);
    params.tokens = kPrompt;
    params.token_count = 3;
    params.predict_max = 40;
    params.seed = 5;
    params.temperature = 1.5f;
    params.flags = KVD_IGNORE_EOS;
    params.no_prefix = 1;
    return params;
  }
  static void Take(kvd_client* client, kvd_request request, std::size_t tokens_max,
                   std::vector<kvd_token>& tokens) {
    while (tokens.size() < tokens_max) {
      kvd_piece piece;
      ASSERT_EQ(kvd_generate_next(client, request, 60'000, &piece, nullptr), KVD_OK)
          << kvd_error_message();
      if (piece.kind == KVD_PIECE_END) return;
      tokens.insert(tokens.end(), piece.tokens, piece.tokens + piece.token_count);
    }
  }
};

TEST_F(OutlivingCTest, TheCInterfaceCanLeaveAndResume) {
  const kvd_generate_params params = Params();
  std::vector<kvd_token> right;
  kvd_client* first = ConnectC(nullptr);
  kvd_sequence sequence = 0;
  ASSERT_EQ(kvd_sequence_create(first, nullptr, &sequence, nullptr), KVD_OK);
  kvd_request request = 0;
  ASSERT_EQ(kvd_generate(first, sequence, &params, nullptr, nullptr, nullptr, &request), KVD_OK);
  Take(first, request, 1000, right);
  ASSERT_EQ(right.size(), 40u);
  ASSERT_EQ(kvd_sequence_clear(first, sequence, nullptr), KVD_OK);
  ASSERT_EQ(kvd_generate(first, sequence, &params, nullptr, nullptr, nullptr, &request), KVD_OK);
  std::vector<kvd_token> tokens;
  Take(first, request, 7, tokens);
  kvd_session_info info{};
  info.size = sizeof info;
  ASSERT_EQ(kvd_session(first, &info), KVD_OK);
  ASSERT_EQ(kvd_leave(first), KVD_OK);
  EXPECT_EQ(kvd_ping(first, 0, nullptr, nullptr), KVD_DISCONNECTED);
  kvd_close(first);
  EXPECT_EQ(kvd_leave(nullptr), KVD_INVALID_ARGUMENT);

  kvd_client* heir = ConnectC(info.session_token);
  ASSERT_EQ(kvd_generate_resume(heir, request, sequence, &params,
                                static_cast<std::uint32_t>(tokens.size()), tokens.back()),
            KVD_OK)
      << kvd_error_message();
  EXPECT_EQ(kvd_generate_resume(heir, request, sequence, &params, 0, 0), KVD_CONFLICT);
  EXPECT_EQ(kvd_generate_resume(heir, 0, sequence, &params, 0, 0), KVD_INVALID_ARGUMENT);
  Take(heir, request, 1000, tokens);
  EXPECT_EQ(tokens, right);
  kvd_close(heir);
}

}  // namespace
}  // namespace kvd
