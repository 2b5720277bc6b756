#include "tests/fuzz/scripted_answer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "tests/fuzz/scripted_vocabulary.h"

namespace kvd::test {
namespace {

constexpr std::size_t kTokensMax = 64;  // of an answer, so that an input is short

struct Ended {
  std::vector<TokenId> tokens;
  std::size_t text_bytes = std::string::npos;  // of the answer's text; npos: all
  wire::FinishReason finish = wire::kFinishEnd;
};

// The tokens up to the limit, and why the answer ends.
Ended TokensOf(const ScriptedAnswer& answer, const wire::GenerateRequest& request,
               std::size_t most) {
  Ended ended;
  const std::vector<TokenId> once = ScriptedTokens(answer.text, true);
  const bool ignores_end = (request.params.flags & wire::kIgnoreEos) != 0 && !answer.ends_always;
  while (ended.tokens.size() < most && !once.empty()) {
    ended.tokens.insert(ended.tokens.end(), once.begin(), once.end());
    if (!ignores_end) break;
  }
  const bool has_grammar = request.params.grammar_bytes != 0;
  if (has_grammar && answer.ends_by_grammar) {
    ended.finish = wire::kFinishGrammar;
  } else if (!answer.ends_by_limit && !ignores_end) {
    ended.tokens.push_back(kScriptedEos);
  } else {
    ended.finish = wire::kFinishLength;
  }
  if (ended.tokens.size() > most || most == 0) {
    ended.tokens.resize(std::min(ended.tokens.size(), most));
    ended.finish = wire::kFinishLength;
  }
  if (answer.ends_always) ended.finish = wire::kFinishEnd;
  return ended;
}

// Ends the answer where its text has a stop text.
void Stop(const std::vector<std::string>& stops, bool shows_special, Ended& ended) {
  std::string text;
  for (std::size_t i = 0; i < ended.tokens.size(); ++i) {
    text += ScriptedText(std::span(ended.tokens).subspan(i, 1), shows_special);
    std::size_t first = std::string::npos;
    for (const std::string& stop : stops) first = std::min(first, text.find(stop));
    if (first == std::string::npos) continue;
    ended.tokens.resize(i + 1);
    ended.text_bytes = first;
    ended.finish = wire::kFinishStop;
    return;
  }
}

std::vector<wire::TokenLogprob> LogprobsOf(const std::vector<TokenId>& tokens,
                                           std::uint32_t count) {
  std::vector<wire::TokenLogprob> records;
  for (const TokenId token : tokens) {
    records.push_back({token, -0.5f});
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto other = static_cast<std::uint32_t>(token) + i;
      records.push_back(
          {static_cast<TokenId>(other % kScriptedVocabulary), -0.5f - static_cast<float>(i)});
    }
  }
  return records;
}

}  // namespace

std::size_t ScriptedGeneration::token_count() const {
  std::size_t count = 0;
  for (const ScriptedPiece& piece : pieces) count += piece.tokens.size();
  return count;
}

ScriptedGeneration Generated(const ScriptedAnswer& answer, const wire::GenerateRequest& request,
                             std::size_t room) {
  const std::int32_t predict_max = request.params.predict_max;
  std::size_t most = std::min(room, kTokensMax);
  if (predict_max >= 0) most = std::min(most, static_cast<std::size_t>(predict_max));
  Ended ended = TokensOf(answer, request, most);
  const bool shows_special = (request.params.flags & wire::kShowSpecial) != 0;
  Stop(request.stops, shows_special, ended);
  const bool has_text = (request.params.flags & wire::kNoText) == 0;
  ScriptedGeneration generation;
  std::string all;
  std::size_t sent = 0;
  for (std::size_t first = 0, number = 0; first < ended.tokens.size(); ++number) {
    const std::size_t cut =
        answer.cuts.empty() ? ended.tokens.size() : answer.cuts[number % answer.cuts.size()];
    const std::size_t count = std::clamp<std::size_t>(cut, 1, ended.tokens.size() - first);
    const auto tokens = std::span(ended.tokens).subspan(first, count);
    first += count;
    all += ScriptedText(tokens, shows_special);
    std::size_t end = std::min(all.size(), ended.text_bytes);
    if (first < ended.tokens.size()) {
      end -= IncompleteTailBytes(std::string_view(all).substr(0, end));
    }
    ScriptedPiece piece{.tokens = {tokens.begin(), tokens.end()}, .text = {}, .logprobs = {}};
    if (has_text && end > sent) piece.text = all.substr(sent, end - sent);
    if (first == ended.tokens.size()) {
      piece.text.resize(piece.text.size() - IncompleteTailBytes(piece.text));
    }
    sent = std::max(sent, end);
    if (request.params.logprob_count != 0) {
      piece.logprobs = LogprobsOf(piece.tokens, request.params.logprob_count);
    }
    generation.pieces.push_back(std::move(piece));
  }
  const bool skips = (request.params.flags & wire::kSkipLast) != 0 && !ended.tokens.empty();
  generation.result = {.seed = request.params.seed,
                       .finish = ended.finish,
                       .prompt_reused = 0,
                       .prompt_computed = 0,
                       .predicted = static_cast<std::uint32_t>(ended.tokens.size()),
                       .prompt_ns = 1'000'000,
                       .predict_ns = 2'000'000,
                       .prompt_shared = 0,
                       .shared_origin = 0,
                       .share_limit = 0,
                       .skipped = static_cast<std::uint8_t>(skips ? 1 : 0)};
  return generation;
}

}  // namespace kvd::test
