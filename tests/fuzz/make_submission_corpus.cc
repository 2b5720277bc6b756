// Writes seeds for submission_fuzz: submissions with their payloads, at least one for every
// verb.
//
// The maker passes each seed to the validator and the parser. If one of them refuses a seed, the
// maker fails, and with it `make fuzz`. The seeds are made from the table of verbs, so that a new
// verb has a seed, too.
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "shm/wire_check.h"
#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/fuzz/parse_payload.h"
#include "tests/support/good_request.h"

namespace kvd::submission_corpus {
namespace {

namespace wire = kvd::wire;

constexpr std::uint64_t kArenaBytes = 64u << 20;
constexpr std::uint64_t kPoolCells = 100;
constexpr std::uint32_t kVocabSize = 1000;

using Seed = kvd::test::GoodRequest;

template <class T>
std::vector<std::byte> BytesOfValue(const T& value, std::size_t byte_count = sizeof(T)) {
  std::vector<std::byte> bytes(byte_count);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::vector<std::byte> Generate(std::uint32_t flags, bool has_grammar = false) {
  const std::vector<kvd::TokenId> tokens = {1, 2, 3, 999};
  const wire::LogitBias biases[] = {{5, -1.0f}, {6, 2.0f}};
  const std::string_view stops[] = {"The end.", "\n"};
  const std::string_view breakers[] = {"\n", "---"};
  wire::GenerateView view{.params = {}, .tokens = tokens, .biases = biases, .stops = stops};
  if ((flags & wire::kOwnBreakers) != 0) view.breakers = breakers;
  if ((flags & wire::kContinue) != 0) view.tokens = {};
  const wire::TriggerView triggers[] = {{.token = 9, .text = {}}, {.text = "<tool_call>"}};
  if (has_grammar) {
    view.triggers = triggers;
    view.grammar = "root ::= \"yes\" | \"no\"";
  }
  view.params.flags = flags;
  view.params.predict_max = 16;
  view.params.sampling = kvd::kDefaultSampling;
  std::vector<std::byte> bytes(wire::GenerateBytes(view));
  wire::EncodeGenerate(view, bytes);
  return bytes;
}

Seed SeedOf(const wire::VerbRow& row) {
  Seed seed = kvd::test::MakeGoodRequest(row);
  seed.submission.request = 7;
  seed.submission.flags = row.flags;
  return seed;
}

kvd::Status Write(const std::string& folder, const std::string& suffix, Seed seed) {
  wire::Submission& entry = seed.submission;
  entry.payload_bytes = static_cast<std::uint32_t>(seed.payload.size());
  KVD_CHECK_OK(
      wire::ValidateSubmission(entry, {.arena_bytes = kArenaBytes, .tokens_max = kPoolCells}));
  KVD_CHECK_OK(
      kvd::test::ParsePayload(wire::FindVerb(entry.verb)->payload.kind, seed.payload, kVocabSize)
          .status);
  std::vector<std::byte> bytes = BytesOfValue(entry, sizeof entry + seed.payload.size());
  if (!seed.payload.empty()) {
    std::memcpy(bytes.data() + sizeof entry, seed.payload.data(), seed.payload.size());
  }
  kvd::test::WriteSeed(folder, std::string(wire::VerbName(entry.verb)) + suffix, bytes);
  return {};
}

// Returns the seed as a retry that has already received a part of the answer.
Seed Retried(Seed seed, std::uint32_t received, std::int32_t last_token) {
  seed.submission.flags |= wire::kFlagRetry;
  seed.submission.received = received;
  seed.submission.last_token = last_token;
  return seed;
}

kvd::Status WriteAll(const std::string& folder) {
  for (const wire::VerbRow& row : wire::kVerbRows) KVD_CHECK_OK(Write(folder, "", SeedOf(row)));
  Seed seed = SeedOf(wire::kRowOf<wire::GenerateArgs>);
  KVD_CHECK_OK(Write(folder, "_retried", Retried(seed, 3, 17)));
  seed.payload = Generate(wire::kIgnoreEos);
  KVD_CHECK_OK(Write(folder, "_lists", seed));
  seed.payload = Generate(wire::kContinue | wire::kResumeSampler);
  KVD_CHECK_OK(Write(folder, "_continue", seed));
  seed.payload = Generate(wire::kOwnBreakers);
  KVD_CHECK_OK(Write(folder, "_breakers", seed));
  seed.payload = Generate(0, true);
  KVD_CHECK_OK(Write(folder, "_grammar", seed));
  seed = SeedOf(wire::kRowOf<wire::DecodeArgs>);
  seed.submission.argument = static_cast<std::int64_t>(wire::LogitsWanted::kAll);
  return Write(folder, "_retried", Retried(seed, 2, 0));
}

}  // namespace

int Make(const std::string& folder) {
  const kvd::Status written = WriteAll(folder);
  if (written) return 0;
  std::fprintf(stderr, "make_corpus submission: %s\n", written.error().message.c_str());
  return 1;
}

}  // namespace kvd::submission_corpus
