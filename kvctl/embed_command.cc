// kvctl embed: prints the embeddings of texts, one line for each row. kvctl rank: prints the score
// of each document for a query, best first.
#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/terminal.h"
#include "text/json_builder.h"

namespace kvd::kvctl {
namespace {

using Tokens = std::vector<TokenId>;

// A request has at most this many texts, so that their rows fit into the result arena.
constexpr std::size_t kTextsPerRequest = 64;

std::vector<std::string> LinesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end != 0) lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Returns the texts of the command line; without any, those of standard input: each line that is
// not empty, or the whole input as one text.
Result<std::vector<std::string>> TextsOf(const std::vector<std::string>& arguments, bool by_line) {
  if (!arguments.empty()) return arguments;
  KVD_TRY(std::string text, ReadStandardInput());
  std::vector<std::string> texts = by_line ? LinesOf(text) : std::vector{std::move(text)};
  if (texts.empty()) return Fail(Code::kInvalidArgument, "standard input: no lines");
  return texts;
}

Result<std::optional<wire::PoolingChoice>> PoolingNamed(const std::string& name) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "mean", "cls", "last", "rank"};
  if (name.empty()) return std::nullopt;
  const auto at = std::ranges::find(kNames, name);
  if (at != kNames.end()) return static_cast<wire::PoolingChoice>(at - kNames.begin());
  return Fail(Code::kInvalidArgument, "--pooling: ", name,
              ", must be none, mean, cls, last or rank");
}

void PrintRows(const TextEmbedding& embedding) {
  for (std::size_t row = 0; row < embedding.row_count; ++row) {
    for (std::size_t i = 0; i < embedding.width; ++i) {
      std::printf("%s%.9g", i == 0 ? "" : " ", static_cast<double>(embedding.row(row)[i]));
    }
    std::puts("");
  }
}

Json JsonOf(const TextEmbedding& embedding, std::size_t token_count) {
  Json rows = Json::Array();
  for (std::size_t row = 0; row < embedding.row_count; ++row) {
    Json numbers = Json::Array();
    for (const float number : embedding.row(row)) numbers.Add(static_cast<double>(number));
    rows.Add(std::move(numbers));
  }
  Json json = Json::Object();
  json.Set("tokens", std::uint64_t{token_count}).Set("rows", std::move(rows));
  return json;
}

}  // namespace

Status EmbedTexts(const GlobalOptions& global, const EmbedOptions& options) {
  KVD_TRY(const auto pooling, PoolingNamed(options.pooling));
  KVD_TRY(const std::vector<std::string> texts, TextsOf(options.texts, options.by_line));
  KVD_TRY(const Client client, Client::Connect(global.connect));
  bool is_normalised = false;
  Json rows = Json::Array();
  for (std::size_t first = 0; first < texts.size(); first += kTextsPerRequest) {
    const std::size_t count = std::min(kTextsPerRequest, texts.size() - first);
    std::vector<Tokens> tokens(count);
    for (std::size_t i = 0; i < count; ++i) {
      KVD_TRY(tokens[i], client.Tokenize(texts[first + i], wire::kFlagAddSpecial));
    }
    const std::vector<std::span<const TokenId>> views(tokens.begin(), tokens.end());
    const auto result = client.Embed(views, pooling, FlagIf(!options.is_raw, wire::kFlagNormalize));
    if (!result && first != 0) {
      // The index of a text in the error counts from the request's first text.
      return Fail(result.error().code, "after the first ", first,
                  " texts: ", result.error().message);
    }
    KVD_TRY(const std::vector<TextEmbedding> embeddings, result);
    is_normalised = embeddings.front().is_normalised;
    for (std::size_t i = 0; i < count; ++i) {
      if (global.wants_json) {
        rows.Add(JsonOf(embeddings[i], tokens[i].size()));
      } else {
        PrintRows(embeddings[i]);
      }
    }
  }
  if (!global.wants_json) return {};
  Json json = Json::Object();
  json.Set("normalized", is_normalised).Set("texts", std::move(rows));
  std::puts(json.Text().c_str());
  return {};
}

Status RankDocuments(const GlobalOptions& global, const RankOptions& options) {
  KVD_TRY(const std::vector<std::string> documents, TextsOf(options.documents, true));
  KVD_TRY(const Client client, Client::Connect(global.connect));
  const std::vector<std::string_view> views(documents.begin(), documents.end());
  KVD_TRY(const std::vector<float> scores, client.Rank(options.query, views));
  if (global.wants_json) {
    Json numbers = Json::Array();
    for (const float score : scores) numbers.Add(static_cast<double>(score));
    Json json = Json::Object();
    json.Set("scores", std::move(numbers));
    std::puts(json.Text().c_str());
    return {};
  }
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return scores[i]; });
  for (const std::size_t i : order) {
    std::printf("%.9g %s\n", static_cast<double>(scores[i]), documents[i].c_str());
  }
  return {};
}

}  // namespace kvd::kvctl
