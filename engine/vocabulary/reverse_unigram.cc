// The search reads the text from its end. Its state is the longest text that begins at the present
// character and with which some token ends; the tokens that begin there are the state's own and
// those of the states that are beginnings of it (Aho and Corasick's automaton over the reversed
// tokens). For each character, the best sequence from there to the end of the text is one of these
// tokens followed by the best sequence after it.
#include "engine/vocabulary/reverse_unigram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace kvd {
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
