#include "engine/vocabulary/unigram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "engine/vocabulary/escaped_spaces.h"
#include "engine/vocabulary/text_tokenizer.h"

namespace kvd {

// ---- unigram
// The tokenizer runs Viterbi's search from left to right: for every character boundary, the search
// keeps the best sequence of tokens that ends there, and extends this sequence by each token that
// begins there. The search reaches every boundary, if necessary by unknown tokens. Sums of scores
// are computed in double, as in SentencePiece.

namespace {

constexpr float kUnknownPenalty = 10.0f;

// The best sequence of tokens that ends at a position in the text: its last token, the position
// where that token begins, and the sum of scores.
struct Step {
  TokenId token;
  std::uint32_t begin;
  double score = -std::numeric_limits<double>::max();
};

void Offer(Step& best, TokenId token, std::size_t begin, double score) {
  if (score > best.score) best = {token, static_cast<std::uint32_t>(begin), score};
}

}  // namespace

Result<std::unique_ptr<Unigram>> Unigram::Create(const TokenTable& tokens, TokenId unk,
                                                 std::optional<PrecompiledCharsmap> charsmap,
                                                 UnigramOptions options) {
  constexpr std::uint8_t searched =
      token_attribute::kNormal | token_attribute::kUserDefined | token_attribute::kUnused;
  std::vector<TokenId> ids;
  std::vector<TokenId> user_defined;
  for (TokenId token = 0; tokens.Contains(token); ++token) {
    const std::uint8_t attributes = tokens.attributes(token);
    if ((attributes & searched) != 0) ids.push_back(token);
    if ((attributes & token_attribute::kUserDefined) != 0) user_defined.push_back(token);
  }
  KVD_TRY(TokenTrie trie, TokenTrie::Create(tokens, ids));
  KVD_TRY(TokenTrie kept, TokenTrie::Create(tokens, user_defined));
  return std::unique_ptr<Unigram>(
      new Unigram(tokens, std::move(trie), std::move(kept), unk, std::move(charsmap), options));
}

Unigram::Unigram(const TokenTable& tokens, TokenTrie trie, TokenTrie kept, TokenId unk,
                 std::optional<PrecompiledCharsmap> charsmap, UnigramOptions options)
    : trie_(std::move(trie)),
      kept_(std::move(kept)),
      unk_(unk),
      charsmap_(std::move(charsmap)),
      options_(options) {
  float worst = std::numeric_limits<float>::max();
  for (TokenId token = 0; tokens.Contains(token); ++token) {
    const std::uint8_t attributes = tokens.attributes(token);
    const bool is_user_defined = (attributes & token_attribute::kUserDefined) != 0;
    scores_.push_back(is_user_defined ? 0 : tokens.score(token));
    if ((attributes & token_attribute::kNormal) != 0) worst = std::min(worst, tokens.score(token));
  }
  unknown_score_ = worst - kUnknownPenalty;
}

// Only whole characters are kept; llama.cpp also keeps the first bytes of a character, and replaces
// its other bytes by U+FFFD.
std::size_t Unigram::KeptBytes(std::string_view text) const {
  std::size_t kept_bytes = 0;
  std::uint32_t node = TokenTrie::kRoot;
  for (;;) {
    const std::size_t bytes = WellFormedBytes(text.substr(kept_bytes, 4));
    if (bytes == 0) return kept_bytes;
    for (const char byte : text.substr(kept_bytes, bytes)) {
      node = kept_.Child(node, byte);
      if (node == TokenTrie::kRoot) return kept_bytes;
    }
    kept_bytes += bytes;
  }
}

Result<std::string> Unigram::Normalize(std::string_view text, WorkMeter& meter) const {
  std::string normalized;
  bool in_word = false;
  bool prefix_due = options_.add_space_prefix;
  while (!text.empty()) {
    PrecompiledCharsmap::Match rule;
    rule.bytes = KeptBytes(text);
    rule.replacement = text.substr(0, rule.bytes);
    if (rule.bytes == 0 && charsmap_) rule = charsmap_->LongestPrefix(text);
    if (rule.bytes == 0) {
      std::size_t bytes = WellFormedBytes(text);
      rule.bytes = std::max<std::size_t>(bytes, 1);
      rule.replacement = bytes == 0 ? kReplacementCharacter : text.substr(0, bytes);
    }
    text.remove_prefix(rule.bytes);
    KVD_CHECK_OK(meter.Spend(kCharacterUnits + rule.replacement.size()));
    for (char byte : rule.replacement) {
      if (byte == ' ') {
        in_word = false;
        if (!options_.remove_extra_whitespaces) normalized.append(kEscapedSpace);
        continue;
      }
      if (!in_word && (prefix_due || options_.remove_extra_whitespaces)) {
        normalized.append(kEscapedSpace);
        prefix_due = false;
      }
      in_word = true;
      normalized.push_back(byte);
    }
    if (normalized.size() > kNormalizedBytesMax) {
      return Fail(Code::kInvalidArgument, "text: longer than the limit of ", kNormalizedBytesMax,
                  " bytes when normalised");
    }
  }
  return normalized;
}

Status Unigram::Append(std::string_view text, bool /*at_start*/, std::vector<TokenId>& tokens,
                       WorkControl& work) const {
  WorkMeter meter(work);
  KVD_TRY(std::string normalized, Normalize(text, meter));
  if (normalized.empty()) return {};
  std::vector<Step> best(normalized.size() + 1, Step{unk_, 0});
  best[0].score = 0;
  for (std::size_t begin = 0; begin < normalized.size();) {
    std::size_t character_bytes =
        std::min(AnnouncedBytes(normalized[begin]), normalized.size() - begin);
    bool is_token = false;
    std::uint32_t node = TokenTrie::kRoot;
    for (std::size_t end = begin; end < normalized.size();) {
      node = trie_.Child(node, normalized[end++]);
      if (node == TokenTrie::kRoot) break;
      KVD_CHECK_OK(meter.Spend(kNodeUnits));
      TokenId token = trie_.TokenAt(node);
      if (token == kNoToken) continue;
      is_token = is_token || end - begin == character_bytes;
      Offer(best[end], token, begin, best[begin].score + scores_[static_cast<std::size_t>(token)]);
    }
    KVD_CHECK_OK(meter.Spend(kCharacterUnits));
    if (!is_token)
      Offer(best[begin + character_bytes], unk_, begin, best[begin].score + unknown_score_);
    begin += character_bytes;
  }
  // Tokens are collected from the end and then reversed.
  auto first = static_cast<std::ptrdiff_t>(tokens.size());
  bool after_unknown = false;
  std::size_t end = normalized.size();
  do {
    KVD_CHECK_OK(meter.Spend(1));
    const Step& step = best[end];
    bool unknown = step.token == unk_;
    bool silent = unknown && (after_unknown || unk_ == kNoToken);
    if (!silent) tokens.push_back(step.token);
    after_unknown = unknown;
    end = step.begin;
  } while (end != 0);
  std::reverse(tokens.begin() + first, tokens.end());
  return {};
}

// ---- reverse unigram
// The search reads the text from its end. Its state is the longest text that begins at the present
// character and with which some token ends; the tokens that begin there are the state's own and
// those of the states that are beginnings of it (Aho and Corasick's automaton over the reversed
// tokens). For each character, the best sequence from there to the end of the text is one of these
// tokens followed by the best sequence after it.

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr double kCostsPerScore = 1e4;
constexpr std::size_t kScoringUnits = 16;  // per character
constexpr std::size_t kStateUnits = 4;

// Returns the characters of `text` in reverse order; empty if the text is not well formed.
std::string ReverseCharacters(std::string_view text) {
  if (!IsValidUtf8(text)) return {};
  std::string reversed(text.size(), '\0');
  std::size_t at = text.size();
  while (!text.empty()) {
    const std::size_t bytes = WellFormedBytes(text.substr(0, 4));
    at -= bytes;
    text.copy(reversed.data() + at, bytes);
    text.remove_prefix(bytes);
  }
  return reversed;
}

// Returns the last character of `text`, or its last byte if it does not end with a character.
std::string_view LastCharacter(std::string_view text) {
  for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(text.size(), 4); ++bytes) {
    const std::string_view last = text.substr(text.size() - bytes);
    if (WellFormedBytes(last) == bytes) return last;
  }
  return text.substr(text.size() - 1);
}

}  // namespace

