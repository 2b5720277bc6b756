// The commands on the prefix cache: what it keeps, and what of a prompt could be reused.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "client/client.h"
#include "kvctl/chat_prompt.h"
#include "kvctl/commands.h"
#include "kvctl/sequence_names.h"
#include "kvctl/terminal.h"
#include "text/json_builder.h"

namespace kvd::kvctl {

// kvctl warm, pin, unpin, drop --retained.

namespace {

// Reads also what is no regular file, such as a pipe of the shell.
Result<std::string> ReadFile(const std::string& path) {
  if (path == "-") return ReadStandardInput();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return Fail(Code::kIo, "file: '", path, "': cannot be read, or is empty");
  }
  return std::move(text).str();
}

Result<std::vector<TokenId>> ContextTokens(const Client& client, const WarmOptions& options,
                                           const std::optional<std::string>& text) {
  if (options.chat.is_chat) {
    KVD_TRY(const ChatTexts texts, client.ChatTemplates());
    KVD_TRY(ChatPrompt chat, MakeChatPrompt(texts, options.chat, text, ChatEnd::kContext));
    return ChatTokens(client, texts, std::move(chat.text), true);
  }
  const auto flags = static_cast<std::uint16_t>(
      wire::kFlagAddSpecial | FlagIf(options.parses_special, wire::kFlagParseSpecial));
  return client.Tokenize(text.value_or(""), flags);
}

// Computes the tokens in the new sequence and shows the progress.
Result<wire::GenerateResult> ComputeContext(Sequence& sequence, std::span<const TokenId> tokens) {
  ProgressBar progress;
  KVD_TRY(Generation computing,
          sequence.Generate(
              {.tokens = tokens, .predict_max = 0, .wants_progress = progress.is_shown()}));
  for (;;) {
    KVD_TRY(const auto piece, computing.Next());
    if (!piece) return computing.result();
    if (piece->kind == wire::kPieceProgress) progress.Show(piece->done, piece->total);
  }
}

// Where the computed context stays.
struct KeptContext {
  SequenceHandle handle = SequenceHandle::kNone;
  bool is_retained = false;
  bool is_published = false;
};

Result<KeptContext> KeepContext(const Client& client, Sequence& sequence,
                                const WarmOptions& options) {
  if (!options.keep_as.empty()) {
    KVD_TRY(const SequenceHandle snapshot,
            client.Publish(sequence.handle(), options.keep_as,
                           FlagIf(options.replaces, wire::kFlagForce),
                           {.ttl_seconds = options.ttl_seconds}));
    return KeptContext{.handle = snapshot, .is_published = true};
  }
  if (options.is_pinned) KVD_CHECK_OK(client.Call(wire::PinArgs{sequence.handle(), true}));
  const SequenceHandle handle = sequence.Detach();
  KVD_TRY(const bool stays, client.Retain(handle));
  return KeptContext{.handle = stays ? handle : SequenceHandle::kNone, .is_retained = stays};
}

std::string KeptText(const KeptContext& kept, const std::string& name) {
  if (kept.is_published) return "kept as snapshot " + name;
  if (kept.is_retained) return "kept as sequence " + HandleText(kept.handle);
  return "not kept: too few, or another sequence holds the same tokens";
}

}  // namespace

Status WarmPrefix(const GlobalOptions& global, const WarmOptions& options) {
  std::optional<std::string> text;
  if (!options.file.empty()) {
    KVD_TRY(text, ReadFile(options.file));
  } else if (!options.chat.is_chat) {
    return Fail(Code::kInvalidArgument, "file: required without --chat");
  }
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const auto tokens, ContextTokens(client, options, text));
  if (tokens.empty()) return Fail(Code::kInvalidArgument, "file: empty");
  KVD_TRY(Sequence sequence, client.NewSequence());
  KVD_TRY(const wire::GenerateResult computed, ComputeContext(sequence, tokens));
  KVD_TRY(const KeptContext kept, KeepContext(client, sequence, options));
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("sequence",
             kept.handle == SequenceHandle::kNone ? std::string() : HandleText(kept.handle))
        .Set("is_retained", kept.is_retained)
        .Set("kept_as", options.keep_as)
        .Set("tokens", std::uint64_t{tokens.size()})
        .Set("tokens_computed", std::uint64_t{computed.prompt_computed})
        .Set("tokens_shared", std::uint64_t{computed.prompt_shared})
        .Set("shared_from",
             std::string(PrefixOriginName(static_cast<PrefixOrigin>(computed.shared_origin))))
        .Set("share_limit",
             std::string(PrefixLimitName(static_cast<PrefixLimit>(computed.share_limit))));
    std::puts(json.Text().c_str());
    return {};
  }
  std::printf("%zu tokens, %u of them computed; %s\n", tokens.size(), computed.prompt_computed,
              KeptText(kept, options.keep_as).c_str());
  return {};
}

Status PinSequences(const GlobalOptions& global, const PrefixFlags& options, bool is_pinned) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const auto sequences, FindSequences(client, options.handles));
  for (const auto& [handle, name] : sequences) {
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
