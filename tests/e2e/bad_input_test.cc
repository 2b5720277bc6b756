// Tests bad input of every kind. A test sends the input through the client library or, if the
// library itself would refuse the input, as a submission without the library. The daemon refuses
// each request, names the wrong field and changes nothing.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "shm/payload_codec.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;
using wire::Verb;

constexpr std::int32_t kCells = 50;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
const std::vector<TokenId> kOneToken = {9};

template <class T>
Status StatusOf(const Result<T>& result) {
  if (result) return {};
  return std::unexpected(result.error());
}

// The daemon's state that a bad request could change.
struct State {
  std::vector<wire::SequenceEntry> sequences;
  std::vector<TokenAt> cells;
  std::vector<Snapshot> snapshots;
  wire::InfoReply info{};
};

void ExpectSame(const State& before, const State& after) {
  ASSERT_EQ(before.sequences.size(), after.sequences.size());
  for (std::size_t i = 0; i < before.sequences.size(); ++i) {
    wire::SequenceEntry now = after.sequences[i];
    now.age_ms = before.sequences[i].age_ms;
    EXPECT_EQ(std::memcmp(&now, &before.sequences[i], sizeof now), 0) << "sequence " << i;
  }
  EXPECT_TRUE(std::ranges::equal(before.cells, after.cells, [](const TokenAt& a, const TokenAt& b) {
    return a.token == b.token && a.pos == b.pos;
  }));
  ASSERT_EQ(before.snapshots.size(), after.snapshots.size());
  for (std::size_t i = 0; i < before.snapshots.size(); ++i)
    EXPECT_EQ(before.snapshots[i].sequence, after.snapshots[i].sequence);
  EXPECT_EQ(before.info.free_cells, after.info.free_cells);
  EXPECT_EQ(before.info.live_cells, after.info.live_cells);
  EXPECT_EQ(before.info.sequences_live, after.info.sequences_live);
  EXPECT_EQ(before.info.tokens_computed, after.info.tokens_computed);
  EXPECT_EQ(before.info.tokens_sampled, after.info.tokens_sampled);
}

class BadInputTest : public test::ServedDaemonTest {
 protected:
  explicit BadInputTest(std::vector<std::string> arguments = {"-c", "8192"})
      : ServedDaemonTest(std::move(arguments)) {}

  void SetUp() override {
    ServedDaemonTest::SetUp();
    client_.emplace(Connect());
    auto sequence = client_->NewSequence();
    ASSERT_TRUE(sequence) << sequence.error().message;
    sequence_.emplace(std::move(*sequence));
    ASSERT_TRUE(Decode(handle(), std::vector<TokenId>(kCells, 7), 0));
  }
  void TearDown() override {
    sequence_.reset();
    client_.reset();
    if (daemon_) ExpectServesOthers();
    ServedDaemonTest::TearDown();
  }

  SequenceHandle handle() const { return sequence_->handle(); }

  State StateNow() const {
    return {.sequences = client_->List().value(),
            .cells = client_->ReadTokens(handle()).value(),
            .snapshots = client_->Snapshots().value(),
            .info = client_->Info().value()};
  }
  // Checks that `request` fails with `code` and a message that contains `words`, and that the
  // daemon's state is unchanged.
  template <class Request>
  void ExpectRefused(const std::string& claim, Code code, const std::string& words,
                     const Request& request) const {
    SCOPED_TRACE(claim);
    const State before = StateNow();
    const Status refused = StatusOf(request());
    ASSERT_FALSE(refused) << "it was done";
    EXPECT_EQ(CodeName(refused.error().code), CodeName(code));
    EXPECT_THAT(refused.error().message, HasSubstr(words));
    ExpectSame(before, StateNow());
  }

  Status Decode(SequenceHandle sequence, const std::vector<TokenId>& tokens,
                std::int32_t pos) const {
    auto decoding = client_->StartDecode(sequence, tokens, Pos{pos}, wire::LogitsWanted::kNone);
    return decoding ? StatusOf(decoding->Next()) : StatusOf(decoding);
  }
  Status Generate(const GenerateOptions& options) const {
    auto generation = sequence_->Generate(options);
    return generation ? StatusOf(generation->Next()) : StatusOf(generation);
  }
  // Sends the submission without the client library's checks.
  Status Submit(Verb verb, const std::function<void(wire::Submission&)>& fill,
                std::span<const std::byte> payload = {}) const {
    wire::Submission submission{};
    submission.verb = static_cast<std::uint16_t>(verb);
    submission.sequence = static_cast<std::uint64_t>(handle());
    fill(submission);
    std::vector<std::byte> output;
    return StatusOf(client_->connection()->Call(submission, PayloadOf(payload), &output));
  }
  Status SubmitGenerate(const wire::GenerateView& view) const {
    std::vector<std::byte> payload(wire::GenerateBytes(view));
    wire::EncodeGenerate(view, payload);
    return Submit(Verb::kGenerate, [](wire::Submission& s) { s.p0 = -1; }, payload);
  }
  static wire::GenerateView GoodView() {
    wire::GenerateView view;
    view.params.token_count = 1;
    view.params.predict_max = 1;
    view.params.sampling = DefaultSamplingAt(0);
    view.tokens = kOneToken;
    return view;
  }

