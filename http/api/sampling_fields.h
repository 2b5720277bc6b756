// The fields of a request that decide how tokens are drawn and when an answer ends: llama-server's
// own ones, which the routes of OpenAI and Anthropic take as well.
//
// Names and meanings are llama-server's. A number outside of a range that llama-server enforces is
// refused; one that it moves into the range is moved (temperature, top_k, top_p, min_p, ...).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "http/answer/answer_request.h"
#include "http/answer/tenant_session.h"
#include "http/api/fields.h"
#include "http/loop/await.h"
#include "http/options/settings.h"

namespace kvd::http {

// A request with the defaults of the command line, without a prompt.
AnswerRequest DefaultRequest(const Settings& settings);

// A member of logit_bias: a token or a text, each of whose tokens gets the bias.
struct BiasField {
  std::variant<TokenId, std::string> what;
  float bias = 0;
};

// What must be tokenized before it can be used.
struct UnreadTexts {
  std::vector<BiasField> biases;
  std::vector<std::string> preserved_tokens;  // texts that a trigger means as one token
};

// Sets the members of `request` that the fields name, but for the biases and the schema. Errors:
// kInvalidArgument, with the field's name.
Result<UnreadTexts> ReadSamplingFields(const Fields& fields, AnswerRequest& request);

// Reads "grammar" and "json_schema" into request.grammar. `default_schema`: of a request without
// both; may be missing. Errors: kInvalidArgument, with the field's name, and the part of the
// schema.
Status ReadGrammarFields(const Fields& fields, const Value& default_schema, AnswerRequest& request);

// Tokenizes the texts and sets the biases, at most wire::kBiasesMax. Errors: kInvalidArgument;
// those of the session.
Await<Status> ReadTexts(TenantSession& tenant, UnreadTexts texts, AnswerRequest& request);

// The whole request but for its prompt and grammar. `body` is a dict. Errors: as above.
Await<Result<AnswerRequest>> ReadAnswerRequest(TenantSession& tenant, const Value& body);

// A grammar of a JSON Schema. Errors: kInvalidArgument, with `name` in front.
Result<std::string> GrammarOfSchema(std::string_view name, const Value& schema);

}  // namespace kvd::http
