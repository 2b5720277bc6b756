#include "tests/e2e/support/every_verb_fixture.h"

#include <bit>
#include <utility>

#include "tests/support/good_request.h"
#include "tests/support/tiny_model.h"

namespace kvd::test {
namespace {

std::vector<std::string> ModelArguments(ModelKind model) {
  switch (model) {
    case ModelKind::kDecoder: return {};
    case ModelKind::kEncoderDecoder: return {"-m", TinyModelPath(EncoderDecoderShape())};
    case ModelKind::kEncoder: return {"-m", TinyModelPath(EncoderShape(), Tokenizer::kBundled)};
  }
  return {};
}

std::vector<std::string> Arguments(ModelKind model, const std::string& store) {
  std::vector<std::string> arguments = {"-c", "16384", "--allow-uid", "65534", "--store", store};
  for (std::string& argument : ModelArguments(model)) arguments.push_back(std::move(argument));
  return arguments;
}

const std::vector<TokenId> kText = {9, 11, 13, 15};

}  // namespace

EveryVerbTest::EveryVerbTest() : EveryVerbTest(std::make_shared<TemporaryFolder>()) {}

EveryVerbTest::EveryVerbTest(const std::shared_ptr<TemporaryFolder>& folder)
    : ServedDaemonTest(Arguments(GetParam(), (folder->path() / "store").string())),
      folder_(folder) {}

void EveryVerbTest::SetUp() {
  ServedDaemonTest::SetUp();
  if (HasFatalFailure() || GetParam() != ModelKind::kDecoder) return;
  const Client client = Connect();
  const SequenceHandle sequence = Filled(client);
  const GoodRequest request =
      MakeGoodRequest(wire::kRowOf<wire::ExportStateArgs>, {.sequence = sequence});
  const std::span<const std::byte> payload(request.payload);
  auto answer = client.Call(wire::ExportStateArgs{}, PayloadOf(payload));
  ASSERT_TRUE(answer) << answer.error().message;
  state_ = std::move(answer->state);
}

std::vector<TokenId> EveryVerbTest::Answer() {
  if (GetParam() == ModelKind::kDecoder) return ServedDaemonTest::Answer();
  const Client client = Connect();
  std::vector<TokenId> answer;
  if (GetParam() == ModelKind::kEncoder) {
    const std::span<const TokenId> text(kText);
    const auto embedded = client.Embed({&text, 1}, wire::PoolingChoice::kMean);
    EXPECT_TRUE(embedded) << embedded.error().message;
    for (std::size_t i = 0; embedded && i < 8; ++i) {
      answer.push_back(std::bit_cast<TokenId>(embedded->front().values[i]));
    }
    return answer;
  }
  const auto sequence = client.NewSequence();
  EXPECT_TRUE(sequence) << sequence.error().message;
  if (!sequence) return answer;
  const auto encoded = sequence->Encode(kText);
  EXPECT_TRUE(encoded) << encoded.error().message;
  const auto logits = sequence->Decode(kText, Pos{0});
  EXPECT_TRUE(logits) << logits.error().message;
  for (std::size_t i = 0; logits && i < 8; ++i) {
    answer.push_back(std::bit_cast<TokenId>(logits->values()[i]));
  }
  return answer;
}

std::vector<VerbUse> EveryVerbTest::Uses() const {
  std::vector<VerbUse> uses;
  for (VerbUse& use : EveryUse()) {
    if (use.model == GetParam()) uses.push_back(std::move(use));
  }
  return uses;
}

void EveryVerbTest::AddOwn(const Client& caller, ModelKind model, Target* target) {
  const auto empty = caller.Create();
  const auto own = caller.Create();
  EXPECT_TRUE(empty && own);
  if (!empty || !own) return;
  target->empty = *empty;
  target->own = *own;
  if (model != ModelKind::kDecoder) return;
  auto decoding = caller.StartDecode(*own, std::vector<TokenId>(kCells + 10, 7), Pos{0},
                                     wire::LogitsWanted::kNone);
  EXPECT_TRUE(decoding && decoding->Next());
}

SequenceHandle EveryVerbTest::Filled(const Client& owner) {
  const auto handle = owner.Create();
  EXPECT_TRUE(handle) << handle.error().message;
  if (!handle || GetParam() != ModelKind::kDecoder) return handle.value_or(SequenceHandle::kNone);
  // The first two tokens differ between sequences, because a retained sequence that is a prefix of
  // another sequence is dropped.
  ++made_;
  std::vector<TokenId> tokens = {5 + made_ % 200, 5 + made_ / 200};
  for (TokenId i = 2; i < kCells; ++i) tokens.push_back(5 + i * 7 % 200);
  auto decoding = owner.StartDecode(*handle, tokens, Pos{0}, wire::LogitsWanted::kNone);
  EXPECT_TRUE(decoding) << decoding.error().message;
  EXPECT_TRUE(decoding && decoding->Next());
  return *handle;
}

Target EveryVerbTest::MakeTarget(const Client& owner, const VerbUse& use, Relation relation) {
  const std::string number = std::to_string(++made_);
  Target target{.sequence = Filled(owner),
                .cells = cells(),
                .snapshot = "snapshot-" + number,
                .saved = "saved-" + number,
                .fresh = "fresh-" + number,
                .state = state_};
  const bool is_public = relation == Relation::kStrangerPublic;
  const bool is_published = is_public || relation == Relation::kPublished;
  if (is_published || use.need == Need::kLookByName || use.need == Need::kChangeByName) {
    const auto published =
        owner.Publish(target.sequence, target.snapshot,
                      is_public ? std::uint16_t{wire::kFlagPublic} : std::uint16_t{0});
    EXPECT_TRUE(published) << published.error().message;
    if (published && is_published) target.sequence = *published;
  }
  if (relation == Relation::kRetained) {
    const auto retained = owner.Retain(target.sequence);
    EXPECT_TRUE(retained) << retained.error().message;
  }
  if (use.need == Need::kSavedFile) {
    const auto saved = owner.Save(target.sequence, target.saved);
    EXPECT_TRUE(saved) << saved.error().message;
  }
  return target;
}

Result<wire::Completion> Ask(const Client& client, const VerbUse& use, const Target& target,
                             std::uint16_t flags) {
  std::vector<TestRequest> requests = use.make(target);
  requests.back().submission.flags =
      static_cast<std::uint16_t>(requests.back().submission.flags | flags);
  for (std::size_t i = 0;; ++i) {
    const std::span<const std::byte> payload(requests[i].payload);
    std::vector<std::byte> output;
    auto answer = client.connection()->Call(requests[i].submission, PayloadOf(payload), &output);
    if (i + 1 == requests.size()) return answer;
    if (!answer) return Fail(Code::kInternal, "preparation: " + answer.error().message);
  }
}

std::string NameOfModel(const ::testing::TestParamInfo<ModelKind>& info) {
  switch (info.param) {
    case ModelKind::kDecoder: return "Decoder";
    case ModelKind::kEncoderDecoder: return "EncoderDecoder";
    case ModelKind::kEncoder: return "Encoder";
  }
  return "";
}

}  // namespace kvd::test
