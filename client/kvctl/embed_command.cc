// kvctl embed: prints a text's embedding, one line for each row.
#include <cstdio>
#include <string>

#include "client/client.h"
#include "client/kvctl/commands.h"
#include "client/kvctl/json_output.h"
#include "client/kvctl/terminal.h"

namespace kvd::kvctl {

Status EmbedText(const GlobalOptions& global, const EmbedOptions& options) {
  std::string text = options.text;
  if (!options.has_text) {
    KVD_TRY(text, ReadStandardInput());
  }
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const auto tokens, client.Tokenize(text, wire::kFlagAddSpecial));
  KVD_TRY(const TextEmbedding embedding,
          client.Embed(tokens, FlagIf(!options.is_raw, wire::kFlagNormalize)));
  Json rows = Json::Array();
  for (std::size_t row = 0; row < embedding.row_count; ++row) {
    Json numbers = Json::Array();
    for (std::size_t i = 0; i < embedding.width; ++i) {
      const float number = embedding.row(row)[i];
      if (global.wants_json) {
        numbers.Add(static_cast<double>(number));
      } else {
        std::printf("%s%.9g", i == 0 ? "" : " ", static_cast<double>(number));
      }
    }
    if (!global.wants_json) std::puts("");
    rows.Add(std::move(numbers));
  }
  if (!global.wants_json) return {};
  Json json = Json::Object();
  json.Set("tokens", std::uint64_t{tokens.size()})
      .Set("normalized", !options.is_raw)
      .Set("rows", std::move(rows));
  std::puts(json.Text().c_str());
  return {};
}

}  // namespace kvd::kvctl
