// A role (bos, eos and so on) gets the id in the file, or else the default of the tokenizer's kind.
// If a role has neither, it gets the first text in the role's list that is a token. Generation ends
// at eos, eot, eom, at the padding, repository and file tokens of fill-in-the-middle, and at every
// token with one of the known texts. Two families of models use one of the known texts for another
// purpose; in these models, that text does not end generation.
#include "engine/vocabulary/special_tokens.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

namespace kvd {
namespace {

using Texts = std::span<const std::string_view>;

constexpr std::uint32_t kNoIdInFile = 0xffffffffu;

// The text of DeepSeek's end token, which has fullwidth bars (U+FF5C) and U+2581 instead of a
// space.
constexpr std::string_view kDeepseekEnd = "<\uff5cend\u2581of\u2581sentence\uff5c>";

constexpr std::string_view kEotTexts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",     "<|end_of_text|>",
    "<EOT>",      "_<EOT>",     "[EOT]",   kDeepseekEnd,    "<end_of_utterance>"};
constexpr std::string_view kEomTexts[] = {"<|eom_id|>"};
constexpr std::string_view kFimPreTexts[] = {
    "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",    "<\uff5cfim\u2581begin\uff5c>",
    "<PRE>",          "\u2581<PRE>",  "<|code_prefix|>", "<|prefix|>"};
constexpr std::string_view kFimSufTexts[] = {
    "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",    "<\uff5cfim\u2581hole\uff5c>",
    "<SUF>",          "\u2581<SUF>",  "<|code_suffix|>", "<|suffix|>"};
constexpr std::string_view kFimMidTexts[] = {
    "<|fim_middle|>", "<fim-middle>", "<fim_middle>",    "<\uff5cfim\u2581end\uff5c>",
    "<MID>",          "\u2581<MID>",  "<|code_middle|>", "<|middle|>"};
constexpr std::string_view kFimPadTexts[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>",
                                             "[PAD]"};
constexpr std::string_view kFimRepTexts[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                             "<REPO>", "<reponame>"};
constexpr std::string_view kFimSepTexts[] = {"<|file_sep|>"};
constexpr std::string_view kEndOfGenerationTexts[] = {"<|eot_id|>",
                                                      "<|im_end|>",
                                                      "<|end|>",
                                                      "<|return|>",
                                                      "<|call|>",
                                                      "<|flush|>",
                                                      "<|calls|>",
                                                      "<end_of_turn>",
                                                      "<|endoftext|>",
                                                      "</s>",
                                                      "<|eom_id|>",
                                                      "<EOT>",
                                                      "_<EOT>",
                                                      "[EOT]",
                                                      "[EOS]",
                                                      "<|end_of_text|>",
                                                      "<end_of_utterance>",
                                                      "<eos>",
                                                      "<turn|>",
                                                      "<|tool_response>",
                                                      kDeepseekEnd,
                                                      "[e~["};
// Parts of a message whose text is always shown (gpt-oss).
constexpr std::string_view kAlwaysShownTexts[] = {"<|channel|>", "<|message|>", "<|start|>",
                                                  "<|constrain|>"};

struct Role {
  std::string_view key;
  std::optional<std::uint32_t> VocabularyData::* in_file;
  TokenId SpecialTokens::* resolved;
  Texts texts;
};

constexpr Role kRoles[] = {
    {"tokenizer.ggml.bos_token_id", &VocabularyData::bos, &SpecialTokens::bos, {}},
    {"tokenizer.ggml.eos_token_id", &VocabularyData::eos, &SpecialTokens::eos, {}},
    {"tokenizer.ggml.eot_token_id", &VocabularyData::eot, &SpecialTokens::eot, kEotTexts},
    {"tokenizer.ggml.eom_token_id", &VocabularyData::eom, &SpecialTokens::eom, kEomTexts},
    {"tokenizer.ggml.unknown_token_id", &VocabularyData::unk, &SpecialTokens::unk, {}},
    {"tokenizer.ggml.seperator_token_id", &VocabularyData::sep, &SpecialTokens::sep, {}},
    {"tokenizer.ggml.padding_token_id", &VocabularyData::pad, &SpecialTokens::pad, {}},
    {"tokenizer.ggml.mask_token_id", &VocabularyData::mask, &SpecialTokens::mask, {}},
    {"tokenizer.ggml.fim_pre_token_id", &VocabularyData::fim_pre, &SpecialTokens::fim_pre,
     kFimPreTexts},
    {"tokenizer.ggml.fim_suf_token_id", &VocabularyData::fim_suf, &SpecialTokens::fim_suf,
     kFimSufTexts},
    {"tokenizer.ggml.fim_mid_token_id", &VocabularyData::fim_mid, &SpecialTokens::fim_mid,
     kFimMidTexts},
    {"tokenizer.ggml.fim_pad_token_id", &VocabularyData::fim_pad, &SpecialTokens::fim_pad,
     kFimPadTexts},
    {"tokenizer.ggml.fim_rep_token_id", &VocabularyData::fim_rep, &SpecialTokens::fim_rep,
     kFimRepTexts},
    {"tokenizer.ggml.fim_sep_token_id", &VocabularyData::fim_sep, &SpecialTokens::fim_sep,
     kFimSepTexts},
};

void AddAttributes(TokenTable& tokens, TokenId token, std::uint8_t added) {
  tokens.SetAttributes(token, tokens.attributes(token) | added);
}

Result<TokenId> ResolveRole(const Role& role, const VocabularyData& data, TokenId fallback,
                            std::uint32_t id_count, TokenTable& tokens) {
  std::optional<std::uint32_t> in_file = data.*role.in_file;
  if (in_file && *in_file != kNoIdInFile) {
    if (*in_file >= id_count) {
      return Fail(Code::kCorrupt, role.key, ": ", *in_file, " is not a token, the vocabulary has ",
                  id_count);
    }
    return static_cast<TokenId>(*in_file);
  }
  if (fallback != kNoToken && static_cast<std::uint32_t>(fallback) < id_count) return fallback;
  for (std::string_view text : role.texts) {
    TokenId token = tokens.Find(text);
    if (token == kNoToken) continue;
    AddAttributes(tokens, token, token_attribute::kControl);
    return token;
  }
  return kNoToken;
}

// A small set of tokens.
class TokenSet {
 public:
  void Add(TokenId token) {
    if (token != kNoToken && !Has(token)) tokens_.push_back(token);
  }
  void Remove(TokenId token) { std::erase(tokens_, token); }
  bool Has(TokenId token) const { return std::ranges::find(tokens_, token) != tokens_.end(); }
  std::vector<TokenId> TakeSorted() {
    std::ranges::sort(tokens_);
    return std::move(tokens_);
  }

