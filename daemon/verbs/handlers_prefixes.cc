// Retained sequences and the prefixes that prompts reuse: the verbs that release, pin, drop and
// explain them, and the list of the tenants that hold them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "daemon/stores/prompt_cache.h"
#include "daemon/stores/saved_states.h"
#include "daemon/verbs/service.h"
#include "engine/model/model_config.h"
#include "engine/saved_state/prompt_store.h"
#include "engine/vocabulary/vocabulary.h"
#include "shm/payload_codec.h"

namespace kvd {

// Prefix sharing: the verbs that release, pin and drop retained sequences, and the rule whether a
// prompt may take cells of other sequences.

Result<bool> Service::LetGo(SequenceHandle handle, const RequestTag& applied) {
  if (prefixes_.retained_max > 0) {
    const Result<bool> stays = memory_.prefixes().Retain(handle, applied);
    if (stays.value_or(false) && surroundings_.prompt_cache != nullptr) {
      surroundings_.prompt_cache->Offer(handle);
    }
    return stays;
  }
  KVD_CHECK_OK(memory_.sequences().Drop(handle, applied));
  return false;
}

Result<wire::RetainReply> Service::Do(const Call<wire::RetainArgs>& call) {
  KVD_TRY(const bool stays, LetGo(call.args.sequence, call.applied()));
  if (prefixes_.retained_max > 0) (void)memory_.prefixes().LimitRetained(prefixes_.retained_max);
  return wire::RetainReply{.sequence = call.args.sequence, .stays = stays};
}

Result<wire::PinReply> Service::Do(const Call<wire::PinArgs>& call) {
  const SequenceInfo& info = call.sequence;
  const bool is_pinned = call.args.is_pinned;
  KVD_CHECK_OK(memory_.sequences().SetOwner(
      info.handle, info.owner, is_pinned ? layout::kSequencePinned : 0u,
      is_pinned ? 0u : layout::kSequencePinned, call.applied()));
  if (!is_pinned && surroundings_.prompt_cache != nullptr) {
    surroundings_.prompt_cache->Offer(info.handle);
  }
  return wire::PinReply{.sequence = info.handle};
}

// Drops the retained sequences in portions, so that the memory's mutex is not held for all of them
// at once. If the request is interrupted and retried, the retry drops the remaining sequences.
Result<wire::DropRetainedReply> Service::Do(const Call<wire::DropRetainedArgs>& call) {
  constexpr std::size_t kPortion = 256;
  wire::DropRetainedReply reply;
  for (bool is_complete = false; !is_complete;) {
    std::vector<SequenceHandle> meant;
    for (const SequenceInfo& info : memory_.sequences().RetainedOf(call.caller.owner)) {
      if (IsEvictable(info.flags) || call.has(wire::kFlagForce)) meant.push_back(info.handle);
    }
    const bool is_one_portion = meant.size() <= kPortion && reply.count == 0;
    is_complete = true;
    for (std::size_t first = 0; first < std::max<std::size_t>(1, meant.size()); first += kPortion) {
      const auto portion =
          std::span(meant).subspan(first, std::min(kPortion, meant.size() - first));
      const Status dropped =
          memory_.sequences().DropAll(portion, is_one_portion ? call.applied() : RequestTag{});
      // The error kNotFound means that a sequence was evicted in the meantime; the remaining
      // sequences are then listed again.
      is_complete = dropped.has_value() || dropped.error().code != Code::kNotFound;
      if (!is_complete) break;
      KVD_CHECK_OK(dropped);
      reply.count += portion.size();
    }
    if (is_complete && !is_one_portion) {
      KVD_CHECK_OK(memory_.sessions().Remember(call.applied(), Sessions::Stage::kEnded,
                                               static_cast<std::uint32_t>(reply.count)));
    }
  }
  return reply;
}

PromptOpening Service::OpeningFor(const VerbRequest& request, const SequenceInfo& info,
                                  bool wants_all_logits) const {
  PromptOpening opening;
  opening.owner = info.owner.id;
  opening.is_ephemeral = info.owner.life.is_ephemeral;
  opening.salt = info.owner.namespace_salt;
  opening.may_take = false;
  const bool is_on = prefixes_.is_shared && request.session->identity().shares_prefixes &&
                     !request.has(wire::kFlagNoPrefix);
  if (!is_on) {
    opening.reuse.limit = PrefixLimit::kOff;
  } else if (info.cell_count != 0) {
    opening.reuse.limit = PrefixLimit::kNotEmpty;
  } else if (engine_.config().has_cross_attention()) {
    opening.reuse.limit = PrefixLimit::kUnsupported;
  } else if (wants_all_logits) {
    opening.reuse.limit = PrefixLimit::kAllLogits;
  } else {
    opening.may_take = true;
  }
  return opening;
}

// kWhy reports how many tokens of a prompt could be reused, from which sequence, and the first
// token that differs. The handler examines only sequences from which a prompt of the caller may
// take cells, so neither the answer nor its duration depends on other sequences.

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

// kTenants lists the tenants of the tenants' file and the connected tenants, with their limits and
// the amounts that they hold. A worker makes the list, because the bytes of saved states are
// counted on disk.

Result<Outcome> Service::Do(const Call<wire::TenantsArgs>&) {
  return WorkCall{.call = [this](WorkControl& work) -> WireReply {
    wire::ListReply<wire::TenantEntry> reply;
    for (const Shares::TenantState& state : shares_.ListTenants()) {
      if (Status goes_on = work.Continue(); !goes_on) return ErrorReply(goes_on.error());
      const OwnerUse use = memory_.sequences().UseOf(state.owner);
      const OwnerLimits limits = shares_.LimitsOf(state.owner, memory_.geometry());
      const auto held = [&](Resource resource) -> std::uint64_t {
        return state.account == nullptr ? 0 : state.account->held(resource);
      };
      wire::TenantEntry entry{};
      std::ranges::copy(state.tenant.id, entry.tenant);
      state.tenant.name.copy(entry.name, sizeof entry.name - 1);
      entry.sequences_held = use.sequences;
      entry.sequences_max = limits.sequences;
      entry.cells_held = use.blocks[0] * layout::kBlockCells;
      entry.cells_max = limits.blocks[0] * layout::kBlockCells;
      entry.state_slots_held = use.state_slots;
      entry.state_slots_max = limits.state_slots;
      entry.requests_held = held(Resource::kRequests);
      entry.requests_max = state.tenant.limits.requests_in_flight;
      entry.connections_held = held(Resource::kConnections);
      entry.connections_max = state.tenant.limits.connections;
      if (surroundings_.saved_states != nullptr) {
        const Result<std::uint64_t> bytes = surroundings_.saved_states->BytesOf(state.owner);
        if (!bytes) return ErrorReply(bytes.error());
        entry.saved_bytes_held = *bytes;
      }
      entry.saved_bytes_max = state.tenant.limits.saved_bytes;
      entry.weight = state.tenant.limits.weight;
      reply.entries.push_back(entry);
    }
    return MakeReply(std::move(reply));
  }};
}

}  // namespace kvd
