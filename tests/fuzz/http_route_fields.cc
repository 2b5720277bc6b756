// Texts of JSON are raw strings. The first value of each type is a usual one.
#include "tests/fuzz/http_route_fields.h"

#include <array>

namespace kvd::test {
namespace {

using Kind = FieldType::Kind;

template <std::size_t kCount>
constexpr FieldType Texts(const std::string_view (&texts)[kCount]) {
  return {.kind = Kind::kTexts, .texts = texts};
}
template <std::size_t kCount>
constexpr FieldType OneOf(const FieldType* const (&types)[kCount]) {
  return {.kind = Kind::kOneOf, .types = types};
}
template <std::size_t kCount>
constexpr FieldType ListOf(const FieldType* const (&types)[kCount]) {
  return {.kind = Kind::kList, .types = types};
}
constexpr FieldType ObjectOf(std::span<const Field> fields, std::span<const Field> more = {},
                             std::span<const Field> further = {}) {
  return {.kind = Kind::kObject, .fields = fields, .more_fields = more, .further_fields = further};
}

// ------------------------------------------------------------------------------ simple values
constexpr std::string_view kBoolTexts[] = {"true", "false"};
constexpr FieldType kBool = Texts(kBoolTexts);
constexpr std::string_view kNumberTexts[] = {"0.5",  "0",    "1",     "-1",   "1.5",   "2",
                                             "-0.0", "100",  "1e38",  "1e-9", "1e308", "-1e308",
                                             "0.1",  "1e39", "0.999", "3.0"};
constexpr FieldType kNumber = Texts(kNumberTexts);
constexpr std::string_view kIntTexts[] = {"1",
                                          "0",
                                          "2",
                                          "3",
                                          "-1",
                                          "4",
                                          "16",
                                          "64",
                                          "65",
                                          "1.0",
                                          "1.5",
                                          "2147483647",
                                          "2147483648",
                                          "-2147483648",
                                          "4294967295",
                                          "4294967296",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "9223372036854775808",
                                          "1e300"};
constexpr FieldType kInt = Texts(kIntTexts);
constexpr std::string_view kPredictTexts[] = {"4",  "2",  "1",   "0",  "8",
                                              "-1", "16", "300", "-2", "2147483647"};
constexpr FieldType kPredict = Texts(kPredictTexts);
constexpr std::string_view kCountTexts[] = {"1", "2", "3", "0", "5", "128", "129", "-1"};
constexpr FieldType kCount = Texts(kCountTexts);
constexpr std::string_view kTextTexts[] = {
    R"("a")",
    R"("hello world")",
    R"("")",
    R"("\u0000")",
    R"("é😀")",
    R"("\ud83d\ude00b")",
    R"("<think>")",
    R"("a</think>b")",
    R"("<s>a")",
    R"("</s>")",
    R"("<|im_end|>\n")",
    R"("{\"x\": 1}")",
    R"("{{ x }}")",
    R"("[TOOL_CALLS]f[ARGS]{}")",
    R"("line\r\nline\n\n")",
    R"("<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>")",
    R"("\u0001kvd-end\u0001")",
    R"("a rather long text that has more than sixty bytes, as an error shows only some of them")"};
constexpr FieldType kText = Texts(kTextTexts);
constexpr const FieldType* kTextTypes[] = {&kText};
constexpr FieldType kTextList = ListOf(kTextTypes);
constexpr const FieldType* kTextsTypes[] = {&kText, &kTextList};
constexpr FieldType kTextOrList = OneOf(kTextsTypes);
constexpr std::string_view kAnyTexts[] = {R"("a")",    "1",
                                          "null",      "{}",
                                          "[]",        R"({"a":[1,"b",null]})",
                                          "true",      "-0.5",
                                          R"([[[]]])", R"({"a":{"b":{"c":[{}]}}})"};
constexpr FieldType kAny = Texts(kAnyTexts);
constexpr std::string_view kTokenTexts[] = {"97", "98",  "0",   "256",  "257",  "258",
                                            "-1", "312", "311", "97.0", "97.5", "1e300"};
constexpr FieldType kToken = Texts(kTokenTexts);
constexpr const FieldType* kTokenOrTextTypes[] = {&kToken, &kText};
constexpr FieldType kTokenOrText = OneOf(kTokenOrTextTypes);
constexpr const FieldType* kTokenTypes[] = {&kToken};
constexpr FieldType kTokenList = ListOf(kTokenTypes);
constexpr const FieldType* kMixTypes[] = {&kTokenOrText};
constexpr FieldType kMix = ListOf(kMixTypes);

#define KVD_RESPONSE_ID(step) "resp_000000000000000" step "0000000060000000"
constexpr std::string_view kIds[] = {KVD_RESPONSE_ID("1"),
                                     KVD_RESPONSE_ID("2"),
                                     KVD_RESPONSE_ID("3"),
                                     KVD_RESPONSE_ID("4"),
                                     "c",
                                     "d",
                                     "c::1",
                                     "snapshot",
                                     "resp_0",
                                     "resp_ffffffffffffffffffffffffffffffff",
                                     "../x",
                                     "a b"};
constexpr std::string_view kIdTexts[] = {"\"" KVD_RESPONSE_ID("1") "\"",
                                         "\"" KVD_RESPONSE_ID("2") "\"",
                                         "\"c\"",
                                         "\"d\"",
                                         "\"" KVD_RESPONSE_ID("3") "\"",
                                         "\"" KVD_RESPONSE_ID("4") "\"",
                                         "\"c::1\"",
                                         "\"snapshot\"",
                                         "\"resp_0\"",
                                         "\"resp_ffffffffffffffffffffffffffffffff\"",
                                         "\"../x\"",
                                         "\"\""};
constexpr FieldType kId = Texts(kIdTexts);
constexpr std::string_view kModelTexts[] = {R"("scripted")", R"("other")", R"("")", R"("unknown")"};
constexpr FieldType kModel = Texts(kModelTexts);

// ------------------------------------------------------------------- schemas, grammars, programs
constexpr std::string_view kSchemaTexts[] = {
    R"({"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]})",
    "{}",
    "true",
    "false",
    R"({"const":1})",
    R"({"enum":["a","b"]})",
    R"({"type":"string"})",
    R"({"type":"string","pattern":"^a+$","minLength":1})",
    R"({"pattern":"("})",
    R"({"$ref":"#"})",
    R"({"$ref":"#/nothing"})",
    R"({"type":"nothing"})",
    R"({"enum":[]})",
    R"({"type":"array","items":{"type":"number"},"maxItems":2})",
    R"({"$defs":{"n":{"type":"array","items":{"$ref":"#/$defs/n"}}},"$ref":"#/$defs/n"})",
    R"({"anyOf":[{"type":"null"},{"type":"boolean"}]})",
    R"({"allOf":[{"minimum":2},{"maximum":1}]})",
    R"({"type":["object","null"],"additionalProperties":false})",
    R"({"properties":5})",
    R"({"type":"object","properties":{"x":{"type":"string"},"y":{"type":"array"}}})"};