// The best sequence from a place in the text to the end: its cost and its first token.
struct ReverseUnigram::Step {
  std::int64_t cost = 0;
  TokenId token = kNoToken;  // kNoToken: the bytes of a character
  std::uint32_t bytes = 0;   // of the text that the token covers; 0: the place is no boundary
};

Result<std::unique_ptr<ReverseUnigram>> ReverseUnigram::Create(const TokenTable& tokens) {
  ByteTokens byte_tokens;
  byte_tokens.fill(kNoToken);
  std::vector<std::string> reversed;
  std::vector<TokenId> ids;
  for (TokenId token = 0; tokens.Contains(token); ++token) {
    if ((tokens.attributes(token) & token_attribute::kByte) != 0) {
      byte_tokens[static_cast<std::size_t>(ByteOfHexText(tokens.text(token)))] = token;
      continue;
    }
    std::string text = ReverseCharacters(tokens.text(token));
    if (text.empty()) continue;
    reversed.push_back(std::move(text));
    ids.push_back(token);
  }
  for (std::size_t byte = 0; byte < byte_tokens.size(); ++byte) {
    if (byte_tokens[byte] == kNoToken) {
      return Fail(Code::kCorrupt, "tokenizer.ggml.tokens: byte ", byte, " has no token");
    }
  }
  std::vector<TokenTrie::Entry> entries;
  for (std::size_t i = 0; i < ids.size(); ++i) entries.push_back({reversed[i], ids[i]});
  KVD_TRY(TokenTrie trie, TokenTrie::Create(std::move(entries)));
  std::unique_ptr<ReverseUnigram> made(new ReverseUnigram(std::move(trie)));
  made->byte_tokens_ = byte_tokens;
  made->SetCosts(tokens);
  made->LinkNodes();
  return made;
}

