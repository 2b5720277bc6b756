#include "engine/vocabulary/rank_tokens.h"

#include <algorithm>
#include <string>

namespace kvd {
namespace {

constexpr std::string_view kQuery = "{query}";
constexpr std::string_view kDocument = "{document}";

// The template with the query and the document in their places. Places within the query or the
// document are not replaced.
std::string Filled(std::string_view text, std::string_view query, std::string_view document) {
  std::string filled;
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(kQuery), text.find(kDocument));
    filled += text.substr(0, at);
    if (at == std::string_view::npos) break;
    text.remove_prefix(at);
    const bool is_query = text.starts_with(kQuery);
    filled += is_query ? query : document;
    text.remove_prefix(is_query ? kQuery.size() : kDocument.size());
  }
  return filled;
}

}  // namespace

Result<std::vector<TokenId>> RankTokens(const Vocabulary& vocabulary, std::string_view query,
                                        std::string_view document, WorkControl& work) {
  const std::string_view rank_template = vocabulary.TemplateText("rerank");
  if (!rank_template.empty()) {
    return vocabulary.Tokenize(Filled(rank_template, query, document),
                               {.add_special = false, .parse_special = true}, work);
  }
  const SpecialTokens& special = vocabulary.special();
  std::vector<TokenId> tokens;
  const auto append = [&](std::string_view text) -> Status {
    KVD_TRY(const std::vector<TokenId> more, vocabulary.Tokenize(text, {}, work));
    tokens.insert(tokens.end(), more.begin(), more.end());
    return {};
  };
  if (special.add_bos) tokens.push_back(special.bos);
  KVD_CHECK_OK(append(query));
  if (special.add_eos) tokens.push_back(special.eos);
  if (special.add_sep) tokens.push_back(special.sep);
  KVD_CHECK_OK(append(document));
  if (special.add_eos) {
    tokens.push_back(special.eos);
  } else if (special.add_sep) {
    tokens.push_back(special.sep);
  }
  return tokens;
}

}  // namespace kvd
