// The commands on the prefix cache: what it keeps, and what of a prompt could be reused.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/text.h"
#include "client/client.h"
#include "kvctl/chat_prompt.h"
#include "kvctl/commands.h"
#include "kvctl/terminal.h"
#include "text/json_builder.h"

namespace kvd::kvctl {

// kvctl warm, pin, unpin, drop --retained.

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

Status WarmPrefix(const GlobalOptions& global, const PrefixFlags& options) {
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

Status PinSequences(const GlobalOptions& global, const PrefixFlags& options, bool is_pinned) {
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

Status DropSequences(const GlobalOptions& global, const PrefixFlags& options) {
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

// kvctl why: shows how many tokens of a prompt could be reused, from which sequence, and the first
// token that differs.

namespace {

template <std::size_t N>
std::string TextOf(const char (&field)[N]) {
  return {field, ::strnlen(field, N)};
}

std::string HandleOrEmpty(std::uint64_t handle) {
  return handle == 0 ? std::string() : HandleText(static_cast<SequenceHandle>(handle));
}

// Returns the text for one differing token, or `at_end` if there is no token because the prompt or
// the sequence ends.
std::string SideOf(std::int32_t token, const std::string& text, const char* at_end) {
  if (token < 0) return at_end;
  return Concat("token ", token, ", \"", text, "\"");
}

void PrintJson(const wire::WhyRecord& found) {
  Json json = Json::Object();
  json.Set("prompt_tokens", std::uint64_t{found.prompt_tokens})
      .Set("tokens_reused", std::uint64_t{found.reused})
      .Set("source", HandleOrEmpty(found.source))
      .Set("shared_from", std::string(PrefixOriginName(static_cast<PrefixOrigin>(found.origin))))
      .Set("share_limit", std::string(PrefixLimitName(static_cast<PrefixLimit>(found.limit))))
      .Set("tokens_on_disk", std::uint64_t{found.on_disk})
      .Set("nearest", HandleOrEmpty(found.nearest))
      .Set("tokens_in_common", std::uint64_t{found.common})
      .Set("prompt_token", std::int64_t{found.prompt_token})
      .Set("prompt_text", TextOf(found.prompt_text))
      .Set("cached_token", std::int64_t{found.cached_token})
      .Set("cached_text", TextOf(found.cached_text));
  std::puts(json.Text().c_str());
}

Result<std::vector<TokenId>> PromptTokens(const Client& client, const TextOptions& options) {
  const std::optional<std::string> given =
      options.has_text ? std::optional(options.text) : std::nullopt;
  if (options.chat.is_chat) {
    KVD_TRY(const ChatTexts texts, client.ChatTemplates());
    KVD_TRY(ChatPrompt chat, MakeChatPrompt(texts, options.chat, given));
    return ChatTokens(client, texts, std::move(chat.text), true);
  }
  std::string text = options.text;
  if (!options.has_text) {
    KVD_TRY(text, ReadStandardInput());
  }
  const auto flags = static_cast<std::uint16_t>(
      wire::kFlagAddSpecial | FlagIf(options.parses_special, wire::kFlagParseSpecial));
  return client.Tokenize(text, flags);
}

}  // namespace

Status ExplainPrompt(const GlobalOptions& global, const TextOptions& options) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const std::vector<TokenId> tokens, PromptTokens(client, options));
  if (tokens.empty()) return Fail(Code::kInvalidArgument, "prompt: empty");
  const auto payload = std::as_bytes(std::span(tokens));
  KVD_TRY(const auto reply, client.Call(wire::WhyArgs{}, PayloadOf(payload)));
  const wire::WhyRecord& found = reply.record;
  if (global.wants_json) {
    PrintJson(found);
    return {};
  }
  const std::string limit(PrefixLimitName(static_cast<PrefixLimit>(found.limit)));
  std::printf("%u tokens, of which %u could be reused", found.prompt_tokens, found.reused);
  if (found.reused > 0) {
    const std::string origin(PrefixOriginName(static_cast<PrefixOrigin>(found.origin)));
    std::printf(" from sequence %s (%s)", HandleOrEmpty(found.source).c_str(), origin.c_str());
  }
  std::printf("; why not more: %s\n", limit.c_str());
  if (found.on_disk > 0) std::printf("the prompt cache on disk has %u tokens\n", found.on_disk);
  if (found.nearest == 0) {
    std::puts("no cached sequence begins like the prompt");
    return {};
  }
  std::printf("sequence %s has the same first %u tokens, followed by\n",
              HandleOrEmpty(found.nearest).c_str(), found.common);
  std::printf("  prompt: %s\n",
              SideOf(found.prompt_token, TextOf(found.prompt_text), "ends").c_str());
  std::printf("  cached: %s\n",
              SideOf(found.cached_token, TextOf(found.cached_text), "ends").c_str());
  return {};
}

}  // namespace kvd::kvctl
