// The commands on saved states, and on state files of llama.cpp.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/whole_file.h"
#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/sequence_names.h"
#include "kvctl/terminal.h"
#include "llama_files/llama_file_sink.h"
#include "shm/wire_check.h"
#include "text/json_builder.h"

namespace kvd::kvctl {

// kvctl save, load, saved.

namespace {

std::string TextOf(const char* text, std::size_t bytes_max) {
  return {text, ::strnlen(text, bytes_max)};
}

std::string TypesText(const std::string& k_type, const std::string& v_type) {
  return k_type == v_type ? k_type : k_type + "/" + v_type;
}

}  // namespace

namespace {

SaveOptions ProfileOf(const SavedOptions& options) {
  return {.with_logits = !options.no_logits,
          .tokens_only = options.tokens_only,
          .is_packed = !options.is_unpacked,
          .q8_rows = options.q8_rows,
          .replaces = options.is_forced};
}

Json JsonOf(const std::string& name, const SaveInfo& info) {
  Json json = Json::Object();
  json.Set("name", name)
      .Set("cells", info.cell_count)
      .Set("file_bytes", info.file_bytes)
      .Set("unpacked_bytes", info.unpacked_bytes);
  return json;
}

void PrintSaved(const std::string& name, const SaveInfo& info) {
  std::printf("%s  %llu cells, %s (%s unpacked)\n", name.c_str(),
              static_cast<unsigned long long>(info.cell_count), BytesText(info.file_bytes).c_str(),
              BytesText(info.unpacked_bytes).c_str());
}

// Saves each snapshot of this user, or of the tenant of --tenant, in a file of the snapshot's name.
// A snapshot that cannot be saved is named on standard error, and the others are saved.
Status SaveSnapshots(const GlobalOptions& global, const SavedOptions& options) {
  if (!options.handle.empty() || options.size_only) {
    return Fail(Code::kInvalidArgument, "--all: takes neither a sequence nor --size");
  }
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const std::vector<Snapshot> snapshots, client.Snapshots());
  Json list = Json::Array();
  std::size_t tried = 0;
  std::optional<Error> last_error;
  std::size_t failed = 0;
  for (const Snapshot& snapshot : snapshots) {
    if (!snapshot.is_own) continue;
    ++tried;
    const auto info = client.Save(snapshot.sequence, snapshot.name, ProfileOf(options));
    if (!info) {
      std::fprintf(stderr, "kvctl: %s: %s\n", snapshot.name.c_str(), info.error().message.c_str());
      last_error = info.error();
      ++failed;
      continue;
    }
    if (global.wants_json) {
      list.Add(JsonOf(snapshot.name, *info));
    } else {
      PrintSaved(snapshot.name, *info);
    }
  }
  if (global.wants_json) std::puts(list.Text().c_str());
  if (!last_error) return {};
  return Fail(last_error->code, failed, " of ", tried, " snapshots were not saved");
}

}  // namespace

