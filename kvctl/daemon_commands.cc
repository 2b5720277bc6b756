// kvctl info, ping, tokenize.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/utf8.h"
#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/profile_command.h"
#include "kvctl/terminal.h"
#include "text/json_builder.h"

namespace kvd::kvctl {
namespace {

template <std::size_t size>
std::string FieldText(const char (&field)[size]) {
  return {field, ::strnlen(field, size)};
}

Json JsonOf(const wire::InfoReply& info) {
  Json json = Json::Object();
  json.Set("model_name", FieldText(info.model_name))
      .Set("architecture", FieldText(info.architecture))
      .Set("kernels", FieldText(info.kernels))
      .Set("k_type", FieldText(info.k_type))
      .Set("v_type", FieldText(info.v_type))
      .Set("version", FieldText(info.version))
      .Set("weight_bytes", info.weight_bytes)
      .Set("weight_bytes_read", info.weight_bytes_read)
      .Set("weight_bytes_to_read", info.weight_bytes_to_read)
      .Set("pool_cells", info.pool_cells)
      .Set("free_cells", info.free_cells)
      .Set("reclaimable_cells", info.reclaimable_cells)
      .Set("live_cells", info.live_cells)
      .Set("cell_bytes", info.cell_bytes)
      .Set("pool_reserved_bytes", info.pool_reserved_bytes)
      .Set("resident_anonymous_bytes", info.resident_anonymous_bytes)
      .Set("resident_shared_bytes", info.resident_shared_bytes)
      .Set("resident_file_bytes", info.resident_file_bytes)
      .Set("major_faults", std::uint64_t{info.major_faults})
      .Set("tokens_computed", info.tokens_computed)
      .Set("tokens_sampled", info.tokens_sampled)
      .Set("steps", info.steps)
      .Set("requests_computing", std::uint64_t{info.requests_computing})
      .Set("requests_waiting", std::uint64_t{info.requests_waiting})
      .Set("requests_parked", std::uint64_t{info.requests_parked})
      .Set("tokens_given_back", info.tokens_given_back)
      .Set("uptime_ms", info.uptime_ms)
      .Set("vocab_size", std::uint64_t{info.vocab_size})
      .Set("context_trained", std::uint64_t{info.context_trained})
      .Set("layer_count", std::uint64_t{info.layer_count})
      .Set("embedding_size", std::uint64_t{info.embedding_size})
      .Set("sequences_live", std::uint64_t{info.sequences_live})
      .Set("sequence_capacity", std::uint64_t{info.sequence_capacity})
      .Set("sessions", std::uint64_t{info.sessions})
      .Set("threads", std::uint64_t{info.threads})
      .Set("descriptors", std::uint64_t{info.descriptors})
      .Set("mappings", std::uint64_t{info.mappings})
      .Set("deterministic", info.deterministic != 0)
      .Set("pid", std::uint64_t{info.pid})
      .Set("has_tokenizer", info.has_tokenizer != 0)
      .Set("bos_token", std::int64_t{info.bos_token})
      .Set("eos_token", std::int64_t{info.eos_token})
      .Set("adds_bos", info.adds_bos != 0)
      .Set("state_bytes", info.state_bytes)
      .Set("state_slots", std::uint64_t{info.state_slots})
      .Set("free_state_slots", std::uint64_t{info.free_state_slots})
      .Set("checkpoint_slots", std::uint64_t{info.checkpoint_slots})
      .Set("prefix_prompts", info.prefix_prompts)
      .Set("prefix_hits", info.prefix_hits)
      .Set("prefix_evictions", info.prefix_evictions)
      .Set("prefix_tokens_evicted", info.prefix_tokens_evicted)
      .Set("sequences_retained", std::uint64_t{info.sequences_retained});
  Json reused = Json::Object();
  for (std::size_t origin = 1; origin < kPrefixOrigins; ++origin) {
    reused.Set(std::string(PrefixOriginName(static_cast<PrefixOrigin>(origin))),
               info.prefix_tokens_reused[origin]);
  }
  json.Set("prefix_tokens_reused", std::move(reused));
  return json;
}

std::string WeightsText(const wire::InfoReply& info) {
  const std::string bytes = BytesText(info.weight_bytes);
  if (info.weight_bytes_to_read == 0) return bytes + ", read when they are used";
  if (info.weight_bytes_read == info.weight_bytes_to_read) return bytes + ", read";
  return Concat(bytes, ", being read: ", info.weight_bytes_read * 100 / info.weight_bytes_to_read,
                " %");
}

std::string PrefixText(const wire::InfoReply& info) {
  std::string text = Concat(info.prefix_hits, " of ", info.prefix_prompts,
                            " prompts reused a prefix; tokens reused: ");
  for (std::size_t origin = 1; origin < kPrefixOrigins; ++origin) {
    if (origin > 1) text += ", ";
    text += Concat(info.prefix_tokens_reused[origin], " ",
                   PrefixOriginName(static_cast<PrefixOrigin>(origin)));
  }
  return Concat(text, "; ", info.prefix_evictions, " evicted, ", info.prefix_tokens_evicted,
                " tokens evicted");
}

std::string RequestsText(const wire::InfoReply& info) {
  return Concat(info.requests_computing, " compute, ", info.requests_waiting, " wait, ",
                info.requests_parked, " parked for lack of room; ", info.tokens_given_back,
                " tokens given back");
}

Json JsonOf(const wire::CacheReply& cache) {
  Json json = Json::Object();
  json.Set("entries", cache.entries)
      .Set("entry_bytes", cache.entry_bytes)
      .Set("bytes_max", cache.bytes_max)
      .Set("loads", cache.loads)
      .Set("loaded_bytes", cache.loaded_bytes)
      .Set("loaded_tokens", cache.loaded_tokens)
      .Set("loads_not_worth_it", cache.loads_not_worth_it)
      .Set("loads_failed", cache.loads_failed)
      .Set("spills", cache.spills)
      .Set("spilled_bytes", cache.spilled_bytes)
      .Set("spills_missed", cache.spills_missed)
      .Set("spills_failed", cache.spills_failed)
      .Set("spills_waiting", cache.spills_waiting)
      .Set("entries_dropped", cache.entries_dropped)
      .Set("entries_removed", cache.entries_removed)
      .Set("load_bytes_per_s", cache.load_bytes_per_s)
      .Set("computed_tokens_per_s", cache.computed_tokens_per_s);
  return json;
}

std::string CacheText(const wire::CacheReply& cache) {
  if (cache.is_on == 0) return "none";
  const auto rate = [](std::uint64_t amount, const std::string& text) {
    return amount == 0 ? "not measured" : text + "/s";
  };
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  return number(cache.entries) + " entries, " + BytesText(cache.entry_bytes) + " (limit " +
         BytesText(cache.bytes_max) + "); " + number(cache.loads) + " read (" +
         rate(cache.load_bytes_per_s, BytesText(cache.load_bytes_per_s)) + "), " +
         number(cache.loads_not_worth_it) + " not read because computing was faster (" +
         rate(cache.computed_tokens_per_s, number(cache.computed_tokens_per_s) + " tokens") +
         "), " + number(cache.loads_failed) + " failed; " + number(cache.spills) + " written, " +
         number(cache.spills_waiting) + " waiting, " + number(cache.spills_missed) + " missed, " +
         number(cache.spills_failed) + " refused; " + number(cache.entries_removed) + " evicted, " +
         number(cache.entries_dropped) + " damaged";
}

}  // namespace

Status ShowInfo(const GlobalOptions& global) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const wire::InfoReply info, client.Info());
  KVD_TRY(const auto cache_reply, client.Call(wire::CacheArgs{}));
  KVD_TRY(const auto tuning_reply, client.Call(wire::TuningArgs{}));
  const wire::CacheReply& cache = cache_reply.record;
  const wire::TuningReply& tuning = tuning_reply.record;
  if (global.wants_json) {
    Json json = JsonOf(info);
    json.Set("tuning", TuningJson(tuning));
    if (cache.is_on != 0) json.Set("prompt_cache", JsonOf(cache));
    std::puts(json.Text().c_str());
    return {};
  }
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  std::string states = "none";
  if (info.state_slots != 0) {
    states = number(info.state_slots) + " slots of " + BytesText(info.state_bytes) + ", " +
             number(info.free_state_slots) + " free, " + number(info.checkpoint_slots) +
             " held by checkpoints";
  }
  PrintTable(
      {{"model", FieldText(info.model_name) + " (" + FieldText(info.architecture) + ")"},
       {"weights", WeightsText(info)},
       {"layers", number(info.layer_count) + ", embedding " + number(info.embedding_size) +
                      ", vocabulary " + number(info.vocab_size)},
       {"trained context", number(info.context_trained) + " tokens"},
       {"pool", number(info.pool_cells) + " cells of " + BytesText(info.cell_bytes) + " (K " +
                    FieldText(info.k_type) + ", V " + FieldText(info.v_type) + "), " +
                    number(info.live_cells) + " live, " + number(info.free_cells) + " free, " +
                    number(info.reclaimable_cells) + " reclaimable"},
       {"recurrent state", states},
       {"sequences", number(info.sequences_live) + " of " + number(info.sequence_capacity) + ", " +
                         number(info.sequences_retained) + " retained"},
       {"prefixes", PrefixText(info)},
       {"prompt cache", CacheText(cache)},
       {"sessions", number(info.sessions)},
       {"requests", RequestsText(info)},
       {"tokens", number(info.tokens_computed) + " computed, " + number(info.tokens_sampled) +
                      " sampled, in " + number(info.steps) + " steps"},
       {"memory", BytesText(info.resident_anonymous_bytes) + " private, " +
                      BytesText(info.resident_shared_bytes) + " shared, " +
                      BytesText(info.resident_file_bytes) + " file; " + number(info.major_faults) +
                      " major page faults"},
       {"daemon", "pid " + number(info.pid) + ", version " + FieldText(info.version) +
                      ", kernels " + FieldText(info.kernels) + ", " + number(info.threads) +
                      " threads, up " + AgeText(info.uptime_ms)},
       {"products", TuningText(tuning)},
       {"socket", client.session().socket_path}},
      "ll");
  return {};
}

