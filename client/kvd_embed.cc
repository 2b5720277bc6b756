// The functions of kvd.h that compute texts without continuing them: embeddings, the scores of a
// reranker, and the encoded text that a sequence attends to.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "client/c_api.h"
#include "client/kvd.h"

namespace kvd {
namespace {

static_assert(static_cast<int>(wire::PoolingChoice::kRank) == KVD_POOLING_RANK);

Result<std::optional<wire::PoolingChoice>> PoolingFrom(int pooling) {
  if (pooling < KVD_POOLING_DEFAULT || pooling > KVD_POOLING_RANK) {
    return Fail(Code::kInvalidArgument, "pooling: ", pooling, ", must be -1 to 4");
  }
  if (pooling == KVD_POOLING_DEFAULT) return std::nullopt;
  return static_cast<wire::PoolingChoice>(pooling);
}

}  // namespace
}  // namespace kvd

using namespace kvd;

int kvd_embed(kvd_client* client, const kvd_token_list* texts, size_t text_count, int pooling,
              uint32_t flags, float** values, size_t* row_count, size_t* row_floats,
              kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(texts, "texts"));
    KVD_CHECK_OK(NotNull(values, "values"));
    KVD_CHECK_OK(NotNull(row_count, "row_count"));
    KVD_CHECK_OK(NotNull(row_floats, "row_floats"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_NORMALIZE));
    KVD_TRY(const auto choice, PoolingFrom(pooling));
    if (text_count < 1 || text_count > wire::kEmbedTextsMax) {
      return Fail(Code::kInvalidArgument, "text_count: ", text_count, ", must be 1 to ",
                  wire::kEmbedTextsMax);
    }
    std::vector<std::span<const TokenId>> lists;
    for (std::size_t i = 0; i < text_count; ++i) {
      KVD_CHECK_OK(NotNull(texts[i].tokens, "texts.tokens"));
      lists.emplace_back(texts[i].tokens, texts[i].token_count);
    }
    std::size_t token_count = 0;
    for (const auto list : lists) token_count += list.size();
    const std::span<const std::span<const TokenId>> views(lists);
    return Ask(client, later, wire::EmbedArgs{.pooling = choice}, TokenListsPayload(views),
               wire_flags, [=](const wire::EmbedReply& reply) -> Status {
                 KVD_CHECK_OK(CheckEmbedding(reply, text_count, token_count));
                 *values = CopyForCaller(reply.values.data(), reply.values.size());
                 *row_count = reply.rows;
                 *row_floats = reply.width;
                 return {};
               });
  });
}

int kvd_rank(kvd_client* client, const char* query, const char* const* documents,
             size_t document_count, float* scores, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(query, "query"));
    KVD_CHECK_OK(NotNull(documents, "documents"));
    KVD_CHECK_OK(NotNull(scores, "scores"));
    if (document_count < 1 || document_count > wire::kRankDocumentsMax) {
      return Fail(Code::kInvalidArgument, "document_count: ", document_count, ", must be 1 to ",
                  wire::kRankDocumentsMax);
    }
    std::vector<std::string_view> texts = {query};
    for (std::size_t i = 0; i < document_count; ++i) {
      KVD_CHECK_OK(NotNull(documents[i], "documents"));
      texts.emplace_back(documents[i]);
    }
    const std::span<const std::string_view> views(texts);
    return Ask(client, later, wire::RankArgs{}, TextsPayload(views), 0,
               [=](const wire::RankReply& reply) -> Status {
                 KVD_CHECK_OK(CheckScores(reply, document_count));
                 std::ranges::copy(reply.scores, scores);
                 return {};
               });
  });
}

int kvd_encode(kvd_client* client, kvd_sequence sequence, const kvd_token* tokens,
               size_t token_count, kvd_token* start_token, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(tokens, "tokens"));
    const auto payload = std::as_bytes(std::span(tokens, token_count));
    return Ask(client, later, wire::EncodeArgs{HandleFrom(sequence)}, PayloadOf(payload), 0,
               [=](const wire::EncodeReply& reply) -> Status {
                 if (start_token != nullptr) *start_token = reply.start_token.value_or(-1);
                 return {};
               });
  });
}
