// make_submission_corpus FOLDER: submissions with their payloads for submission_fuzz to start from,
// for every verb at least one that the daemon accepts.
//
// Each is put through the validator and the parser here: one that is refused fails the maker, and
// with it `make fuzz`. The switch has no default: a verb without a seed does not compile.
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "shm/wire_check.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/fuzz/parse_payload.h"

namespace {

namespace wire = kvd::wire;
using wire::Verb;

constexpr std::uint64_t kArenaBytes = 64u << 20;
constexpr std::uint64_t kPoolCells = 100;
constexpr std::uint32_t kVocabSize = 1000;

struct Seed {
  wire::Submission submission{};
  std::vector<std::byte> payload;
};

std::vector<std::byte> BytesOf(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

template <class T>
std::vector<std::byte> BytesOfValue(const T& value, std::size_t byte_count = sizeof(T)) {
  std::vector<std::byte> bytes(byte_count);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::vector<std::byte> Tokens() {
  const std::vector<kvd::TokenId> tokens = {1, 2, 3, 999};
  const auto bytes = std::as_bytes(std::span(tokens));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> Chat() {
  const wire::ChatTurn turns[] = {{"system", "Answer."}, {"user", "Where is the kite? \u00e9"}};
  std::vector<std::byte> bytes(wire::ChatBytes(turns));
  wire::EncodeChat(turns, bytes);
  return bytes;
}

std::vector<std::byte> Generate(std::uint32_t flags) {
  const std::vector<kvd::TokenId> tokens = {1, 2, 3, 999};
  const wire::LogitBias biases[] = {{5, -1.0f}, {6, 2.0f}};
  const std::string_view stops[] = {"The end.", "\n"};
  wire::GenerateView view{.params = {}, .tokens = tokens, .biases = biases, .stops = stops};
  if ((flags & wire::kContinue) != 0) view.tokens = {};
  view.params.flags = flags;
  view.params.predict_max = 16;
  view.params.temperature = 0.8f;
  view.params.top_p = view.params.typical_p = view.params.repeat_penalty = 1.0f;
  std::vector<std::byte> bytes(wire::GenerateBytes(view));
  wire::EncodeGenerate(view, bytes);
  return bytes;
}

// One that the verb accepts.
Seed SeedOf(Verb verb) {
  Seed seed;
  wire::Submission& entry = seed.submission;
  entry.request = 7;
  entry.verb = static_cast<std::uint16_t>(verb);
  constexpr std::uint64_t kHandle = (1ull << 32) | 3;
  switch (verb) {
    case Verb::kInfo:
    case Verb::kList:
    case Verb::kSnapshots:
    case Verb::kDefrag:
    case Verb::kDropRetained:
    case Verb::kSaved:
    case Verb::kCache:
    case Verb::kProfile: break;
    case Verb::kPing: seed.payload = BytesOf("ping"); break;
    case Verb::kCreate:
    case Verb::kCancel: entry.argument = 12345; break;
    case Verb::kDrop:
    case Verb::kKeep:
    case Verb::kClear:
    case Verb::kQuery:
    case Verb::kReadText:
    case Verb::kRetain: entry.sequence = kHandle; break;
    case Verb::kPin:
      entry.sequence = kHandle;
      entry.argument = 1;
      break;
    case Verb::kFork:
      entry.sequence = kHandle;
      entry.p0 = -1;
      entry.argument = 4;
      break;
    case Verb::kCopyRange:
      entry.sequence = kHandle;
      entry.sequence2 = kHandle + 1;
      entry.p1 = -1;
      break;
    case Verb::kRemoveRange:
      entry.sequence = kHandle;
      entry.p0 = 3;
      entry.p1 = 5;
      break;
    case Verb::kAdd:
    case Verb::kDivide:
      entry.sequence = kHandle;
      entry.p0 = 2;
      entry.p1 = -1;
      entry.argument = 2;
      break;
    case Verb::kReadTokens:
      entry.sequence = kHandle;
      entry.argument = -1;
      break;
    case Verb::kDecode:
      entry.sequence = kHandle;
      entry.argument = static_cast<std::int64_t>(wire::LogitsWanted::kLast);
      entry.flags = wire::kFlagProgress | wire::kFlagNoPrefix;
      seed.payload = Tokens();
      break;
    case Verb::kGenerate:
      entry.sequence = kHandle;
      entry.p0 = -1;
      seed.payload = Generate(wire::kIgnoreEos);
      break;
    case Verb::kEncode:
      entry.sequence = kHandle;
      seed.payload = Tokens();
      break;
    case Verb::kEmbed:
      entry.flags = wire::kFlagNormalize;
      seed.payload = Tokens();
      break;
    case Verb::kDetokenize:
      entry.flags = wire::kFlagSpecial;
      seed.payload = Tokens();
      break;
    case Verb::kTokenize:
      entry.flags = wire::kFlagAddSpecial | wire::kFlagParseSpecial;
      seed.payload = BytesOf("The kite is gr\u00fcn.");
      break;
    case Verb::kChat:
      entry.flags = wire::kFlagAddAssistant;
      seed.payload = Chat();
      break;
    case Verb::kPublish:
    case Verb::kSave:
      entry.sequence = kHandle;
      seed.payload = BytesOf("notebook");
      break;
    case Verb::kUnpublish:
    case Verb::kAttach:
    case Verb::kSaveAll:
    case Verb::kLoad:
    case Verb::kRemoveSaved: seed.payload = BytesOf("notebook"); break;
    case Verb::kExportState: {
      struct {
        wire::ExportStateParams params{};
        std::uint64_t handle = kHandle;
      } wanted;
      wanted.params.flags = wire::kStateNoLogits;
      wanted.params.k_type = wanted.params.v_type = wire::kPoolType;
      seed.payload = BytesOfValue(wanted);
      break;
    }
    case Verb::kUploadState: seed.payload = BytesOf("KVDSTAT1"); break;
    case Verb::kImportState: break;
  }
  return seed;
}

kvd::Status Write(const std::string& folder, const std::string& suffix, Seed seed) {
  wire::Submission& entry = seed.submission;
  entry.payload_bytes = static_cast<std::uint32_t>(seed.payload.size());
  KVD_CHECK_OK(
      wire::ValidateSubmission(entry, {.arena_bytes = kArenaBytes, .tokens_max = kPoolCells}));
  KVD_CHECK_OK(
      kvd::test::ParsePayload(static_cast<Verb>(entry.verb), seed.payload, kVocabSize).status);
  std::vector<std::byte> bytes = BytesOfValue(entry, sizeof entry + seed.payload.size());
  if (!seed.payload.empty()) {
    std::memcpy(bytes.data() + sizeof entry, seed.payload.data(), seed.payload.size());
  }
  kvd::test::WriteSeed(folder, std::string(wire::VerbName(entry.verb)) + suffix, bytes);
  return {};
}

// Another form of a verb's seed.
Seed Retried(Seed seed, std::uint32_t received, std::int32_t last_token) {
  seed.submission.flags |= wire::kFlagRetry;
  seed.submission.received = received;
  seed.submission.last_token = last_token;
  return seed;
}

kvd::Status WriteAll(const std::string& folder) {
  for (std::uint16_t verb = 1; verb <= wire::kVerbLast; ++verb) {
    KVD_CHECK_OK(Write(folder, "", SeedOf(static_cast<Verb>(verb))));
  }
  Seed seed = SeedOf(Verb::kGenerate);
  KVD_CHECK_OK(Write(folder, "_retried", Retried(seed, 3, 17)));
  seed.payload = Generate(wire::kContinue | wire::kResumeSampler);
  KVD_CHECK_OK(Write(folder, "_continue", seed));
  seed = SeedOf(Verb::kDecode);
  seed.submission.argument = static_cast<std::int64_t>(wire::LogitsWanted::kAll);
  return Write(folder, "_retried", Retried(seed, 2, 0));
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  const kvd::Status written = WriteAll(arguments[1]);
  if (written) return 0;
  std::fprintf(stderr, "make_submission_corpus: %s\n", written.error().message.c_str());
  return 1;
}