constexpr FieldType kSchema = Texts(kSchemaTexts);
constexpr std::string_view kGrammarTexts[] = {R"("root ::= \"a\"")", R"("")", R"("root ::=")",
                                              R"("x ::= \"a\"")", R"("root ::= [a-z]+")"};
constexpr FieldType kGrammar = Texts(kGrammarTexts);
constexpr std::string_view kTriggerTypeTexts[] = {"1", "0", "2", "3", "4"};
constexpr FieldType kTriggerType = Texts(kTriggerTypeTexts);
constexpr Field kTriggerFields[] = {
    {"type", &kTriggerType, true}, {"value", &kText, true}, {"token", &kToken, true}};
constexpr FieldType kTrigger = ObjectOf(kTriggerFields);
constexpr const FieldType* kTriggerTypes[] = {&kTrigger};
constexpr FieldType kTriggers = ListOf(kTriggerTypes);
constexpr std::string_view kTemplateTexts[] = {
    R"("chatml")",
    R"("llama2")",
    R"("")",
    R"("nothing")",
    R"("{{ messages[0].content }}")",
    R"("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")",
    R"("{{ messages[-1].content }}{{ messages[-1].content }}")",
    R"("{% for %}")",
    R"("{{ raise_exception('no') }}")",
    R"("{{ '' }}")",
    R"("{{ messages[-1].content.nothing.x }}")",
    R"("{{ messages | tojson }}<tool_call>\"arguments</think>")",
    R"("{% set x = namespace() %}")",
    R"("{{ bos_token }}{{ tools }}{{ documents }}{{ reasoning_effort }}")"};
constexpr FieldType kTemplate = Texts(kTemplateTexts);

// ------------------------------------------------------------------------------------- sampling
constexpr std::string_view kSamplersTexts[] = {
    R"(["top_k","min_p"])", R"("kmt")", "[]", R"(["nothing"])", R"("?")", R"(["top_k","top_k"])"};
constexpr FieldType kSamplers = Texts(kSamplersTexts);
constexpr std::string_view kBiasTexts[] = {R"([[97,1.5]])",
                                           R"([["a",false]])",
                                           R"({"97":1,"b":-1})",
                                           R"([["ab",-1e9],[97,false]])",
                                           "[]",
                                           "{}",
                                           R"([[97]])",
                                           R"([["a",true]])",
                                           R"({"a":null})",
                                           R"([[null,1]])",
                                           R"([[-5,1],[1e9,1]])",
                                           R"([[97.5,1]])"};
constexpr FieldType kBias = Texts(kBiasTexts);
constexpr std::string_view kOptionsTexts[] = {
    R"({"include_usage":true})", "{}", R"({"include_usage":false})", R"({"include_usage":null})"};
constexpr FieldType kOptions = Texts(kOptionsTexts);
constexpr std::string_view kLogprobsTexts[] = {"true", "2", "false", "0", "1", "64", "65"};
constexpr FieldType kLogprobs = Texts(kLogprobsTexts);
constexpr std::string_view kPathTexts[] = {R"(["content","timings/prompt_n"])",
                                           R"(["prompt"])",
                                           "[]",
                                           R"(["content/x",""])",
                                           R"("tokens")",
                                           R"(["generation_settings/seed","/","a/b/c"])"};
constexpr FieldType kPaths = Texts(kPathTexts);
constexpr std::string_view kSlotTexts[] = {"0", "1", "-1", "2", "1024"};
constexpr FieldType kSlot = Texts(kSlotTexts);