 private:
  std::vector<TokenId> tokens_;
};

// Handles models in which a text of the list does not end generation. If "<|return|>" and
// "<|call|>", or "<|calls|>" and "<|flush|>", end generation, "<|end|>" only ends a message
// (gpt-oss, solar-open). If "<|tool_response>" ends generation, "</s>" is a plain token (gemma 4).
void RemoveExceptions(TokenTable& tokens, TokenSet& ends) {
  auto has = [&](std::string_view text) { return ends.Has(tokens.Find(text)); };
  bool calls = has("<|call|>") || has("<|calls|>");
  if (has("<|end|>") && calls && (has("<|return|>") || has("<|flush|>"))) {
    TokenId end = tokens.Find("<|end|>");
    ends.Remove(end);
    tokens.SetAttributes(end, token_attribute::kUserDefined);
  }
  if (has("</s>") && has("<|tool_response>")) {
    TokenId end = tokens.Find("</s>");
    ends.Remove(end);
    tokens.SetAttributes(end, token_attribute::kNormal);
  }
}

std::vector<TokenId> FindEndsOfGeneration(const SpecialTokens& special, TokenTable& tokens) {
  TokenSet ends;
  for (std::string_view text : kEndOfGenerationTexts) {
    TokenId token = tokens.Find(text);
    if (token == kNoToken) continue;
    ends.Add(token);
    AddAttributes(tokens, token, token_attribute::kControl);
  }
  for (std::string_view text : kAlwaysShownTexts) {
    TokenId token = tokens.Find(text);
    if (token != kNoToken) tokens.SetAttributes(token, token_attribute::kUserDefined);
  }
  for (TokenId token :
       {special.fim_pad, special.fim_rep, special.fim_sep, special.eos, special.eot, special.eom}) {
    ends.Add(token);
  }
  RemoveExceptions(tokens, ends);
  return ends.TakeSorted();
}

std::string Lowercase(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lowered;
}

bool ContainsAny(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(
      parts, [text](std::string_view part) { return text.find(part) != text.npos; });
}

// Pre-tokenizers of models that read a pair of texts as "<s> a </s></s> b </s>".
bool IsRobertas(std::string_view pre) {
  return pre == "jina-v1-en" || pre == "jina-v2-code" || pre == "roberta-bpe";
}

// Sets which special tokens strip adjacent white space. The file has no key for stripping, so the
// stripping tokens are derived from the pre-tokenizer's, the architecture's or the model's name.
void SetStripping(const VocabularyData& data, TokenTable& tokens) {
  auto strip_left = [&tokens](std::string_view text) {
    TokenId token = tokens.Find(text);
    if (token != kNoToken) AddAttributes(tokens, token, token_attribute::kStripLeft);
  };
  std::string name = Lowercase(data.general_name);
  if (ContainsAny(data.pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code"}) ||
      ContainsAny(data.architecture, {"nomic-bert-moe", "jina-bert-v3"})) {
    strip_left("<mask>");
  } else if (ContainsAny(name, {"phi-3", "phi3"})) {
    constexpr std::uint8_t special = token_attribute::kHidden | token_attribute::kUserDefined;
    for (TokenId token = 0; tokens.Contains(token); ++token) {
      std::string_view text = tokens.text(token);
      bool keeps = text == "<unk>" || text == "<s>" || text == "<|endoftext|>";
      bool strips = !keeps && ((tokens.attributes(token) & special) != 0 || text == "</s>");
      if (strips) AddAttributes(tokens, token, token_attribute::kStripRight);
    }
  } else if (ContainsAny(name, {"modern-bert"})) {
    strip_left("[MASK]");
  }
}

}  // namespace

Result<SpecialTokens> ResolveSpecialTokens(const VocabularyData& data,
                                           const SpecialTokenDefaults& defaults,
                                           std::uint32_t id_count, TokenTable& tokens) {
  SpecialTokens special;
  special.bos = defaults.bos;
  special.eos = defaults.eos;
  special.unk = defaults.unk;
  special.sep = defaults.sep;
  special.pad = defaults.pad;
  special.mask = defaults.mask;
  for (const Role& role : kRoles) {
    KVD_TRY(special.*role.resolved,
            ResolveRole(role, data, special.*role.resolved, id_count, tokens));
  }
  auto flag = [&defaults](std::optional<bool> in_file, bool fallback) {
    return defaults.flags_are_fixed ? fallback : in_file.value_or(fallback);
  };
  special.add_bos =
      (defaults.always_adds_bos || flag(data.add_bos, defaults.add_bos)) && special.bos != kNoToken;
  special.add_eos = flag(data.add_eos, defaults.add_eos) && special.eos != kNoToken;
  special.add_sep =
      flag(data.add_sep, defaults.add_sep || IsRobertas(data.pre)) && special.sep != kNoToken;
  special.add_space_prefix = data.add_space_prefix.value_or(defaults.add_space_prefix);
  special.end_of_generation = FindEndsOfGeneration(special, tokens);
  SetStripping(data, tokens);
  return special;
}

}  // namespace kvd