  std::optional<Client> client_;
  std::optional<Sequence> sequence_;
};

TEST_F(BadInputTest, EmptyTokenListsAndTokensOutsideTheVocabularyAreRefused) {
  const auto vocab = static_cast<TokenId>(client_->session().vocab_size);
  for (const TokenId bad : {vocab, vocab + 1, INT32_MAX, -1, INT32_MIN}) {
    const std::vector<TokenId> tokens = {1, 2, bad};
    const std::string words = "number 2 is " + std::to_string(bad);
    ExpectRefused("decode", Code::kInvalidArgument, words,
                  [&] { return Decode(handle(), tokens, kCells); });
    ExpectRefused("generate", Code::kInvalidArgument, words,
                  [&] { return Generate({.tokens = tokens, .predict_max = 1}); });
    ExpectRefused("detokenize", Code::kInvalidArgument, words,
                  [&] { return client_->Detokenize(tokens); });
  }
  ExpectRefused("decode of none", Code::kInvalidArgument, "decode.payload_bytes",
                [&] { return Decode(handle(), {}, kCells); });
  ExpectRefused("generate from none", Code::kInvalidArgument, "generate.token_count",
                [&] { return Generate({.tokens = {}, .predict_max = 1}); });
  wire::GenerateView view = GoodView();
  view.tokens = {};
  ExpectRefused("generate from none, submitted", Code::kInvalidArgument, "generate",
                [&] { return SubmitGenerate(view); });
}

TEST_F(BadInputTest, APositionThatIsNotTheNextIsRefused) {
  for (const std::int32_t bad : {0, kCells - 1, kCells + 1, INT32_MAX}) {
    const std::string words = "pos: " + std::to_string(bad) + " is not the next position";
    ExpectRefused("decode", Code::kInvalidArgument, words,
                  [&] { return Decode(handle(), kOneToken, bad); });
    ExpectRefused("generate", Code::kInvalidArgument, words, [&] {
      return Generate({.tokens = kOneToken, .pos = Pos{bad}, .predict_max = 1});
    });
  }
  ExpectRefused("before the first", Code::kInvalidArgument, "decode.pos",
                [&] { return Decode(handle(), kOneToken, -1); });
}

TEST_F(BadInputTest, NumbersOfForksOutsideTheirRangeAreRefused) {
  for (const std::uint32_t bad : {0u, 1'000'000u, 0xffffffffu}) {
    ExpectRefused(std::to_string(bad), Code::kInvalidArgument, "fork.count",
                  [&] { return client_->Fork(handle(), -1, bad); });
  }
  ExpectRefused("more cells than there are", Code::kInvalidArgument, "cell",
                [&] { return client_->Fork(handle(), kCells + 1, 1); });
}

// A wrong value of one sampling field, applied to the library's options and to the parameters in
// the payload.
struct BadField {
  template <class Spoil>
  BadField(const char* field_name, Spoil spoil_it)
      : name(std::string("generate.") + field_name), options(spoil_it), params(spoil_it) {}
  std::string name;
  std::function<void(GenerateOptions&)> options;
  std::function<void(wire::GenerateParams&)> params;
};

