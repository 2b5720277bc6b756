#include "tests/e2e/support/saved_forms.h"

#include <filesystem>

namespace kvd::test {
namespace {

using enum FormContent;

const std::vector<std::string> kQuantisedKeys = {"--cache-type-k", "q8_0", "--cache-type-v",
                                                 "bf16"};
const std::vector<std::string> kWholeKeys = {"--cache-type-k", "f32", "--cache-type-v", "f32"};
const std::vector<std::string> kAllCells = {"--swa-full"};

Status DecodeTokens(const Client& client, SequenceHandle sequence,
                    std::span<const TokenId> tokens) {
  KVD_TRY(Decoding decoding, client.StartDecode(sequence, tokens, Pos{0}, wire::LogitsWanted::kLast,
                                                wire::kFlagNoPrefix));
  KVD_TRY(const Logits logits, decoding.Next());
  (void)logits;
  return {};
}

Status Edit(const Client& client, SequenceHandle sequence) {
  KVD_TRY(const std::uint64_t removed, client.RemoveRange(sequence, {Pos{8}, Pos{14}}));
  if (removed != 6) return Fail(Code::kInternal, "removed " + std::to_string(removed) + " cells");
  return client.Add(sequence, {Pos{14}, kPosEnd}, -6);
}

Result<std::vector<TokenId>> Collect(Generation generation) {
  std::vector<TokenId> tokens;
  for (;;) {
    KVD_TRY(const auto piece, generation.Next());
    if (!piece) return tokens;
    tokens.insert(tokens.end(), piece->tokens.begin(), piece->tokens.end());
  }
}

}  // namespace

const std::vector<SavedForm>& SavedForms() {
  static const std::vector<SavedForm> forms = {
      {.name = "attention", .model = "attention", .is_cached = true},
      {.name = "attention-unpacked", .model = "attention", .content = kUnpacked},
      {.name = "attention-edited", .model = "attention", .content = kEdited},
      {.name = "attention-tokens-only", .model = "attention", .content = kTokensOnly},
      {.name = "attention-q8-rows", .model = "attention", .content = kQ8Rows},
      {.name = "attention-sampled", .model = "attention", .content = kSampled},
      {.name = "attention-session", .model = "attention", .content = kSession},
      {.name = "cells-q8-bf16",
       .model = "attention",
       .arguments = kQuantisedKeys,
       .is_cached = true},
      {.name = "cells-f32", .model = "attention", .arguments = kWholeKeys, .is_cached = true},
      {.name = "window", .model = "window", .is_cached = true},
      {.name = "window-all-cells", .model = "window", .arguments = kAllCells, .is_cached = true},
      {.name = "two-rotations", .model = "two-rotations"},
      {.name = "state", .model = "state", .is_cached = true},
      {.name = "attention-and-state", .model = "attention-and-state", .is_cached = true},
      {.name = "attention-and-convolution",
       .model = "attention-and-convolution",
       .is_cached = true},
      {.name = "encoder-decoder", .model = "encoder-decoder", .attends_text = true},
  };
  return forms;
}

std::vector<TokenId> FormTokens(std::size_t count) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i)
    tokens[i] = static_cast<TokenId>((i * i + 5 * i + 3) % 61);
  return tokens;
}

std::vector<TokenId> FormContinuation() { return {17, 40, 9, 33, 21}; }

std::vector<std::string> ArgumentsFor(const SavedForm& form, const std::string& store,
                                      const std::string& cache) {
  const std::filesystem::path model = "tests/data/models/" + form.model + ".gguf";
  std::vector<std::string> arguments = {
      "-m", std::filesystem::absolute(model).string(), "-c", "1024", "-t", "1", "--store", store};
  if (!cache.empty()) {
    arguments.insert(arguments.end(), {"--cache-dir", cache, "--cache-min-tokens", "16"});
  }
  arguments.insert(arguments.end(), form.arguments.begin(), form.arguments.end());
  return arguments;
}

Result<std::vector<SequenceHandle>> MakeForm(const Client& client, const SavedForm& form) {
  KVD_TRY(const SequenceHandle sequence, client.Create());
  if (form.attends_text) {
    KVD_TRY(const EncodedText encoded, client.Encode(sequence, FormTokens(20)));
    (void)encoded;
  }
  KVD_CHECK_OK(DecodeTokens(client, sequence, FormTokens()));
  if (form.content == kEdited) KVD_CHECK_OK(Edit(client, sequence));
  if (form.content == kSampled) {
    const TokenId prompt[] = {11, 12, 13};
    SamplingParams sampling = kPlainSampling;
    sampling.temperature = 1.5f;
    sampling.repeat_penalty = 1.1f;
    sampling.presence_penalty = 0.1f;
    sampling.repeat_last = 64;
    KVD_TRY(Generation generation, client.StartGenerate(sequence, {.tokens = prompt,
                                                                   .predict_max = 10,
                                                                   .sampling = sampling,
                                                                   .seed = 7,
                                                                   .flags = wire::kIgnoreEos}));
    KVD_TRY(const std::vector<TokenId> tokens, Collect(std::move(generation)));
    if (tokens.size() != 10) return Fail(Code::kInternal, "the generation ended early");
  }
  if (form.content != kSession) return std::vector{sequence};
  KVD_TRY(const std::vector<SequenceHandle> beginning, client.Fork(sequence, 20, 1));
  KVD_TRY(const std::vector<SequenceHandle> edited, client.Fork(sequence, -1, 1));
  KVD_CHECK_OK(Edit(client, edited[0]));
  return std::vector{sequence, beginning[0], edited[0]};
}

Result<SaveInfo> SaveForm(const Client& client, const SavedForm& form,
                          std::span<const SequenceHandle> sequences) {
  SaveOptions options;
  options.replaces = true;
  options.tokens_only = form.content == kTokensOnly;
  options.is_packed = form.content != kUnpacked;
  options.q8_rows = form.content == kQ8Rows;
  if (form.content == kSession) return client.SaveAll(form.name, options);
  return client.Save(sequences[0], form.name, options);
}

Result<std::vector<TokenId>> ResumeSampler(const Client& client, SequenceHandle sequence,
                                           std::int32_t count) {
  GenerateOptions options;
  options.predict_max = count;
  options.flags = wire::kContinue | wire::kResumeSampler;
  KVD_TRY(Generation generation, client.StartGenerate(sequence, options));
  return Collect(std::move(generation));
}

}  // namespace kvd::test