constexpr Field kSamplingFields[] = {{"n_predict", &kPredict},
                                     {"max_tokens", &kPredict, true},
                                     {"max_completion_tokens", &kPredict},
                                     {"temperature", &kNumber},
                                     {"dynatemp_range", &kNumber},
                                     {"dynatemp_exponent", &kNumber},
                                     {"top_k", &kInt},
                                     {"top_p", &kNumber},
                                     {"min_p", &kNumber},
                                     {"typical_p", &kNumber},
                                     {"top_n_sigma", &kNumber},
                                     {"xtc_probability", &kNumber},
                                     {"xtc_threshold", &kNumber},
                                     {"repeat_last_n", &kInt},
                                     {"repeat_penalty", &kNumber},
                                     {"presence_penalty", &kNumber},
                                     {"frequency_penalty", &kNumber},
                                     {"dry_multiplier", &kNumber},
                                     {"dry_base", &kNumber},
                                     {"dry_allowed_length", &kInt},
                                     {"dry_penalty_last_n", &kInt},
                                     {"dry_sequence_breakers", &kTextOrList},
                                     {"mirostat", &kInt},
                                     {"mirostat_tau", &kNumber},
                                     {"mirostat_eta", &kNumber},
                                     {"adaptive_target", &kNumber},
                                     {"adaptive_decay", &kNumber},
                                     {"samplers", &kSamplers},
                                     {"n_keep", &kInt},
                                     {"ignore_eos", &kBool},
                                     {"stop", &kTextOrList},
                                     {"t_max_predict_ms", &kInt},
                                     {"room_wait_ms", &kInt},
                                     {"seed", &kInt},
                                     {"n_probs", &kCount},
                                     {"logprobs", &kLogprobs},
                                     {"cache_prompt", &kBool},
                                     {"id_slot", &kSlot},
                                     {"min_keep", &kInt},
                                     {"logit_bias", &kBias},
                                     {"grammar", &kGrammar},
                                     {"grammar_lazy", &kBool},
                                     {"grammar_triggers", &kTriggers},
                                     {"preserved_tokens", &kTextOrList},
                                     {"json_schema", &kSchema}};
constexpr Field kReplyFields[] = {{"model", &kModel},
                                  {"stream", &kBool, true},
                                  {"stream_options", &kOptions},
                                  {"n", &kCount},
                                  {"n_cmpl", &kCount},
                                  {"return_tokens", &kBool},
                                  {"timings_per_token", &kBool},
                                  {"return_progress", &kBool},
                                  {"post_sampling_probs", &kBool},
                                  {"verbose", &kBool},
                                  {"n_indent", &kInt},
                                  {"response_fields", &kPaths},
                                  {"sse_ping_interval", &kInt}};

// ------------------------------------------------------------------------------- prompts as text
constexpr Field kPromptStringFields[] = {{"prompt_string", &kTokenOrText, true},
                                         {"multimodal_data", &kTextList}};
constexpr FieldType kPromptObject = ObjectOf(kPromptStringFields);
constexpr const FieldType* kPromptTypes[] = {&kText, &kTokenList, &kMix, &kPromptObject};
constexpr FieldType kPrompt = OneOf(kPromptTypes);
constexpr const FieldType* kPromptItemTypes[] = {&kPrompt};
constexpr FieldType kPromptList = ListOf(kPromptItemTypes);
constexpr const FieldType* kPromptsTypes[] = {&kPrompt, &kPromptList};
constexpr FieldType kPrompts = OneOf(kPromptsTypes);

constexpr Field kCompletionFields[] = {{"prompt", &kPrompts, true}, {"prompts", &kPrompts},
                                       {"fork_from", &kId},         {"echo", &kBool},
                                       {"suffix", &kText},          {"best_of", &kInt}};
constexpr FieldType kCompletion = ObjectOf(kCompletionFields, kSamplingFields, kReplyFields);
constexpr Field kFileFields[] = {{"text", &kText, true}, {"filename", &kText, true}};
constexpr FieldType kFile = ObjectOf(kFileFields);
constexpr const FieldType* kFileTypes[] = {&kFile};
constexpr FieldType kFiles = ListOf(kFileTypes);
constexpr Field kInfillFields[] = {{"input_prefix", &kText, true},
                                   {"input_suffix", &kText, true},
                                   {"prompt", &kText},
                                   {"input_extra", &kFiles}};
constexpr FieldType kInfill = ObjectOf(kInfillFields, kSamplingFields, kReplyFields);

// ---------------------------------------------------------------------------- chats of OpenAI
constexpr std::string_view kRoleTexts[] = {R"("user")", R"("assistant")", R"("system")",
                                           R"("tool")", R"("developer")", R"("unknown")",
                                           R"("")"};
constexpr FieldType kRole = Texts(kRoleTexts);
constexpr std::string_view kPartTypeTexts[] = {R"("text")",    R"("image_url")", R"("input_text")",
                                               R"("nothing")", R"("")",          R"("refusal")"};
constexpr FieldType kPartType = Texts(kPartTypeTexts);
constexpr Field kPartFields[] = {
    {"type", &kPartType, true}, {"text", &kText, true}, {"image_url", &kAny}};
constexpr FieldType kPart = ObjectOf(kPartFields);
constexpr const FieldType* kPartTypes[] = {&kPart};
constexpr FieldType kParts = ListOf(kPartTypes);
constexpr std::string_view kNullTexts[] = {"null"};
constexpr FieldType kNull = Texts(kNullTexts);
constexpr const FieldType* kContentTypes[] = {&kText, &kText, &kParts, &kNull};
constexpr FieldType kContent = OneOf(kContentTypes);
constexpr std::string_view kNameTexts[] = {R"("f")", R"("g")", R"("")",
                                           R"("a name \"with\" quotes")", R"("h")"};
