// kvctl warm, pin, unpin, drop --retained.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/terminal.h"
#include "text/json_builder.h"

namespace kvd::kvctl {
namespace {

Result<std::string> ReadFile(const std::string& path) {
  if (path == "-") return ReadStandardInput();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return Fail(Code::kIo, "file: '", path, "': cannot be read, or is empty");
  }
  return std::move(text).str();
}

}  // namespace

Status WarmPrefix(const GlobalOptions& global, const PrefixOptions& options) {
  KVD_TRY(const std::string text, ReadFile(options.file));
  KVD_TRY(const Client client, Client::Connect(global.connect));
  const auto flags = static_cast<std::uint16_t>(
      wire::kFlagAddSpecial | FlagIf(options.parses_special, wire::kFlagParseSpecial));
  KVD_TRY(const auto tokens, client.Tokenize(text, flags));
  KVD_TRY(Sequence sequence, client.NewSequence());
  KVD_TRY(const Logits computed, sequence.Decode(tokens, Pos{0}, wire::LogitsWanted::kNone));
  if (options.is_pinned) KVD_CHECK_OK(client.Call(wire::PinArgs{sequence.handle(), true}));
  const PrefixReuse reuse = computed.reuse();
  const SequenceHandle handle = sequence.Detach();
  KVD_TRY(const bool stays, client.Retain(handle));
  const std::uint64_t computed_tokens = tokens.size() - reuse.tokens;
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("sequence", stays ? HandleText(handle) : std::string())
        .Set("is_retained", stays)
        .Set("tokens", std::uint64_t{tokens.size()})
        .Set("tokens_computed", computed_tokens)
        .Set("tokens_shared", std::uint64_t{reuse.tokens})
        .Set("shared_from", std::string(PrefixOriginName(reuse.origin)))
        .Set("share_limit", std::string(PrefixLimitName(reuse.limit)));
    std::puts(json.Text().c_str());
    return {};
  }
  std::printf("%zu tokens, %llu of them computed; %s\n", tokens.size(),
              static_cast<unsigned long long>(computed_tokens),
              stays ? ("kept as sequence " + HandleText(handle)).c_str()
                    : "not kept: too few, or another sequence holds the same tokens");
  return {};
}

Status PinSequences(const GlobalOptions& global, const PrefixOptions& options, bool is_pinned) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  for (const std::string& text : options.handles) {
    KVD_TRY(const SequenceHandle handle, ParseHandle(text));
    KVD_CHECK_OK(client.Call(wire::PinArgs{handle, is_pinned}, {},
                             FlagIf(options.is_forced, wire::kFlagForce)));
  }
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("sequences", std::uint64_t{options.handles.size()}).Set("is_pinned", is_pinned);
    std::puts(json.Text().c_str());
  }
  return {};
}

Status DropSequences(const GlobalOptions& global, const PrefixOptions& options) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const wire::DropRetainedReply dropped,
          client.Call(wire::DropRetainedArgs{}, {}, FlagIf(options.is_forced, wire::kFlagForce)));
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("dropped", dropped.count);
    std::puts(json.Text().c_str());
  } else {
    std::printf("%llu dropped\n", static_cast<unsigned long long>(dropped.count));
  }
  return {};
}

}  // namespace kvd::kvctl