Status Defragment(const GlobalOptions& global) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const auto reply, client.Call(wire::DefragArgs{}));
  const wire::DefragReply& report = reply.record;
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("cells_moved", report.cells_moved)
        .Set("cells_settled", report.cells_settled)
        .Set("sequences_settled", std::uint64_t{report.sequences_settled})
        .Set("blocks_freed", report.blocks_freed)
        .Set("bytes_returned", report.bytes_returned)
        .Set("packing_ns", report.packing_ns)
        .Set("returning_ns", report.returning_ns)
        .Set("settling_ns", report.settling_ns);
    std::puts(json.Text().c_str());
    return {};
  }
  std::printf(
      "%llu cells moved in %s, %llu blocks freed, %s returned to the operating system in %s\n",
      static_cast<unsigned long long>(report.cells_moved), DurationText(report.packing_ns).c_str(),
      static_cast<unsigned long long>(report.blocks_freed),
      BytesText(report.bytes_returned).c_str(), DurationText(report.returning_ns).c_str());
  std::printf("%llu cells of %u sequences settled in %s\n",
              static_cast<unsigned long long>(report.cells_settled), report.sequences_settled,
              DurationText(report.settling_ns).c_str());
  return {};
}

Status PingDaemon(const GlobalOptions& global, const PingOptions& options) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  std::vector<std::uint64_t> times_ns;
  for (std::uint32_t i = 0; i < options.count; ++i) {
    KVD_TRY(const RoundTrip round_trip, client.Ping(options.payload_bytes));
    times_ns.push_back(round_trip.ns);
  }
  std::ranges::sort(times_ns);
  const std::uint64_t median_ns = times_ns[times_ns.size() / 2];
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("count", std::uint64_t{times_ns.size()})
        .Set("min_ns", times_ns.front())
        .Set("median_ns", median_ns)
        .Set("max_ns", times_ns.back());
    std::puts(json.Text().c_str());
  } else {
    std::printf("%zu round trips: min %s, median %s, max %s\n", times_ns.size(),
                DurationText(times_ns.front()).c_str(), DurationText(median_ns).c_str(),
                DurationText(times_ns.back()).c_str());
  }
  return {};
}