constexpr FieldType kName = Texts(kNameTexts);
constexpr std::string_view kArgumentTexts[] = {R"("{\"x\": 1}")",
                                               R"({"x":1})",
                                               R"("{")",
                                               R"("")",
                                               R"("[1]")",
                                               "{}",
                                               R"("{\"x\":\"é\",\"y\":[null]}")"};
constexpr FieldType kArguments = Texts(kArgumentTexts);
constexpr Field kCallFunctionFields[] = {{"name", &kName, true}, {"arguments", &kArguments, true}};
constexpr FieldType kCallFunction = ObjectOf(kCallFunctionFields);
constexpr std::string_view kTypeTexts[] = {R"("function")", R"("web_search")", R"("")"};
constexpr FieldType kFunctionType = Texts(kTypeTexts);
constexpr Field kCallFields[] = {
    {"id", &kText, true}, {"type", &kFunctionType, true}, {"function", &kCallFunction, true}};
constexpr FieldType kCall = ObjectOf(kCallFields);
constexpr const FieldType* kCallTypes[] = {&kCall};
constexpr FieldType kCalls = ListOf(kCallTypes);
constexpr Field kMessageFields[] = {{"role", &kRole, true},  {"content", &kContent, true},
                                    {"tool_calls", &kCalls}, {"tool_call_id", &kText},
                                    {"name", &kText},        {"reasoning_content", &kText},
                                    {"reasoning", &kText},   {"thinking", &kText},
                                    {"refusal", &kText}};
constexpr FieldType kMessage = ObjectOf(kMessageFields);
constexpr const FieldType* kMessageTypes[] = {&kMessage};
constexpr FieldType kMessages = ListOf(kMessageTypes);
constexpr Field kFunctionFields[] = {{"name", &kName, true},
                                     {"description", &kText},
                                     {"parameters", &kSchema, true},
                                     {"strict", &kBool}};
constexpr FieldType kFunction = ObjectOf(kFunctionFields);
constexpr Field kToolFields[] = {{"type", &kFunctionType, true}, {"function", &kFunction, true}};
constexpr FieldType kTool = ObjectOf(kToolFields);
constexpr const FieldType* kToolTypes[] = {&kTool};
constexpr FieldType kTools = ListOf(kToolTypes);
constexpr std::string_view kChoiceTexts[] = {R"("auto")",
                                             R"("required")",
                                             R"("none")",
                                             R"({"type":"function","function":{"name":"f"}})",
                                             R"({"type":"function"})",
                                             R"("nothing")",
                                             R"({"type":"function","function":{"name":"unknown"}})",
                                             R"({"function":{}})",
                                             R"({"type":"any"})",
                                             R"({"type":"tool","name":"f"})",
                                             R"({"type":"auto"})"};
constexpr FieldType kToolChoice = Texts(kChoiceTexts);
constexpr std::string_view kFormatTypeTexts[] = {R"("json_schema")", R"("json_object")",
                                                 R"("text")", R"("nothing")"};
constexpr FieldType kFormatType = Texts(kFormatTypeTexts);
constexpr Field kSchemaWrapFields[] = {{"schema", &kSchema, true}, {"name", &kText}};
constexpr FieldType kSchemaWrap = ObjectOf(kSchemaWrapFields);
constexpr Field kFormatFields[] = {
    {"type", &kFormatType, true}, {"json_schema", &kSchemaWrap, true}, {"schema", &kSchema}};
constexpr FieldType kFormat = ObjectOf(kFormatFields);
constexpr std::string_view kReasoningFormatTexts[] = {R"("auto")", R"("none")", R"("deepseek")",
                                                      R"("deepseek-legacy")", R"("nothing")"};
constexpr FieldType kReasoningFormat = Texts(kReasoningFormatTexts);
constexpr std::string_view kEffortTexts[] = {R"("low")", R"("none")", R"("high")", R"("")"};
constexpr FieldType kEffort = Texts(kEffortTexts);
constexpr std::string_view kVariableTexts[] = {
    R"({"a":1})",          R"({"enable_thinking":false})",      R"({"enable_thinking":1})",
    R"({"messages":[]})",  R"({"functions":null,"tools":5})",   R"({"add_generation_prompt":[]})",
    R"({"datetime":"x"})", R"({"bos_token":null,"content":{}})"};
constexpr FieldType kVariables = Texts(kVariableTexts);
constexpr std::string_view kContinueTexts[] = {"true", "false", R"("content")", R"("nothing")"};
constexpr FieldType kContinue = Texts(kContinueTexts);
constexpr const FieldType* kForkPromptTypes[] = {&kText, &kMessages};
constexpr FieldType kForkPrompt = OneOf(kForkPromptTypes);
constexpr const FieldType* kForkPromptItemTypes[] = {&kForkPrompt};
constexpr FieldType kForkPrompts = ListOf(kForkPromptItemTypes);

constexpr Field kChatFields[] = {{"messages", &kMessages, true},
                                 {"tools", &kTools},
                                 {"tool_choice", &kToolChoice},
                                 {"parallel_tool_calls", &kBool},
                                 {"documents", &kAny},
                                 {"response_format", &kFormat},
                                 {"add_generation_prompt", &kBool},
                                 {"continue_final_message", &kContinue},
                                 {"enable_thinking", &kBool},
                                 {"chat_template_kwargs", &kVariables},
                                 {"reasoning_effort", &kEffort},
                                 {"reasoning_format", &kReasoningFormat},
                                 {"reasoning_budget_tokens", &kPredict},
                                 {"thinking_budget_tokens", &kPredict},
                                 {"reasoning_budget_message", &kText},
                                 {"chat_template", &kTemplate},
                                 {"top_logprobs", &kCount},
                                 {"fork_from", &kId},
                                 {"prompts", &kForkPrompts}};
constexpr FieldType kChat = ObjectOf(kChatFields, kSamplingFields, kReplyFields);
constexpr Field kForkedFields[] = {
    {"fork_from", &kId, true},      {"prompts", &kForkPrompts, true},
    {"messages", &kMessages},       {"tools", &kTools},
    {"reasoning_effort", &kEffort}, {"chat_template", &kTemplate},
    {"response_format", &kFormat},  {"add_generation_prompt", &kBool}};
constexpr FieldType kForkedChat = ObjectOf(kForkedFields, kSamplingFields, kReplyFields);
constexpr const FieldType* kChatTypes[] = {&kChat, &kChat, &kForkedChat};
constexpr FieldType kAnyChat = OneOf(kChatTypes);

// -------------------------------------------------------------------------- chats of Anthropic
constexpr std::string_view kBlockTypeTexts[] = {
    R"("text")",  R"("thinking")", R"("tool_use")", R"("tool_result")", R"("redacted_thinking")",
    R"("image")", R"("nothing")",  R"("document")"};
constexpr FieldType kBlockType = Texts(kBlockTypeTexts);
constexpr std::string_view kSystemTexts[] = {
    R"("a")", R"("x-anthropic-billing-header: v; cch=a5145; z")",
    R"("x-anthropic-billing-header:")", R"("x-anthropic-billing-header: cch=abc")", R"("")"};
constexpr FieldType kSystemText = Texts(kSystemTexts);
constexpr Field kSystemBlockFields[] = {
    {"type", &kBlockType, true}, {"text", &kSystemText, true}, {"cache_control", &kAny}};
constexpr FieldType kSystemBlock = ObjectOf(kSystemBlockFields);
constexpr const FieldType* kSystemBlockTypes[] = {&kSystemBlock};
constexpr FieldType kSystemBlocks = ListOf(kSystemBlockTypes);
constexpr const FieldType* kSystemTypes[] = {&kSystemText, &kSystemBlocks};
constexpr FieldType kSystem = OneOf(kSystemTypes);
constexpr Field kBlockFields[] = {{"type", &kBlockType, true},
                                  {"text", &kText, true},
                                  {"thinking", &kText},
                                  {"id", &kText},
                                  {"name", &kName},
                                  {"input", &kAny},
                                  {"tool_use_id", &kText},
                                  {"content", &kSystem},
                                  {"signature", &kText},
                                  {"cache_control", &kAny}};
constexpr FieldType kBlock = ObjectOf(kBlockFields);
constexpr Field kResultFields[] = {{"type", &kBlockType, true}, {"tool_use_id", &kText, true},
                                   {"content", &kSystem, true}, {"id", &kText, true},
                                   {"name", &kName, true},      {"input", &kAny, true},
                                   {"thinking", &kText, true}};
constexpr FieldType kResultBlock = ObjectOf(kResultFields);
constexpr const FieldType* kBlockTypes[] = {&kBlock, &kResultBlock};
constexpr FieldType kAnyBlock = OneOf(kBlockTypes);
constexpr const FieldType* kBlockItemTypes[] = {&kAnyBlock};
constexpr FieldType kBlocks = ListOf(kBlockItemTypes);
constexpr const FieldType* kAnthropicContentTypes[] = {&kText, &kBlocks};
constexpr FieldType kAnthropicContent = OneOf(kAnthropicContentTypes);
constexpr Field kAnthropicMessageFields[] = {{"role", &kRole, true},
                                             {"content", &kAnthropicContent, true}};
constexpr FieldType kAnthropicMessage = ObjectOf(kAnthropicMessageFields);
constexpr const FieldType* kAnthropicMessageTypes[] = {&kAnthropicMessage};
constexpr FieldType kAnthropicMessages = ListOf(kAnthropicMessageTypes);
constexpr Field kAnthropicToolFields[] = {{"name", &kName, true},
                                          {"input_schema", &kSchema, true},
                                          {"description", &kText},
                                          {"type", &kText}};
constexpr FieldType kAnthropicTool = ObjectOf(kAnthropicToolFields);
constexpr const FieldType* kAnthropicToolTypes[] = {&kAnthropicTool};
constexpr FieldType kAnthropicTools = ListOf(kAnthropicToolTypes);
constexpr std::string_view kAnthropicChoiceTexts[] = {
    R"({"type":"auto"})",
    R"({"type":"any"})",
    R"({"type":"tool","name":"f"})",
    R"({"type":"none"})",
    R"({"type":"any","disable_parallel_tool_use":true})",
    R"({})",
    R"({"type":"tool"})",
    R"({"type":"nothing"})",
    R"({"type":"auto","disable_parallel_tool_use":1})"};
constexpr FieldType kAnthropicChoice = Texts(kAnthropicChoiceTexts);
constexpr std::string_view kThinkingTexts[] = {R"({"type":"enabled","budget_tokens":2})",
                                               R"({"type":"enabled"})",
                                               R"({"type":"disabled"})",
                                               R"({"type":"adaptive"})",
                                               R"({})",
                                               R"({"type":"enabled","budget_tokens":"x"})",
                                               R"({"type":"enabled","budget_tokens":0})"};
constexpr FieldType kThinking = Texts(kThinkingTexts);
constexpr Field kAnthropicFields[] = {{"messages", &kAnthropicMessages, true},
                                      {"system", &kSystem},
                                      {"tools", &kAnthropicTools},
                                      {"tool_choice", &kAnthropicChoice},
                                      {"stop_sequences", &kTextOrList},
                                      {"thinking", &kThinking},
                                      {"metadata", &kAny},
                                      {"chat_template", &kTemplate},
                                      {"chat_template_kwargs", &kVariables},
                                      {"reasoning_format", &kReasoningFormat},
                                      {"response_format", &kFormat},
                                      {"continue_final_message", &kContinue}};
constexpr FieldType kAnthropic = ObjectOf(kAnthropicFields, kSamplingFields, kReplyFields);

// ----------------------------------------------------------------------------------- responses
constexpr std::string_view kItemTypeTexts[] = {
    R"("message")",   R"("function_call")",  R"("function_call_output")",
    R"("reasoning")", R"("item_reference")", R"("nothing")"};
constexpr FieldType kItemType = Texts(kItemTypeTexts);
constexpr std::string_view kItemPartTypeTexts[] = {
    R"("input_text")",   R"("output_text")", R"("text")",
    R"("refusal")",      R"("input_image")", R"("reasoning_text")",
    R"("summary_text")", R"("image_url")",   R"("nothing")"};
constexpr FieldType kItemPartType = Texts(kItemPartTypeTexts);
constexpr Field kItemPartFields[] = {
    {"type", &kItemPartType, true}, {"text", &kText, true}, {"refusal", &kText}};
constexpr FieldType kItemPart = ObjectOf(kItemPartFields);
constexpr const FieldType* kItemPartTypes[] = {&kItemPart};
constexpr FieldType kItemParts = ListOf(kItemPartTypes);
constexpr const FieldType* kItemContentTypes[] = {&kText, &kItemParts};
constexpr FieldType kItemContent = OneOf(kItemContentTypes);
constexpr Field kItemFields[] = {{"type", &kItemType, true},
                                 {"role", &kRole, true},
                                 {"content", &kItemContent, true},
                                 {"id", &kText}};
constexpr FieldType kItem = ObjectOf(kItemFields);
constexpr Field kCallItemFields[] = {
    {"type", &kItemType, true},      {"call_id", &kText, true},
    {"name", &kName, true},          {"arguments", &kArguments, true},
    {"output", &kItemContent, true}, {"summary", &kItemParts, true},
    {"content", &kItemContent},      {"id", &kText}};
constexpr FieldType kCallItem = ObjectOf(kCallItemFields);
constexpr const FieldType* kItemTypes[] = {&kItem, &kCallItem};
constexpr FieldType kAnyItem = OneOf(kItemTypes);
constexpr const FieldType* kItemItemTypes[] = {&kAnyItem};
constexpr FieldType kItems = ListOf(kItemItemTypes);
constexpr const FieldType* kInputTypes[] = {&kText, &kItems};
constexpr FieldType kInput = OneOf(kInputTypes);
constexpr Field kResponseToolFields[] = {
    {"type", &kFunctionType, true}, {"name", &kName, true}, {"parameters", &kSchema, true},
    {"description", &kText},        {"strict", &kBool},     {"function", &kFunction}};
constexpr FieldType kResponseTool = ObjectOf(kResponseToolFields);
constexpr const FieldType* kResponseToolTypes[] = {&kResponseTool};
constexpr FieldType kResponseTools = ListOf(kResponseToolTypes);
constexpr Field kTextFormatInner[] = {
    {"type", &kFormatType, true}, {"schema", &kSchema, true}, {"name", &kText}};
constexpr FieldType kTextFormat = ObjectOf(kTextFormatInner);
constexpr Field kTextFields[] = {{"format", &kTextFormat, true}};
constexpr FieldType kResponseText = ObjectOf(kTextFields);
constexpr std::string_view kReasoningTexts[] = {R"({"effort":"low"})", R"({"effort":"none"})", "{}",
                                                R"({"effort":5})", R"({"summary":"auto"})"};
constexpr FieldType kReasoning = Texts(kReasoningTexts);
constexpr Field kResponseFields[] = {{"input", &kInput, true},
                                     {"instructions", &kText},
                                     {"previous_response_id", &kId},
                                     {"store", &kBool},
                                     {"background", &kBool},
                                     {"tools", &kResponseTools},
                                     {"tool_choice", &kToolChoice},
                                     {"text", &kResponseText},
                                     {"max_output_tokens", &kPredict},
                                     {"reasoning", &kReasoning},
                                     {"truncation", &kText},
                                     {"include", &kTextList},
                                     {"metadata", &kAny},
                                     {"parallel_tool_calls", &kBool},
                                     {"chat_template", &kTemplate},
                                     {"fork_from", &kId},
                                     {"enable_thinking", &kBool}};
constexpr FieldType kResponse = ObjectOf(kResponseFields, kSamplingFields, kReplyFields);

// ----------------------------------------------------------------------------------- the others
constexpr std::string_view kEncodingTexts[] = {R"("float")", R"("base64")", R"("nothing")"};
constexpr FieldType kEncoding = Texts(kEncodingTexts);
constexpr std::string_view kNormTexts[] = {"2", "-1", "0", "1", "3", "32760", "-2"};
constexpr FieldType kNorm = Texts(kNormTexts);
constexpr Field kEmbeddingFields[] = {{"input", &kPrompts, true},      {"content", &kPrompts},
                                      {"encoding_format", &kEncoding}, {"dimensions", &kCount},
                                      {"embd_normalize", &kNorm},      {"model", &kModel}};
constexpr FieldType kEmbedding = ObjectOf(kEmbeddingFields);
constexpr Field kDocumentFields[] = {{"text", &kText, true}};
constexpr FieldType kDocumentObject = ObjectOf(kDocumentFields);
constexpr const FieldType* kDocumentTypes[] = {&kText, &kDocumentObject};
constexpr FieldType kDocument = OneOf(kDocumentTypes);
constexpr const FieldType* kDocumentItemTypes[] = {&kDocument};
constexpr FieldType kDocuments = ListOf(kDocumentItemTypes);
constexpr Field kRerankFields[] = {
    {"query", &kText, true}, {"documents", &kDocuments, true}, {"texts", &kDocuments},
    {"top_n", &kInt},        {"return_documents", &kBool},     {"return_text", &kBool},
    {"model", &kModel}};
constexpr FieldType kRerank = ObjectOf(kRerankFields);
constexpr Field kTokenizeFields[] = {{"content", &kPrompt, true},
                                     {"add_special", &kBool},
                                     {"parse_special", &kBool},
                                     {"with_pieces", &kBool},
                                     {"model", &kModel}};
constexpr FieldType kTokenize = ObjectOf(kTokenizeFields);
constexpr Field kDetokenizeFields[] = {{"tokens", &kTokenList, true}, {"model", &kModel}};
constexpr FieldType kDetokenize = ObjectOf(kDetokenizeFields);
constexpr const FieldType* kIdTypes[] = {&kId};
constexpr FieldType kIdList = ListOf(kIdTypes);
constexpr Field kLookUpFields[] = {{"conversation_ids", &kIdList, true}};
constexpr FieldType kLookUp = ObjectOf(kLookUpFields);
constexpr std::string_view kFileNameTexts[] = {R"("a")", R"("b.bin")", R"("../x")",
                                               R"("")",  R"(".")",     R"("a b")"};
constexpr FieldType kFileName = Texts(kFileNameTexts);
constexpr Field kSlotFileFields[] = {{"filename", &kFileName, true}};
constexpr FieldType kSlotFile = ObjectOf(kSlotFileFields);
constexpr std::string_view kAdapterTexts[] = {"[]", R"([{"id":0,"scale":1}])", "{}", "", "["};
constexpr FieldType kAdapters = Texts(kAdapterTexts);
constexpr std::string_view kSmallTexts[] = {"{}", "", R"({"a":1})", "[", "[]"};
constexpr FieldType kSmall = Texts(kSmallTexts);

// ------------------------------------------------------------------------------------- queries
constexpr std::string_view kPlainIds[] = {
    "c", "d", "c::1", KVD_RESPONSE_ID("1"), KVD_RESPONSE_ID("2"), "", "nothing"};
constexpr FieldType kPlainId = Texts(kPlainIds);
constexpr std::string_view kPlainNumbers[] = {
    "0", "1", "3", "20", "100", "-1", "x", "", "99999999999999999999"};
constexpr FieldType kPlainNumber = Texts(kPlainNumbers);
constexpr std::string_view kPlainModels[] = {"scripted", "other", "", "unknown"};
constexpr FieldType kPlainModel = Texts(kPlainModels);
constexpr std::string_view kPlainSwitches[] = {"true", "1", "false", ""};
constexpr FieldType kPlainSwitch = Texts(kPlainSwitches);
constexpr std::string_view kPlainActions[] = {"save", "restore", "erase", "", "nothing"};
constexpr FieldType kPlainAction = Texts(kPlainActions);
constexpr Field kStreamQuery[] = {{"conv_id", &kPlainId, true}, {"from", &kPlainNumber}};
constexpr Field kModelQuery[] = {{"model", &kPlainModel}, {"fail_on_no_slot", &kPlainSwitch}};
constexpr Field kSlotQuery[] = {{"action", &kPlainAction, true}, {"model", &kPlainModel}};
constexpr Field kResponseQuery[] = {{"stream", &kPlainSwitch}, {"starting_after", &kPlainNumber}};
constexpr std::string_view kModelParts[] = {"scripted", "other", "unknown", "org/model"};
constexpr std::string_view kSlotParts[] = {"0", "1", "2", "01", "x", "-1", "99999999999"};

constexpr RouteRow kRows[] = {
    {.method = "POST", .pattern = "/v1/chat/completions", .body = &kAnyChat},
    {.method = "POST", .pattern = "/v1/responses", .body = &kResponse},
    {.method = "POST", .pattern = "/v1/messages", .body = &kAnthropic},
    {.method = "POST", .pattern = "/completion", .body = &kCompletion},
    {.method = "POST", .pattern = "/v1/completions", .body = &kCompletion},
    {.method = "POST", .pattern = "/infill", .body = &kInfill},
    {.method = "POST", .pattern = "/v1/embeddings", .body = &kEmbedding},
    {.method = "POST", .pattern = "/embeddings", .body = &kEmbedding},
    {.method = "POST", .pattern = "/v1/rerank", .body = &kRerank},
    {.method = "POST", .pattern = "/tokenize", .body = &kTokenize},
    {.method = "POST", .pattern = "/detokenize", .body = &kDetokenize},
    {.method = "POST", .pattern = "/apply-template", .body = &kChat},
    {.method = "GET", .pattern = "/v1/responses/{}", .query = kResponseQuery, .parts = kIds},
    {.method = "DELETE", .pattern = "/v1/responses/{}", .parts = kIds},
    {.method = "GET", .pattern = "/v1/responses/{}/input_items", .parts = kIds},
    {.method = "POST", .pattern = "/v1/responses/{}/cancel", .parts = kIds},
    {.method = "POST", .pattern = "/v1/responses/input_tokens", .body = &kResponse},
    {.method = "POST", .pattern = "/v1/chat/completions/input_tokens", .body = &kChat},
    {.method = "POST", .pattern = "/v1/messages/count_tokens", .body = &kAnthropic},
    {.method = "GET", .pattern = "/v1/stream", .query = kStreamQuery},
    {.method = "DELETE", .pattern = "/v1/stream", .query = kStreamQuery},
    {.method = "POST", .pattern = "/v1/streams/lookup", .body = &kLookUp},
    {.method = "GET", .pattern = "/slots", .query = kModelQuery},
    {.method = "POST",
     .pattern = "/slots/{}",
     .body = &kSlotFile,
     .query = kSlotQuery,
     .parts = kSlotParts},
    {.method = "GET", .pattern = "/props", .query = kModelQuery},
    {.method = "POST", .pattern = "/props", .body = &kSmall},
    {.method = "GET", .pattern = "/metrics"},
    {.method = "GET", .pattern = "/v1/models"},
    {.method = "GET", .pattern = "/v1/models/{*}", .parts = kModelParts},
    {.method = "GET", .pattern = "/lora-adapters"},
    {.method = "POST", .pattern = "/lora-adapters", .body = &kAdapters},
    {.method = "GET", .pattern = "/health"},
    // Other names of the same routes.
    {.method = "POST", .pattern = "/chat/completions", .body = &kAnyChat},
    {.method = "POST", .pattern = "/chat/completions/input_tokens", .body = &kChat},
    {.method = "POST", .pattern = "/completions", .body = &kCompletion},
    {.method = "POST", .pattern = "/embedding", .body = &kEmbedding},
    {.method = "POST", .pattern = "/rerank", .body = &kRerank},
    {.method = "POST", .pattern = "/reranking", .body = &kRerank},
    {.method = "POST", .pattern = "/v1/reranking", .body = &kRerank},
    {.method = "POST", .pattern = "/responses", .body = &kResponse},
    {.method = "POST", .pattern = "/responses/input_tokens", .body = &kResponse},
    {.method = "GET", .pattern = "/responses/{}", .query = kResponseQuery, .parts = kIds},
    {.method = "DELETE", .pattern = "/responses/{}", .parts = kIds},
    {.method = "GET", .pattern = "/responses/{}/input_items", .parts = kIds},
    {.method = "POST", .pattern = "/responses/{}/cancel", .parts = kIds},
    {.method = "GET", .pattern = "/models"},
    {.method = "GET", .pattern = "/models/{*}", .parts = kModelParts},
    {.method = "GET", .pattern = "/v1/health"},
    {.method = "GET", .pattern = "/"},
    {.method = "GET", .pattern = "/index.html"},
    {.method = "GET", .pattern = "/manifest.webmanifest"},
    {.method = "GET", .pattern = "/sw.js"},
    {.method = "GET", .pattern = "/_app/version.json"},
    // Refused by name.
    {.method = "POST", .pattern = "/models"},
    {.method = "DELETE", .pattern = "/models"},
    {.method = "POST", .pattern = "/models/load"},
    {.method = "POST", .pattern = "/models/unload"},
    {.method = "GET", .pattern = "/models/sse"},
    {.method = "POST", .pattern = "/v1/chat/completions/control"},
    {.method = "POST", .pattern = "/audio/transcriptions"},
    {.method = "POST", .pattern = "/v1/audio/transcriptions"},
    {.method = "POST", .pattern = "/v1/audio/translations"},
    {.method = "POST", .pattern = "/v1/audio/speech"},
    {.method = "POST", .pattern = "/v1/images/generations"},
    {.method = "POST", .pattern = "/v1/images/edits"},
    {.method = "POST", .pattern = "/v1/images/variations"},
    {.method = "POST", .pattern = "/v1/videos"},
    {.method = "POST", .pattern = "/v1/moderations"},
    {.method = "GET", .pattern = "/tools"},
    {.method = "POST", .pattern = "/tools"},
    {.method = "GET", .pattern = "/cors-proxy"},
    {.method = "POST", .pattern = "/cors-proxy"},
    {.method = "GET", .pattern = "/mcp"},
    {.method = "POST", .pattern = "/mcp"},
    {.method = "GET", .pattern = "/api/tags"},
    {.method = "POST", .pattern = "/api/show"},
    {.method = "POST", .pattern = "/api/chat"},
    {.method = "POST", .pattern = "/api/generate"},
};

}  // namespace

std::span<const RouteRow> RouteRows() { return kRows; }

std::span<const std::string_view> KnownIds() { return kIds; }

}  // namespace kvd::test
