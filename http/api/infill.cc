#include "http/api/infill.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "http/api/fields.h"
#include "http/api/llama_completion.h"
#include "http/api/route_kinds.h"

namespace kvd::http {
namespace {

// Stands between files of a model without a token for it.
constexpr std::string_view kSnippet = "\n\n--- snippet ---\n\n";

TokenId NumberOf(const ChatTexts& texts, std::string_view name) {
  const std::string* const text = texts.FindToken(name);
  TokenId token = kNoToken;
  if (text != nullptr) std::from_chars(text->data(), text->data() + text->size(), token);
  return token;
}

void Append(std::vector<TokenId>& to, std::span<const TokenId> tokens) {
  to.insert(to.end(), tokens.begin(), tokens.end());
}

// The text must live until the coroutine ends.
Await<Status> AppendText(DaemonSession& session, std::string_view text, std::vector<TokenId>& to) {
  KVD_CO_TRY(const std::vector<TokenId> tokens, co_await session.Tokenize(text, 0));
  Append(to, tokens);
  co_return Status();
}

}  // namespace

InfillTokens InfillTokensOf(const ChatTexts& texts) {
  return {.prefix = NumberOf(texts, "#fim_pre"),
          .suffix = NumberOf(texts, "#fim_suf"),
          .middle = NumberOf(texts, "#fim_mid"),
          .repository = NumberOf(texts, "#fim_rep"),
          .file = NumberOf(texts, "#fim_sep")};
}

Status CheckInfillTokens(const InfillTokens& tokens) {
  std::string missing;
  if (tokens.prefix == kNoToken) missing += "prefix token is missing. ";
  if (tokens.suffix == kNoToken) missing += "suffix token is missing. ";
  if (tokens.middle == kNoToken) missing += "middle token is missing. ";
  if (missing.empty()) return {};
  return Fail(Code::kUnsupported, "Infill is not supported by this model: ", missing);
}

Result<InfillFields> ReadInfillFields(const Value& body) {
  const Fields fields(body);
  InfillFields read;
  for (const char* const name : {"input_prefix", "input_suffix"}) {
    if (!fields.Has(name)) return Fail(Code::kInvalidArgument, "\"", name, "\" is required");
  }
  KVD_TRY(read.prefix, fields.String("input_prefix"));
  KVD_TRY(read.suffix, fields.String("input_suffix"));
  KVD_TRY(read.prompt, fields.String("prompt"));
  KVD_TRY(const Value files, fields.List("input_extra"));
  if (files.is_missing()) return read;
  for (const Value& file : files.items()) {
    const std::string path = Concat("input_extra[", read.files.size(), "]");
    if (!file.is_dict()) {
      return Fail(Code::kInvalidArgument, path, ": an object with \"text\" is needed, not ",
                  Shown(file));
    }
    const Fields members(file, path + ".");
    if (!members.Has("text")) return Fail(Code::kInvalidArgument, path, ".text: is required");
    KVD_TRY(std::string text, members.String("text"));
    KVD_TRY(std::string name, members.String("filename", "tmp"));
    read.files.emplace_back(std::move(name), std::move(text));
  }
  return read;
}

std::vector<TokenId> InfillPrompt(const InfillTokens& tokens, InfillParts parts,
                                  const InfillLimits& limits) {
  const std::int64_t context = limits.context_tokens;
  const std::int64_t batch = std::min<std::int64_t>(limits.batch_tokens, context / 2);
  const auto at_most = [](std::int64_t count, std::size_t most) {
    return std::min(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)), most);
  };
  const auto prompt_tokens = static_cast<std::int64_t>(parts.prompt.size());
  const std::size_t prefix_kept = at_most(3 * (batch / 4), parts.prefix.size());
  const std::size_t suffix_kept = at_most(batch / 4 - (2 + prompt_tokens), parts.suffix.size());
  const std::size_t extra_kept =
      at_most(context - batch - 2 * std::int64_t{limits.predict_max}, parts.extra.size());

  std::vector<TokenId> before = {tokens.prefix}, behind = {tokens.suffix};
  Append(before, std::span(parts.prefix).last(prefix_kept));
  Append(before, parts.prompt);
  Append(behind, std::span(parts.suffix).first(suffix_kept));
  std::vector<TokenId> prompt;
  Append(prompt, std::span(parts.extra).last(extra_kept));
  if (limits.bos != kNoToken) prompt.push_back(limits.bos);
  Append(prompt, limits.is_suffix_first ? behind : before);
  Append(prompt, limits.is_suffix_first ? before : behind);
  prompt.push_back(tokens.middle);
  return prompt;
}

Await<Result<std::vector<TokenId>>> MakeInfillPrompt(TenantSession& tenant,
                                                     const InfillFields& fields) {
  KVD_CO_TRY(const auto session, tenant.session());
  const ServedModel& model = tenant.model();
  const InfillTokens tokens = InfillTokensOf(model.texts());
  KVD_CO_CHECK_OK(CheckInfillTokens(tokens));
  InfillParts parts;
  KVD_CO_CHECK_OK(co_await AppendText(*session, fields.prefix, parts.prefix));
  KVD_CO_CHECK_OK(co_await AppendText(*session, fields.suffix, parts.suffix));
  KVD_CO_TRY(parts.prompt, co_await session->Tokenize(fields.prompt, wire::kFlagParseSpecial));
  if (tokens.repository != kNoToken) {
    parts.extra.push_back(tokens.repository);
    KVD_CO_CHECK_OK(co_await AppendText(*session, "myproject\n", parts.extra));
  }
  for (const auto& [name, text] : fields.files) {
    std::string head(kSnippet);
    if (tokens.file != kNoToken) {
      parts.extra.push_back(tokens.file);
      head = name + "\n";
    }
    KVD_CO_CHECK_OK(co_await AppendText(*session, head, parts.extra));
    KVD_CO_CHECK_OK(co_await AppendText(*session, text, parts.extra));
  }
  if (tokens.file != kNoToken) {
    parts.extra.push_back(tokens.file);
    KVD_CO_CHECK_OK(co_await AppendText(*session, "filename\n", parts.extra));
  }
  InfillLimits limits;
  limits.context_tokens = model.slot_cells();
  limits.predict_max = model.settings().defaults.predict_max;
  if (const std::uint32_t batch = model.settings().batch_tokens; batch != 0) {
    limits.batch_tokens = batch;
  }
  limits.bos = model.info().adds_bos != 0 ? model.info().bos_token : kNoToken;
  limits.is_suffix_first = model.settings().infills_suffix_first;
  co_return InfillPrompt(tokens, std::move(parts), limits);
}

// The route of fill-in-the-middle: POST /infill. Its replies are those of POST /completion.

namespace {

Await<Status> Infill(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(TenantSession* const tenant, TenantOf(call, body));
  KVD_CO_CHECK_OK(CheckInfillTokens(InfillTokensOf(tenant->model().texts())));
  KVD_CO_TRY(const InfillFields fields, ReadInfillFields(body));
  KVD_CO_TRY(CompletionRequest completion, co_await ReadCompletion(*tenant, body, call.responder));
  KVD_CO_TRY(std::vector<TokenId> prompt, co_await MakeInfillPrompt(*tenant, fields));
  completion.prompts.push_back(std::move(prompt));
  co_return co_await SendLlamaCompletion(*tenant, std::move(completion), call.responder);
}

}  // namespace

void AddInfillRoutes(Gateway& gateway, Router& router) {
  AddAnswerRoutes(gateway, router, {"/infill"}, Infill);
}

}  // namespace kvd::http