Status SaveSequence(const GlobalOptions& global, const SavedOptions& options) {
  if (options.saves_all) return SaveSnapshots(global, options);
  if (options.handle.empty()) return Fail(Code::kInvalidArgument, "handle: required without --all");
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const NamedSequence sequence, FindSequence(client, options.handle));
  const std::string& name = options.name.empty() ? sequence.snapshot : options.name;
  if (options.size_only) {
    KVD_TRY(const SaveInfo info, client.SaveSize(sequence.handle, ProfileOf(options)));
    if (global.wants_json) {
      std::puts(JsonOf(options.name, info).Text().c_str());
    } else {
      std::printf("%llu cells, %s unpacked\n", static_cast<unsigned long long>(info.cell_count),
                  BytesText(info.unpacked_bytes).c_str());
    }
    return {};
  }
  if (name.empty()) {
    return Fail(Code::kInvalidArgument, "name: required for a handle without --size");
  }
  KVD_TRY(const SaveInfo info, client.Save(sequence.handle, name, ProfileOf(options)));
  if (global.wants_json) {
    std::puts(JsonOf(name, info).Text().c_str());
  } else {
    PrintSaved(name, info);
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

// kvctl import and export: state files of llama.cpp.

namespace {

Result<std::uint8_t> TypeFrom(const std::string& name) {
  if (name.empty()) return wire::kPoolType;
  if (name == "f32") return std::uint8_t{0};
  if (name == "f16") return std::uint8_t{1};
  if (name == "q4_0") return std::uint8_t{2};
  if (name == "q8_0") return std::uint8_t{8};
  if (name == "bf16") return std::uint8_t{30};
  return Fail(Code::kInvalidArgument, name, ": must be f32, f16, bf16, q8_0 or q4_0");
}

Result<LlamaFileLayout> LayoutFrom(const std::string& name) {
  if (name == "2025") return LlamaFileLayout::k2025;
  if (name == "2026") return LlamaFileLayout::k2026;
  return Fail(Code::kInvalidArgument, "--layout ", name, ": must be 2025 or 2026");
}

// Returns the file's name without folder and extension.
std::string NameFrom(const std::string& path) {
  const std::string file = path.substr(path.rfind('/') + 1);
  const std::size_t dot = file.rfind('.');
  return dot == std::string::npos || dot == 0 ? file : file.substr(0, dot);
}

}  // namespace

// Imports a sequence and publishes it as a snapshot, because a private sequence would end with this
// command's session.
Status ImportFile(const GlobalOptions& global, const LlamaOptions& options) {
  const std::string name = options.name.empty() ? NameFrom(options.path) : options.name;
  KVD_CHECK_OK(wire::ValidateName(name));
  KVD_TRY(const auto file, ReadWholeFile(options.path));
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const auto made, client.ImportLlama(file, {.sequence_id = options.sequence_id,
                                                     .is_unrotated = options.is_unrotated}));
  if (made.size() != 1) return Fail(Code::kCorrupt, "answer: it names no sequence");
  const ImportedSequence& entry = made.front();
  KVD_TRY(const SequenceHandle snapshot,
          client.Publish(entry.handle, name, FlagIf(options.is_forced, wire::kFlagForce)));
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("name", name)
        .Set("sequence", HandleText(snapshot))
        .Set("cells", std::uint64_t{entry.cell_count})
        .Set("tokens_left_out", std::uint64_t{entry.tokens_left_out})
        .Set("cells_left_out", std::uint64_t{entry.cells_left_out})
        .Set("converted", entry.is_converted)
        .Set("bytes", std::uint64_t{file.size()});
    std::puts(json.Text().c_str());
    return {};
  }
  std::printf("%s  %u cells  %s\n", name.c_str(), entry.cell_count, HandleText(snapshot).c_str());
  if (entry.is_converted) std::fprintf(stderr, "K and V converted to the pool's types\n");
  if (entry.tokens_left_out != 0) {
    std::fprintf(stderr, "%u tokens after the last cell left out\n", entry.tokens_left_out);
  }
  if (entry.cells_left_out != 0) {
    std::fprintf(stderr, "%u cells after the last token left out\n", entry.cells_left_out);
  }
  return {};
}

Status ExportFile(const GlobalOptions& global, const LlamaOptions& options) {
  LlamaFileOptions format{.is_session = options.is_session,
                          .is_v_transposed = options.is_v_transposed,
                          .streams = options.streams,
                          .is_unrotated = options.is_unrotated};
  KVD_TRY(format.layout, LayoutFrom(options.layout));
  KVD_TRY(format.k_type, TypeFrom(options.k_type));
  KVD_TRY(format.v_type, TypeFrom(options.v_type));
  // The check comes before the state is transferred; Commit checks again.
  struct stat existing{};
  if (!options.is_forced && ::lstat(options.path.c_str(), &existing) == 0) {
    return Fail(Code::kExists, options.path, ": exists; --force replaces it");
  }
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const NamedSequence sequence, FindSequence(client, options.handle));
  LlamaFileSink sink(options.path);
  KVD_TRY(const std::uint64_t bytes,
          client.ExportLlama(std::span(&sequence.handle, 1), format, sink));
  KVD_CHECK_OK(sink.Commit(options.is_forced ? ExistingFile::kReplace : ExistingFile::kKeep));
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("file", options.path).Set("bytes", bytes);
    std::puts(json.Text().c_str());
  } else {
    std::printf("%s  %s\n", options.path.c_str(), BytesText(bytes).c_str());
  }
  return {};
}

}  // namespace kvd::kvctl