void ReverseUnigram::SetCosts(const TokenTable& tokens) {
  static_assert(TokenTable::kTokenBytesMax < 1u << 16);
  costs_.assign(trie_.node_count(), kNoCost);
  text_bytes_.assign(trie_.node_count(), 0);
  for (State node = 0; node < trie_.node_count(); ++node) {
    const TokenId token = trie_.TokenAt(node);
    if (token == kNoToken) continue;
    text_bytes_[node] = static_cast<std::uint16_t>(tokens.text(token).size());
    const double cost = std::round(-static_cast<double>(tokens.score(token)) * kCostsPerScore);
    constexpr double kLeast = std::numeric_limits<std::int32_t>::min();
    if (std::isfinite(cost)) {
      costs_[node] = static_cast<std::int32_t>(std::clamp<double>(cost, kLeast, kNoCost));
    }
  }
}

// Nodes are numbered by depth, so the beginnings of a node's text, which are shorter, are linked
// before the node. Only nodes at which a character ends are states.
void ReverseUnigram::LinkNodes() {
  struct Incomplete {
    State state = TokenTrie::kRoot;  // the state before the character
    std::array<char, 4> character{};
    std::uint8_t bytes = 0;
  };
  std::vector<Incomplete> incomplete(trie_.node_count());
  shorter_.assign(trie_.node_count(), TokenTrie::kRoot);
  for (State node = 0; node < trie_.node_count(); ++node) {
    Incomplete next = incomplete[node];
    const bool is_state = next.bytes > 0 && next.bytes == AnnouncedBytes(next.character[0]);
    if (is_state) {
      const std::string_view character(next.character.data(), next.bytes);
      State state = next.state;
      while (state != TokenTrie::kRoot && shorter_[node] == TokenTrie::kRoot) {
        state = shorter_[state];
        shorter_[node] = Descend(state, character);
      }
      next = {.state = node};
    }
    for (State child = trie_.child_begin(node); child < trie_.child_end(node); ++child) {
      incomplete[child] = next;
      incomplete[child].character[next.bytes] = trie_.byte(child);
      ++incomplete[child].bytes;
    }
  }
}

// Returns the state of `character` and the text of `state`; kRoot if no token ends with that text.
ReverseUnigram::State ReverseUnigram::Descend(State state, std::string_view character) const {
  for (const char byte : character) {
    state = trie_.Child(state, byte);
    if (state == TokenTrie::kRoot) break;
  }
  return state;
}

// Returns the state at `character`, which precedes the text of `state`. A mark (a token whose score
// is -1,000) that `character` does not extend ends the search, so that the state there is empty.
ReverseUnigram::State ReverseUnigram::Advance(State state, std::string_view character) const {
  for (;;) {
    const State next = Descend(state, character);
    if (next != TokenTrie::kRoot || state == TokenTrie::kRoot || IsMark(state)) return next;
    state = shorter_[state];
  }
}

Status ReverseUnigram::Search(std::string_view text, std::vector<Step>& best,
                              WorkMeter& meter) const {
  State state = TokenTrie::kRoot;
  std::size_t at = text.size();
  while (at > 0) {
    const std::string_view character = LastCharacter(text.substr(0, at));
    at -= character.size();
    KVD_CHECK_OK(meter.Spend(kScoringUnits));
    const bool is_well_formed = WellFormedBytes(character) > 0;
    state = is_well_formed ? Advance(state, character) : TokenTrie::kRoot;
    Step& step = best[at];
    const auto offer = [&](std::size_t bytes, std::int32_t cost, TokenId token) {
      const std::int64_t sum = best[at + bytes].cost + cost;
      if (step.bytes == 0 || sum < step.cost) {
        step = {sum, token, static_cast<std::uint32_t>(bytes)};
      }
    };
    bool is_hidden = false;  // whether a mark hides the shorter tokens
    for (State one = state; one != TokenTrie::kRoot && !is_hidden; one = shorter_[one]) {
      KVD_CHECK_OK(meter.Spend(kStateUnits));
      if (costs_[one] < kNoCost) offer(text_bytes_[one], costs_[one], trie_.TokenAt(one));
      is_hidden = IsMark(one);
    }
    if (!is_hidden) offer(character.size(), kUnknownCost, kNoToken);
  }
  return {};
}

Status ReverseUnigram::Append(std::string_view text, bool, std::vector<TokenId>& tokens,
                              WorkControl& work) const {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  WorkMeter meter(work);
  std::vector<Step> best(text.size() + 1);
  KVD_CHECK_OK(Search(text, best, meter));
  for (std::size_t at = 0; at < text.size(); at += best[at].bytes) {
    KVD_CHECK_OK(meter.Spend(1));
    if (best[at].token != kNoToken) {
      tokens.push_back(best[at].token);
      continue;
    }
    for (const char byte : text.substr(at, best[at].bytes)) {
      tokens.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
    }
  }
  return {};
}

}  // namespace kvd
