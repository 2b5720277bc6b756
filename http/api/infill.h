// Fill-in-the-middle: its prompt, and its route.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "http/answer/tenant_session.h"
#include "http/loop/await.h"
#include "text/chat/chat_texts.h"
#include "text/value.h"

namespace kvd::http {

// The prompt of POST /infill: what stands before and behind a gap in a file, and parts of other
// files, with the model's fill-in-the-middle tokens between them, as llama-server puts them
// together (format_prompt_infill, after https://arxiv.org/pdf/2409.12186):
//
//   [REPO] myproject [SEP] FILENAME TEXT ... [SEP] filename [PRE] prefix prompt [SUF] suffix [MID]

// The model's tokens; kNoToken: it has none.
struct InfillTokens {
  TokenId prefix = kNoToken;
  TokenId suffix = kNoToken;
  TokenId middle = kNoToken;
  TokenId repository = kNoToken;
  TokenId file = kNoToken;
};
InfillTokens InfillTokensOf(const ChatTexts& texts);
// Errors: kUnsupported: the model lacks tokens; the message names them.
Status CheckInfillTokens(const InfillTokens& tokens);

struct InfillFields {
  std::string prefix;                                      // input_prefix
  std::string suffix;                                      // input_suffix
  std::string prompt;                                      // the beginning of the text for the gap
  std::vector<std::pair<std::string, std::string>> files;  // input_extra: name and text
};
// Errors: kInvalidArgument, with the field's name.
Result<InfillFields> ReadInfillFields(const Value& body);

// The texts of the fields as tokens.
struct InfillParts {
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  std::vector<TokenId> prompt;
  std::vector<TokenId> extra;  // repository and files, complete
};
struct InfillLimits {
  std::uint32_t context_tokens = 0;   // of a slot
  std::int32_t predict_max = -1;      // of the settings
  std::uint32_t batch_tokens = 2048;  // --batch-size
  TokenId bos = kNoToken;             // kNoToken: none is added
  bool is_suffix_first = false;       // --spm-infill
};
// Cuts the parts to fit the context and puts them together. The limits are llama-server's, but a
// batch is at most half of the context: 3/4 of a batch for the prefix, 1/4 for the suffix, and the
// end of the extra tokens in the rest.
std::vector<TokenId> InfillPrompt(const InfillTokens& tokens, InfillParts parts,
                                  const InfillLimits& limits);

// Reads, tokenizes and puts together. Errors: as above, and those of the session.
Await<Result<std::vector<TokenId>>> MakeInfillPrompt(TenantSession& tenant,
                                                     const InfillFields& fields);

}  // namespace kvd::http
