// make_submission_corpus FOLDER: a valid submission of every verb, with its payload, for
// submission_fuzz to start from.
#include <cstring>
#include <string_view>
#include <vector>

#include "shm/payload_codec.h"
#include "tests/fuzz/make_wire_corpus.h"

namespace {

namespace wire = kvd::wire;

void Write(const std::string& folder, wire::Verb verb, std::span<const std::byte> payload) {
  wire::Submission submission{};
  submission.request = 7;
  submission.verb = static_cast<std::uint16_t>(verb);
  submission.payload_bytes = static_cast<std::uint32_t>(payload.size());
  submission.sequence = (1ull << 32) | 3;
  submission.p1 = -1;
  submission.argument = 1;
  std::vector<std::byte> bytes(sizeof submission + payload.size());
  std::memcpy(bytes.data(), &submission, sizeof submission);
  std::memcpy(bytes.data() + sizeof submission, payload.data(), payload.size());
  kvd::test::WriteSeed(folder, "verb" + std::to_string(submission.verb), bytes);
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  const std::string folder = arguments[1];
  const std::vector<kvd::TokenId> tokens = {1, 2, 3, 999};
  const std::string_view text = "The kite is green.";
  for (std::uint16_t verb = 1; verb <= wire::kVerbLast; ++verb) {
    Write(folder, static_cast<wire::Verb>(verb), std::as_bytes(std::span(text)));
  }
  Write(folder, wire::Verb::kDecode, std::as_bytes(std::span(tokens)));
  Write(folder, wire::Verb::kDetokenize, std::as_bytes(std::span(tokens)));
  const std::string_view name = "notebook";
  for (const auto verb : {wire::Verb::kPublish, wire::Verb::kUnpublish, wire::Verb::kAttach,
                          wire::Verb::kSave, wire::Verb::kLoad, wire::Verb::kRemoveSaved}) {
    Write(folder, verb, std::as_bytes(std::span(name)));
  }
  const wire::ChatTurn turns[] = {{"system", "Answer."}, {"user", "Where is the kite?"}};
  std::vector<std::byte> chat(wire::ChatBytes(turns));
  wire::EncodeChat(turns, chat);
  Write(folder, wire::Verb::kChat, chat);
  const wire::LogitBias biases[] = {{5, -1.0f}, {6, 2.0f}};
  const std::string_view stops[] = {"The end.", "\n"};
  wire::GenerateView generate{.params = {}, .tokens = tokens, .biases = biases, .stops = stops};
  generate.params.predict_max = 16;
  generate.params.temperature = 0.8f;
  generate.params.top_p = generate.params.typical_p = generate.params.repeat_penalty = 1.0f;
  std::vector<std::byte> encoded(wire::GenerateBytes(generate));
  wire::EncodeGenerate(generate, encoded);
  Write(folder, wire::Verb::kGenerate, encoded);
}