std::vector<BadField> BadFields() {
  std::vector<BadField> bad;
  for (const float value : {kNan, -kInfinity, -1e30f, -2.5f, 3e30f, kInfinity}) {
    // 3e30 is a valid temperature and a valid penalty.
    if (!(value > 0 && value < kInfinity)) {
      bad.emplace_back("temperature", [value](auto& p) { p.sampling.temperature = value; });
      bad.emplace_back("repeat_penalty", [value](auto& p) { p.sampling.repeat_penalty = value; });
    }
    bad.emplace_back("top_p", [value](auto& p) { p.sampling.top_p = value; });
    bad.emplace_back("min_p", [value](auto& p) { p.sampling.min_p = value; });
    bad.emplace_back("typical_p", [value](auto& p) { p.sampling.typical_p = value; });
    bad.emplace_back("presence_penalty", [value](auto& p) { p.sampling.presence_penalty = value; });
    bad.emplace_back("frequency_penalty",
                     [value](auto& p) { p.sampling.frequency_penalty = value; });
  }
  bad.emplace_back("top_p", [](auto& p) { p.sampling.top_p = 0; });
  bad.emplace_back("typical_p", [](auto& p) { p.sampling.typical_p = 0; });
  bad.emplace_back("repeat_penalty", [](auto& p) { p.sampling.repeat_penalty = 0; });
  bad.emplace_back("top_k", [](auto& p) { p.sampling.top_k = -1; });
  bad.emplace_back("xtc_threshold", [](auto& p) { p.sampling.xtc_threshold = 1.5f; });
  bad.emplace_back("dry_base", [](auto& p) { p.sampling.dry_base = 0; });
  bad.emplace_back("mirostat", [](auto& p) { p.sampling.mirostat = 3; });
  bad.emplace_back("samplers",
                   [](auto& p) { p.sampling.chain.kinds[11] = SamplerKind::kAdaptiveP; });
  bad.emplace_back("repeat_last", [](auto& p) { p.sampling.repeat_last = -2; });
  bad.emplace_back("predict_max", [](auto& p) { p.predict_max = -2; });
  bad.emplace_back("logprob_count", [](auto& p) { p.logprob_count = wire::kLogprobsMax + 1; });
  bad.emplace_back("flags", [](auto& p) { p.flags = 1u << 31; });
  return bad;
}

TEST_F(BadInputTest, EverySamplingValueOutsideItsRangeIsRefusedByName) {
  for (const BadField& bad : BadFields()) {
    GenerateOptions options{.tokens = kOneToken, .predict_max = 1};
    bad.options(options);
    ExpectRefused("the library", Code::kInvalidArgument, bad.name,
                  [&] { return Generate(options); });
    wire::GenerateView view = GoodView();
    bad.params(view.params);
    ExpectRefused("the daemon", Code::kInvalidArgument, bad.name,
                  [&] { return SubmitGenerate(view); });
  }
}

TEST_F(BadInputTest, InvalidStopStringsBiasesAndListsAreRefused) {
  using namespace std::string_view_literals;
  const std::string long_stop(wire::kStopBytesMax + 1, 's');
  for (const std::string_view bad :
       {""sv, "\xff"sv, "ab\xc3"sv, "\xed\xa0\x80"sv, "\xc0\xaf"sv, std::string_view(long_stop)}) {
    const std::vector<std::string_view> stops = {"good", bad};
    wire::GenerateView view = GoodView();
    view.stops = stops;
    ExpectRefused("stop, the library", Code::kInvalidArgument, "generate.stop", [&] {
      return Generate({.tokens = kOneToken, .predict_max = 1, .stops = stops});
    });
    ExpectRefused("stop, the daemon", Code::kInvalidArgument, "generate.stop",
                  [&] { return SubmitGenerate(view); });
  }
  const auto vocab = static_cast<TokenId>(client_->session().vocab_size);
  for (const wire::LogitBias bad :
       {wire::LogitBias{1, kNan}, {1, kInfinity}, {1, 1000.5f}, {1, -1001}, {-1, 0}, {vocab, 0}}) {
    const std::vector<wire::LogitBias> biases = {{2, 1.0f}, bad};
    wire::GenerateView view = GoodView();
    view.biases = biases;
    ExpectRefused("bias, the library", Code::kInvalidArgument, "generate.bias", [&] {
      return Generate({.tokens = kOneToken, .predict_max = 1, .biases = biases});
    });
    ExpectRefused("bias, the daemon", Code::kInvalidArgument, "generate.bias",
                  [&] { return SubmitGenerate(view); });
  }
  const std::vector<std::string_view> stops(wire::kStopsMax + 1, "s");
  wire::GenerateView view = GoodView();
  view.stops = stops;
  ExpectRefused("too many", Code::kInvalidArgument, "generate.stop_count",
                [&] { return SubmitGenerate(view); });
  ExpectRefused("text", Code::kInvalidArgument, "UTF-8",
                [&] { return client_->Tokenize("ab\xff", 0); });
}

