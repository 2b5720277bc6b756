// kvctl save, load, saved.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/terminal.h"
#include "text/json_builder.h"

namespace kvd::kvctl {
namespace {

std::string TextOf(const char* text, std::size_t bytes_max) {
  return {text, ::strnlen(text, bytes_max)};
}

std::string TypesText(const std::string& k_type, const std::string& v_type) {
  return k_type == v_type ? k_type : k_type + "/" + v_type;
}

}  // namespace

Status SaveSequence(const GlobalOptions& global, const SavedOptions& options) {
  KVD_TRY(const SequenceHandle handle, ParseHandle(options.handle));
  if (options.name.empty() && !options.size_only) {
    return Fail(Code::kInvalidArgument, "name: required without --size");
  }
  KVD_TRY(const Client client, Client::Connect(global.connect));
  const SaveOptions profile{.with_logits = !options.no_logits,
                            .tokens_only = options.tokens_only,
                            .is_packed = !options.is_unpacked,
                            .q8_rows = options.q8_rows,
                            .replaces = options.is_forced};
  KVD_TRY(const SaveInfo info, options.size_only ? client.SaveSize(handle, profile)
                                                 : client.Save(handle, options.name, profile));
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("name", options.name)
        .Set("cells", info.cell_count)
        .Set("file_bytes", info.file_bytes)
        .Set("unpacked_bytes", info.unpacked_bytes);
    std::puts(json.Text().c_str());
  } else if (options.size_only) {
    std::printf("%llu cells, %s unpacked\n", static_cast<unsigned long long>(info.cell_count),
                BytesText(info.unpacked_bytes).c_str());
  } else {
    std::printf("%s  %llu cells, %s (%s unpacked)\n", options.name.c_str(),
                static_cast<unsigned long long>(info.cell_count),
                BytesText(info.file_bytes).c_str(), BytesText(info.unpacked_bytes).c_str());
  }
  return {};
}

Status LoadSequences(const GlobalOptions& global, const SavedOptions& options) {
  if (options.holds) BlockInterrupts();
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const auto loaded, client.Load(options.name));
  if (!options.publish_as.empty() && !loaded.empty()) {
    KVD_CHECK_OK(client.Publish(loaded.front().handle, options.publish_as));
  }
  Json list = Json::Array();
  for (const LoadedSequence& sequence : loaded) {
    if (global.wants_json) {
      Json json = Json::Object();
      json.Set("sequence", HandleText(sequence.handle))
          .Set("cells", sequence.cell_count)
          .Set("converted", sequence.is_converted)
          .Set("computed", sequence.is_computed)
          .Set("sampler", sequence.has_sampler)
          .Set("k_type", sequence.k_type)
          .Set("v_type", sequence.v_type);
      list.Add(std::move(json));
      continue;
    }
    std::puts(HandleText(sequence.handle).c_str());
    const std::string note = sequence.is_converted
                                 ? ", converted from " + TypesText(sequence.k_type, sequence.v_type)
                             : sequence.is_computed ? ", computed from its tokens"
                                                    : "";
    std::fprintf(stderr, "%llu cells%s%s\n", static_cast<unsigned long long>(sequence.cell_count),
                 note.c_str(),
                 options.holds ? "; held until Ctrl-C" : "; ends with this session (see --hold)");
  }
  if (global.wants_json) std::puts(list.Text().c_str());
  std::fflush(stdout);
  return options.holds ? HoldUntilInterrupted(client) : Status{};
}

Status ListSaved(const GlobalOptions& global, const SavedOptions& options) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  if (!options.removed.empty()) return client.RemoveSaved(options.removed);
  KVD_TRY(const auto entries, client.Saved());
  Json list = Json::Array();
  std::vector<std::vector<std::string>> rows{
      {"NAME", "SEQUENCES", "LENGTH", "SIZE", "TYPE", "AGE", "MODEL"}};
  for (const wire::SavedEntry& entry : entries) {
    const std::string name = TextOf(entry.name, sizeof entry.name);
    const std::string types = TypesText(TextOf(entry.k_type, sizeof entry.k_type),
                                        TextOf(entry.v_type, sizeof entry.v_type));
    const bool is_damaged = (entry.flags & wire::kSavedDamaged) != 0;
    const bool is_ours = (entry.flags & wire::kSavedThisModel) != 0;
    const bool has_tokens_only = (entry.flags & wire::kSavedTokensOnly) != 0;
    if (global.wants_json) {
      Json json = Json::Object();
      json.Set("name", name)
          .Set("sequences", std::uint64_t{entry.sequence_count})
          .Set("cells", entry.cell_count)
          .Set("file_bytes", entry.file_bytes)
          .Set("raw_bytes", entry.raw_bytes)
          .Set("type", types)
          .Set("age_ms", entry.age_ms)
          .Set("this_model", is_ours)
          .Set("tokens_only", has_tokens_only)
          .Set("damaged", is_damaged);
      list.Add(std::move(json));
      continue;
    }
    rows.push_back(
        {name, std::to_string(entry.sequence_count), std::to_string(entry.cell_count),
         BytesText(entry.file_bytes),
         is_damaged        ? "damaged"
         : has_tokens_only ? "tokens"
                           : types,
         AgeText(entry.age_ms),
         is_ours ? "this" : "another " + TextOf(entry.architecture, sizeof entry.architecture)});
  }
  if (global.wants_json) {
    std::puts(list.Text().c_str());
  } else {
    PrintTable(rows, "lrrrlrl");
  }
  return {};
}

}  // namespace kvd::kvctl
