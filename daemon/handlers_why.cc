// kWhy reports how many tokens of a prompt could be reused, from which sequence, and the first
// token that differs. The handler examines only sequences from which a prompt of the caller may
// take cells, so neither the answer nor its duration depends on other sequences.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "daemon/prompt_cache.h"
#include "daemon/service.h"
#include "engine/saved_state/prompt_store.h"
#include "engine/vocabulary/vocabulary.h"
#include "shm/payload_codec.h"

namespace kvd {
namespace {

// Returns the token's text in printable form; bytes that are not valid UTF-8 are shown as <0xNN>.
std::string ShownText(const Vocabulary& vocabulary, TokenId token) {
  std::vector<std::byte> bytes;
  const TokenId tokens[] = {token};
  if (!vocabulary.DetokenizeTo(tokens, {.unparse_special = true}, Uncontrolled(), &bytes)) {
    return {};
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (IsValidUtf8(text)) return std::string(text);
  std::string shown;
  for (const std::byte byte : bytes) {
    char hex[8];
    (void)std::snprintf(hex, sizeof hex, "<0x%02X>", std::to_integer<unsigned>(byte));
    shown += hex;
  }
  return shown;
}

// Copies as much of the tokens' text as fits into `field` with a terminating zero; the text is cut
// at a character boundary.
void CopyShown(const Vocabulary& vocabulary, std::span<const TokenId> tokens,
               char (&field)[wire::kWhyTextBytes]) {
  std::string text;
  for (const TokenId token : tokens) {
    if (text.size() >= sizeof field) break;
    text += ShownText(vocabulary, token);
  }
  std::size_t bytes = std::min(text.size(), sizeof field - 1);
  while (bytes < text.size() && bytes > 0 && !IsValidUtf8({text.data(), bytes})) --bytes;
  text.copy(field, bytes);
}

// As many tokens as fill a field of the record if each has two bytes.
constexpr std::uint32_t kShownTokens = wire::kWhyTextBytes / 2;

// Returns the tokens of the neighbour after the common ones, of which there is at least one. The
// neighbour may have been evicted in the meantime; then only the first one is known.
std::vector<TokenId> TokensAfter(Memory& memory, const PrefixNeighbour& nearest) {
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  (void)memory.holds().ReadCells(nearest.sequence, nearest.common, kShownTokens, &tokens,
                                 &positions);
  if (tokens.empty() || tokens.front() != *nearest.next) tokens = {*nearest.next};
  return tokens;
}

}  // namespace

Result<Outcome> Service::Do(const Call<wire::WhyArgs>& call) {
  const Vocabulary& vocabulary = engine_.vocabulary();
  KVD_TRY(std::vector<TokenId> tokens,
          wire::ParseTokens(call.payload, engine_.config().vocab_size));
  const bool is_on = prefixes_.is_shared && call.session->identity().shares_prefixes;
  return WorkCall{.call = [&memory = memory_, &vocabulary, cache = surroundings_.prompt_cache,
                           owner = OwnerFor(call.caller), is_on, share = call.share,
                           tokens = std::move(tokens)](WorkControl&) {
    const PrefixTaken found = memory.prefixes().Find(owner, tokens);
    const PrefixNeighbour nearest = memory.prefixes().FindNeighbour(owner, tokens);
    wire::WhyRecord record{};
    record.prompt_tokens = static_cast<std::uint32_t>(tokens.size());
    record.limit = static_cast<std::uint8_t>(is_on ? found.limit : PrefixLimit::kOff);
    if (is_on) {
      record.source = static_cast<std::uint64_t>(found.source);
      record.reused = found.cells;
      record.origin = static_cast<std::uint8_t>(found.origin);
    }
    record.nearest = static_cast<std::uint64_t>(nearest.sequence);
    record.common = nearest.common;
    if (is_on && cache != nullptr) {
      const auto stored =
          cache->store().Find(owner.id, owner.namespace_salt, tokens, record.reused);
      if (stored) record.on_disk = stored->cells;
    }
    record.prompt_token = nearest.common < tokens.size() ? tokens[nearest.common] : -1;
    record.cached_token = nearest.next.value_or(-1);
    CopyShown(vocabulary, std::span(tokens).subspan(nearest.common), record.prompt_text);
    if (nearest.next) CopyShown(vocabulary, TokensAfter(memory, nearest), record.cached_text);
    return MakeReply(wire::OneReply<wire::WhyRecord>{record});
  }};
}

}  // namespace kvd