TEST_F(BadInputTest, EveryVerbRefusesUnknownStaleAndForeignHandles) {
  const SequenceHandle stale = client_->Create().value();
  ASSERT_TRUE(client_->Drop(stale));
  const Client other = Connect();
  const Sequence theirs = other.NewSequence().value();
  const auto expect = [&](SequenceHandle bad, Code change, Code look, const std::string& words) {
    ExpectRefused("decode", change, words, [&] { return Decode(bad, kOneToken, 0); });
    ExpectRefused("clear", change, words, [&] { return client_->Clear(bad); });
    ExpectRefused("drop", change, words, [&] { return client_->Drop(bad); });
    ExpectRefused("remove_range", change, words, [&] { return client_->RemoveRange(bad, {}); });
    ExpectRefused("add", change, words, [&] { return client_->Add(bad, {}, 1); });
    ExpectRefused("divide", change, words, [&] { return client_->Divide(bad, {}, 2); });
    ExpectRefused("copy to", change, words, [&] { return client_->CopyRange(handle(), bad, {}); });
    ExpectRefused("keep", change, words, [&] { return client_->Keep(bad); });
    if (look == Code::kOk) return;
    ExpectRefused("copy from", look, words, [&] { return client_->CopyRange(bad, handle(), {}); });
    ExpectRefused("fork", look, words, [&] { return client_->Fork(bad, -1, 1); });
    ExpectRefused("query", look, words, [&] { return client_->Query(bad); });
    ExpectRefused("read_tokens", look, words, [&] { return client_->ReadTokens(bad); });
    ExpectRefused("read_text", look, words, [&] { return client_->ReadText(bad); });
    ExpectRefused("publish", look, words, [&] { return client_->Publish(bad, "name"); });
  };
  const auto number = [](SequenceHandle handle) {
    return std::to_string(static_cast<std::uint64_t>(handle));
  };
  for (const SequenceHandle bad : {SequenceHandle{12345}, SequenceHandle{~std::uint64_t{0}}, stale,
                                   MakeHandle(IndexOf(handle()), GenerationOf(handle()) + 1)}) {
    expect(bad, Code::kNotFound, Code::kNotFound, number(bad));
  }
  expect(SequenceHandle::kNone, Code::kInvalidArgument, Code::kInvalidArgument, "sequence");
  expect(theirs.handle(), Code::kPermission, Code::kOk, number(theirs.handle()));
}

TEST_F(BadInputTest, RangesThatEndBeforeTheyBeginAndShiftsThatOverlapAreRefused) {
  const PosRange backwards{.begin = Pos{20}, .end = Pos{10}};
  const PosRange below{.begin = Pos{-1}, .end = Pos{10}};
  for (const PosRange bad : {backwards, below}) {
    ExpectRefused("library", Code::kInvalidArgument, "range",
                  [&] { return sequence_->RemoveRange(bad); });
  }
  const auto fill = [](wire::Submission& s) { s.p0 = 20, s.p1 = 10, s.argument = 1; };
  for (const auto& [verb, name] : {std::pair(Verb::kAdd, "add"), {Verb::kDivide, "divide"}}) {
    ExpectRefused(name, Code::kInvalidArgument, name + std::string(".p1"),
                  [&, v = verb] { return Submit(v, fill); });
  }
  ExpectRefused("remove_range", Code::kInvalidArgument, "remove_range.p1", [&] {
    return Submit(Verb::kRemoveRange, [](wire::Submission& s) { s.p0 = 20, s.p1 = 10; });
  });
  const PosRange middle{.begin = Pos{10}, .end = Pos{20}};
  for (const std::int32_t delta : {5, -5, 100, -11}) {
    ExpectRefused("shift by " + std::to_string(delta), Code::kInvalidArgument, "",
                  [&] { return sequence_->Add(middle, delta); });
  }
  for (const std::int32_t delta : {-1, INT32_MIN + 1, INT32_MAX}) {
    ExpectRefused("shift of all by " + std::to_string(delta), Code::kInvalidArgument, "",
                  [&] { return sequence_->Add({}, delta); });
  }
  for (const std::int32_t divisor : {0, -1}) {
    ExpectRefused("divisor", Code::kInvalidArgument, "divide.divisor",
                  [&] { return sequence_->Divide({}, divisor); });
  }
  ExpectRefused("copy onto itself", Code::kInvalidArgument, "",
                [&] { return sequence_->CopyRangeTo(*sequence_, {}); });
  ExpectRefused("cells behind the end", Code::kInvalidArgument, "first_cell: 51",
                [&] { return client_->ReadTokens(handle(), kCells + 1); });
}

