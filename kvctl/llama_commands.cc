// kvctl import and export: state files of llama.cpp.
#include <cstdio>
#include <string>
#include <vector>

#include "base/whole_file.h"
#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/terminal.h"
#include "llama_files/llama_file_sink.h"
#include "shm/wire_check.h"
#include "text/json_builder.h"

namespace kvd::kvctl {
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
  KVD_TRY(const SequenceHandle handle, ParseHandle(options.handle));
  KVD_TRY(const Client client, Client::Connect(global.connect));
  LlamaFileSink sink(options.path);
  KVD_TRY(const std::uint64_t bytes, client.ExportLlama(std::span(&handle, 1), format, sink));
  KVD_CHECK_OK(sink.Commit());
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
