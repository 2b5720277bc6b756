// Compiles any bytes as a grammar and, if they compile, follows the bytes after a zero byte as
// choices of tokens.
//
// Oracle, in addition to the sanitizers: an error has a message and one of three codes; Accept
// accepts the tokens of a complete mask and no others; a matcher whose states are dropped all the
// time agrees with one that keeps them; a forced byte is the only one that AcceptText accepts. The
// limits are small, so that an input takes milliseconds. Seeds: make_corpus gbnf FOLDER.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "engine/grammar/grammar.h"
#include "tests/engine/vocabulary/small_models.h"

namespace {

using namespace kvd;

constexpr GrammarLimits kLimits{.text_bytes = 1u << 14,
                                .rules = 256,
                                .elements = 1u << 13,
                                .depth = 12,
                                .state_entries = 512,
                                .mask_entries = 1u << 14,
                                .cache_bytes = 1u << 20};
constexpr std::size_t kStepsMax = 24;

std::shared_ptr<const GrammarVocabulary> MakeVocabulary() {
  const auto vocabulary = Vocabulary::Create(test::SmallLongestMatchData());
  KVD_ASSERT(vocabulary.has_value());
  const auto made = GrammarVocabulary::Create(**vocabulary, (*vocabulary)->vocab_size() + 3);
  KVD_ASSERT(made.has_value());
  return *made;
}

void CheckError(const Error& error) {
  KVD_ASSERT(!error.message.empty());
  KVD_ASSERT(error.code == Code::kInvalidArgument || error.code == Code::kTooLarge);
}

void CheckMask(const GrammarMatcher& matcher, const TokenMask& mask, std::uint8_t choice) {
  const auto size = static_cast<TokenId>(mask.row_size());
  for (TokenId token = choice % 7; token < size; token += 7) {
    const Status accepted = GrammarMatcher(matcher).Accept(token);
    if (!accepted) CheckError(accepted.error());
    if (mask.Contains(token)) KVD_ASSERT(accepted.has_value());
    if (mask.is_complete() && !mask.Contains(token)) KVD_ASSERT(!accepted.has_value());
  }
}

void CheckForcedText(const GrammarMatcher& matcher, std::uint8_t choice) {
  const std::string forced = matcher.ForcedText(5);
  if (forced.empty()) return;
  KVD_ASSERT(!matcher.may_end());
  KVD_ASSERT(GrammarMatcher(matcher).AcceptText(forced).has_value());
  const char other = static_cast<char>(choice);
  if (other != forced[0]) KVD_ASSERT(!GrammarMatcher(matcher).AcceptText({&other, 1}).has_value());
}

void Follow(const std::shared_ptr<Grammar>& grammar, const std::shared_ptr<Grammar>& dropping,
            std::string_view choices) {
  GrammarMatcher matcher(grammar);
  GrammarMatcher other(dropping);
  for (const char c : choices.substr(0, kStepsMax)) {
    const auto choice = static_cast<std::uint8_t>(c);
    const auto mask = matcher.Mask();
    CheckMask(matcher, *mask, choice);
    CheckForcedText(matcher, choice);
    const auto second = other.Mask();
    KVD_ASSERT(matcher.may_end() == other.may_end());
    if (mask->is_complete() && second->is_complete())
      KVD_ASSERT(std::ranges::equal(mask->list(), second->list()) &&
                 std::ranges::equal(mask->bits(), second->bits()));
    if (mask->empty()) return;
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token < static_cast<TokenId>(mask->row_size()); ++token)
      if (mask->Contains(token)) allowed.push_back(token);
    KVD_ASSERT(allowed.size() == mask->size());
    const TokenId token = allowed[choice % allowed.size()];
    KVD_ASSERT(matcher.Accept(token).has_value());
    KVD_ASSERT(other.Accept(token).has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  static const std::shared_ptr<const GrammarVocabulary> vocabulary = MakeVocabulary();
  // The copy has no bytes after its end, so that AddressSanitizer detects a read too far.
  const std::vector<char> copy(data, data + byte_count);
  const std::string_view input(copy.data(), copy.size());
  const std::size_t end = std::min(input.find('\0'), input.size());
  const auto grammar = Grammar::Compile(input.substr(0, end), vocabulary, kLimits);
  if (!grammar) {
    CheckError(grammar.error());
    return 0;
  }
  GrammarLimits dropping = kLimits;
  dropping.cache_bytes = 1;
  const auto second = Grammar::Compile(input.substr(0, end), vocabulary, dropping);
  KVD_ASSERT(second.has_value() && (*second)->hash() == (*grammar)->hash());
  Follow(*grammar, *second, input.substr(std::min(end + 1, input.size())));
  return 0;
}