TEST_F(BadInputTest, InvalidMissingAndTakenNamesAreRefused) {
  ASSERT_TRUE(sequence_->Publish("taken"));
  for (const std::string& bad :
       {std::string(), std::string("a/b"), std::string("/abs"), std::string("."), std::string(".."),
        std::string("../up"), std::string(".hidden"), std::string("a b"), std::string("a\0b", 3),
        std::string("\xc3\xa9"), std::string("line\n"), std::string(64, 'n'), std::string(65, 'n'),
        std::string(100'000, 'n')}) {
    const std::string words = bad.empty() || bad.size() > kNameMax ? "payload_bytes" : "name";
    ExpectRefused("publish " + bad.substr(0, 70), Code::kInvalidArgument, words,
                  [&] { return sequence_->Publish(bad); });
    ExpectRefused("attach", Code::kInvalidArgument, words, [&] { return client_->Attach(bad); });
    ExpectRefused("unpublish", Code::kInvalidArgument, words,
                  [&] { return client_->Unpublish(bad); });
  }
  ExpectRefused("missing", Code::kNotFound, "\"none\"", [&] { return client_->Unpublish("none"); });
  ExpectRefused("missing", Code::kNotFound, "\"none\"", [&] { return client_->Attach("none"); });
  ExpectRefused("taken", Code::kExists, "\"taken\"", [&] { return sequence_->Publish("taken"); });
  EXPECT_TRUE(sequence_->Publish("taken", wire::kFlagForce));
  EXPECT_TRUE(client_->Unpublish("taken"));
}

TEST_F(BadInputTest, ASequenceBeingComputedRefusesDecodesAndEdits) {
  auto generation = sequence_->Generate(
      {.tokens = kOneToken, .predict_max = 6000, .flags = wire::kIgnoreEos | wire::kNoText});
  ASSERT_TRUE(generation) << generation.error().message;
  std::vector<TokenId> said;
  const auto take = [&] {
    const auto piece = generation->Next();
    if (!piece || !*piece) return piece ? Code::kOk : piece.error().code;
    said.insert(said.end(), (*piece)->tokens.begin(), (*piece)->tokens.end());
    return Code::kTimeout;  // the generation has not ended
  };
  ASSERT_EQ(take(), Code::kTimeout);
  const auto expect_busy = [](const char* what, const Status& status) {
    ASSERT_FALSE(status) << what;
    EXPECT_EQ(CodeName(status.error().code), "busy") << what;
    EXPECT_THAT(status.error().message, HasSubstr("is being computed by request")) << what;
  };
  // The position kCells is wrong while the generation appends tokens, but the daemon checks first
  // whether the sequence is being computed.
  expect_busy("decode", Decode(handle(), kOneToken, kCells));
  expect_busy("generate", Generate({.tokens = kOneToken, .predict_max = 1}));
  expect_busy("divide", StatusOf(sequence_->Divide({}, 2)));
  expect_busy("clear", sequence_->Clear());
  expect_busy("add", sequence_->Add({.begin = Pos{10}}, 5));
  expect_busy("remove_range", StatusOf(sequence_->RemoveRange({.begin = Pos{0}, .end = Pos{9}})));
  generation->Cancel();
  Code ended = Code::kTimeout;
  while (ended == Code::kTimeout) ended = take();
  EXPECT_EQ(ended, Code::kCancelled);
  const auto cells = client_->ReadTokens(handle());
  ASSERT_TRUE(cells);
  ASSERT_GE(cells->size(), kCells + 1 + said.size());
  for (std::size_t i = 0; i < said.size(); ++i)
    ASSERT_EQ((*cells)[kCells + 1 + i].token, said[i]) << "what was said is what is there";
}

class NoTokenizerTest : public BadInputTest {
 protected:
  NoTokenizerTest() : BadInputTest({"-m", test::TinyModelPath(test::TinyLlama())}) {}
};

TEST_F(NoTokenizerTest, TextIsRefusedAndTokensAreServed) {
  ExpectRefused("tokenize", Code::kNoTokenizer, "", [&] { return client_->Tokenize("a", 0); });
  ExpectRefused("detokenize", Code::kNoTokenizer, "",
                [&] { return client_->Detokenize(kOneToken); });
  ExpectRefused("read_text", Code::kNoTokenizer, "", [&] { return sequence_->ReadText(); });
  ExpectRefused("chat_templates", Code::kNoTokenizer, "",
                [&] { return client_->Call(wire::ChatTemplatesArgs{}); });
  const std::vector<std::string_view> stops = {"stop"};
  ExpectRefused("stop strings", Code::kNoTokenizer, "",
                [&] { return Generate({.tokens = kOneToken, .predict_max = 1, .stops = stops}); });
  EXPECT_EQ(client_->Info()->has_tokenizer, 0u);
  EXPECT_EQ(client_->ReadTokens(handle())->size(), static_cast<std::size_t>(kCells));
  EXPECT_TRUE(Decode(handle(), kOneToken, kCells));
  EXPECT_TRUE(Generate({.tokens = kOneToken, .predict_max = 1}));
}

}  // namespace
}  // namespace kvd