namespace {

// Returns the text of each token that occurs. A text of twice the same token has twice its piece,
// the first time perhaps without the space in front, so the piece is the second half of the text.
Result<std::map<TokenId, std::string>> PiecesOf(const Client& client,
                                                std::span<const TokenId> tokens) {
  std::map<TokenId, std::string> pieces;
  for (const TokenId token : tokens) {
    if (pieces.contains(token)) continue;
    const std::array<TokenId, 2> twice = {token, token};
    KVD_TRY(const std::string text, client.Detokenize(twice, wire::kFlagSpecial));
    pieces.emplace(token, text.substr(text.size() / 2));
  }
  return pieces;
}

// Formats a piece in quotes; bytes that are no printable characters are escaped ("\\n", "\\xe2").
std::string QuotedPiece(std::string_view piece) {
  std::string quoted = "\"";
  while (!piece.empty()) {
    const std::size_t bytes = WellFormedBytes(piece);
    const auto first = static_cast<unsigned char>(piece.front());
    if (bytes > 1 || (bytes == 1 && first >= 0x20 && first != 0x7f)) {
      if (first == '"' || first == '\\') quoted += '\\';
      quoted += piece.substr(0, bytes);
      piece.remove_prefix(bytes);
      continue;
    }
    std::array<char, 8> escaped{};
    if (first == '\n') {
      quoted += "\\n";
    } else {
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", first);
      quoted += escaped.data();
    }
    piece.remove_prefix(1);
  }
  return quoted + '"';
}

}  // namespace

Status TokenizeText(const GlobalOptions& global, const TextOptions& options) {
  std::string text = options.text;
  if (!options.has_text) {
    KVD_TRY(text, ReadStandardInput());
  }
  KVD_TRY(const Client client, Client::Connect(global.connect));
  const auto flags =
      static_cast<std::uint16_t>((options.adds_special ? wire::kFlagAddSpecial : 0) |
                                 (options.parses_special ? wire::kFlagParseSpecial : 0));
  KVD_TRY(const auto tokens, client.Tokenize(text, flags));
  KVD_TRY(const auto pieces, PiecesOf(client, tokens));
  Json ids = Json::Array();
  Json texts = Json::Array();
  for (const TokenId token : tokens) {
    const std::string& piece = pieces.at(token);
    if (!global.wants_json) std::printf("%8d  %s\n", token, QuotedPiece(piece).c_str());
    ids.Add(std::int64_t{token});
    texts.Add(piece);
  }
  if (!global.wants_json) return {};
  Json json = Json::Object();
  json.Set("tokens", std::move(ids)).Set("pieces", std::move(texts));
  std::puts(json.Text().c_str());
  return {};
}

}  // namespace kvd::kvctl
