// Most chat formats put texts around every message, which differ by role. In the formats of Llama 2
// and Mistral, "[INST]" opens a turn, which the assistant's message closes, and a system text
// begins the turn of the user's next message. Gemma and Orion have no system role: a system text
// begins the user's next message.
#include "text/chat/named_formats.h"

#include <array>

#include "base/text.h"

namespace kvd {
namespace {

// Begins a loop over the messages: `m` is the message, `c` its content.
constexpr std::string_view kEach = "{% for m in messages %}{% set c = m.content or '' %}";

// What stands for something of the message in the texts of Messages.
struct Placeholder {
  std::string_view name;
  std::string_view expression;
};
constexpr auto kPlaceholders = std::to_array<Placeholder>({{"{content}", "c"},
                                                           {"{trimmed}", "(c | trim)"},
                                                           {"{role}", "m.role"},
                                                           {"{Role}", "(m.role | capitalize)"},
                                                           {"{ROLE}", "(m.role | upper)"},
                                                           {"{eos}", "eos_token"}});

// A format that prints a text for each message. The texts are parts of string literals of Jinja,
// and have placeholders. An empty text prints nothing.
struct Messages {
  std::string_view begin = {};
  std::string_view begin_without_system =
      {};  // after `begin`, if the first message is of another role
  std::string_view system = {};
  std::string_view user = {};
  std::string_view assistant = {};
  std::string_view other = {};     // for the other roles, and for those above whose text is empty
  std::string_view answer = {};    // opens the assistant's turn
  bool only_first_system = false;  // a later system message is not printed
};

std::string Literal(std::string_view text) { return Concat("'", text, "'"); }

std::string Expression(std::string_view text) {
  std::string expression = Literal(text);
  for (const auto& [name, replacement] : kPlaceholders) {
    const std::string joined = Concat("' ~ ", replacement, " ~ '");
    for (std::size_t at = 0; (at = expression.find(name, at)) != expression.npos;) {
      expression.replace(at, name.size(), joined);
      at += joined.size();
    }
  }
  return expression;
}

std::string Printed(std::string_view text) { return Concat("{{ ", Expression(text), " }}"); }

std::string Format(const Messages& format) {
  std::string program = format.begin.empty() ? "" : Printed(format.begin);
  if (!format.begin_without_system.empty()) {
    program += Concat("{% if not messages or messages[0].role != 'system' %}",
                      Printed(format.begin_without_system), "{% endif %}");
  }
  program += kEach;
  std::string_view next = "{% if ";
  const auto add_role = [&](std::string_view role, std::string_view text) {
    if (text.empty()) return;
    program += Concat(next, "m.role == '", role, "' %}", Printed(text));
    next = "{% elif ";
  };
  if (format.only_first_system) {
    program += Concat(next, "m.role == 'system' %}{% if loop.first %}", Printed(format.system),
                      "{% endif %}");
    next = "{% elif ";
  } else {
    add_role("system", format.system);
  }
  add_role("user", format.user);
  add_role("assistant", format.assistant);
  const bool has_roles = next != "{% if ";
  if (!format.other.empty()) program += (has_roles ? "{% else %}" : "") + Printed(format.other);
  program += has_roles ? "{% endif %}{% endfor %}" : "{% endfor %}";
  if (!format.answer.empty()) {
    program += Concat("{% if add_generation_prompt %}", Printed(format.answer), "{% endif %}");
  }
  return program;
}

// A format with turns: the loop around the expressions that print the opening of a turn and the
// message of each role. `ns.opens` is true if the next message opens a turn.
struct Turns {
  std::string_view open;
  std::string_view next_open;  // of every turn but the first
  std::string_view system;
  std::string_view user;
  std::string_view assistant;
};

std::string InTurns(const Turns& turns) {
  return Concat("{% set ns = namespace(opens=true) %}", kEach, "{% if ns.opens %}{{ ", turns.open,
                " if loop.first else ", turns.next_open,
                " }}{% endif %}{% set ns.opens = m.role == 'assistant' %}{{ ", turns.system,
                " if m.role == 'system' else ", turns.assistant, " if m.role == 'assistant' else ",
                turns.user, " }}{% endfor %}");
}

std::string Llama2(std::string_view system, std::string_view content = "{content}",
                   std::string_view next_open = "[INST] ") {
  return InTurns({Literal("[INST] "), Literal(next_open), Expression(system),
                  Expression(Concat(content, " [/INST]")), Expression(Concat(content, "</s>"))});
}

constexpr std::string_view kLlama2System = "<<SYS>>\\n{content}\\n<</SYS>>\\n\\n";

std::string Mistral(std::string_view open, std::string_view close, std::string_view assistant) {
  return InTurns({Literal(open), Literal(open), Expression("{content}\\n\\n"),
                  Expression(Concat("{content}", close)), Expression(assistant)});
}

// The system text of a format without a system role begins the user's next message: `system` joins
// the texts, `messages` prints the message of another role with `ns.system`, and clears it.
std::string WithoutSystemRole(std::string_view content, std::string_view message) {
  return Concat("{% set ns = namespace(system='') %}", kEach,
                "{% if m.role == 'system' %}{% set ns.system = ns.system ~ ", content,
                " %}{% else %}", message, "{% endif %}{% endfor %}");
}

// The assistant of Gemma is "model".
std::string Gemma() {
  return WithoutSystemRole(
             "(c | trim)",
             R"({{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\n' }})"
             R"({% if m.role != 'assistant' and ns.system %}{{ ns.system ~ '\n\n' }})"
             R"({% set ns.system = '' %}{% endif %}{{ (c | trim) ~ '<end_of_turn>\n' }})") +
         R"({% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %})";
}

std::string Orion() {
  return WithoutSystemRole(
      "c", R"({% if m.role == 'user' %}{{ 'Human: ' }}{% if ns.system %}{{ ns.system ~ '\n\n' }})"
           R"({% set ns.system = '' %}{% endif %}{{ c ~ '\n\nAssistant: </s>' }})"
           R"({% else %}{{ c ~ '</s>' }}{% endif %})");
}

// The tokenizer puts the first "<s>".
std::string Monarch() {
  return Concat(kEach, R"({{ ('' if loop.first else '<s>') ~ m.role ~ '\n' ~ c ~ '</s>\n' }})",
                R"({% endfor %}{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %})");
}

// The assistant's turn begins behind a user's last message, whether a caller asks for it or not.
std::string RwkvWorld() {
  return Format({.system = "System: {trimmed}\\n\\n",
                 .user = "User: {trimmed}\\n\\n",
                 .assistant = "Assistant: {trimmed}\\n\\n"}) +
         "{% if messages and messages[-1].role == 'user' %}{{ 'Assistant:' }}{% endif %}";
}

struct NamedFormat {
  std::string_view name;
  Messages messages = {};
  std::string (*program)() = nullptr;  // instead of `messages`
};

constexpr Messages kGranite = {.other =
                                   "<|start_of_role|>{role}<|end_of_role|>{content}"
                                   "<|end_of_text|>\\n",
                               .answer = "<|start_of_role|>assistant<|end_of_role|>"};

constexpr auto kFormats = std::to_array<NamedFormat>({
    {"chatml",
     {.other = "<|im_start|>{role}\\n{content}<|im_end|>\\n",
      .answer = "<|im_start|>assistant\\n"}},
    {.name = "llama2", .program = [] { return Llama2("{content}\\n"); }},
    {.name = "llama2-sys", .program = [] { return Llama2(kLlama2System); }},
    {.name = "llama2-sys-bos",
     .program = [] { return Llama2(kLlama2System, "{content}", "<s>[INST] "); }},
    {.name = "llama2-sys-strip",
     .program = [] { return Llama2("<<SYS>>\\n{trimmed}\\n<</SYS>>\\n\\n", "{trimmed}"); }},
    {"llama3",
     {.other = "<|start_header_id|>{role}<|end_header_id|>\\n\\n{trimmed}<|eot_id|>",
      .answer = "<|start_header_id|>assistant<|end_header_id|>\\n\\n"}},
    {"llama4",
     {.other = "<|header_start|>{role}<|header_end|>\\n\\n{trimmed}<|eot|>",
      .answer = "<|header_start|>assistant<|header_end|>\\n\\n"}},
    {.name = "mistral-v1",
     .program = [] { return Mistral(" [INST] ", " [/INST]", " {content}</s>"); }},
    {.name = "mistral-v3",
     .program = [] { return Mistral("[INST] ", "[/INST]", " {trimmed}</s>"); }},
    {.name = "mistral-v3-tekken",
     .program = [] { return Mistral("[INST]", "[/INST]", "{content}</s>"); }},
    {"mistral-v7",
     {.system = "[SYSTEM_PROMPT] {content}[/SYSTEM_PROMPT]",
      .user = "[INST] {content}[/INST]",
      .other = " {content}</s>"}},
    {"mistral-v7-tekken",
     {.system = "[SYSTEM_PROMPT]{content}[/SYSTEM_PROMPT]",
      .user = "[INST]{content}[/INST]",
      .other = "{content}</s>"}},
    {"phi3", {.other = "<|{role}|>\\n{content}<|end|>\\n", .answer = "<|assistant|>\\n"}},
    {"phi4",
     {.other = "<|im_start|>{role}<|im_sep|>{content}<|im_end|>",
      .answer = "<|im_start|>assistant<|im_sep|>"}},
    {"falcon3", {.other = "<|{role}|>\\n{content}\\n", .answer = "<|assistant|>\\n"}},
    {"zephyr", {.other = "<|{role}|>\\n{content}<|endoftext|>\\n", .answer = "<|assistant|>\\n"}},
    {"zephyr-eos", {.other = "<|{role}|>\\n{content}{eos}\\n", .answer = "<|assistant|>\\n"}},
    {.name = "monarch", .program = Monarch},
    {.name = "gemma", .program = Gemma},
    {.name = "orion", .program = Orion},
    {"openchat",
     {.system = "{content}<|end_of_turn|>",
      .other = "GPT4 Correct {Role}: {content}<|end_of_turn|>",
      .answer = "GPT4 Correct Assistant:"}},
    {"vicuna",
     {.system = "{content}\\n\\n",
      .user = "USER: {content}\\n",
      .assistant = "ASSISTANT: {content}</s>\\n",
      .answer = "ASSISTANT:"}},
    {"vicuna-orca",
     {.system = "SYSTEM: {content}\\n",
      .user = "USER: {content}\\n",
      .assistant = "ASSISTANT: {content}</s>\\n",
      .answer = "ASSISTANT:"}},
    {"deepseek",
     {.system = "{content}",
      .user = "### Instruction:\\n{content}\\n",
      .assistant = "### Response:\\n{content}\\n<|EOT|>\\n",
      .answer = "### Response:\\n"}},
    {"deepseek2",
     {.system = "{content}\\n\\n",
      .user = "User: {content}\\n\\n",
      .assistant = "Assistant: {content}<｜end▁of▁sentence｜>",
      .answer = "Assistant:"}},
    {"deepseek3",
     {.system = "{content}\\n\\n",
      .user = "<｜User｜>{content}",
      .assistant = "<｜Assistant｜>{content}<｜end▁of▁sentence｜>",
      .answer = "<｜Assistant｜>"}},
    {"deepseek-ocr", {.other = "{content}"}},
    {"command-r",
     {.system = "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{trimmed}<|END_OF_TURN_TOKEN|>",
      .user = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{trimmed}<|END_OF_TURN_TOKEN|>",
      .assistant = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{trimmed}<|END_OF_TURN_TOKEN|>",
      .answer = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"}},
    {"chatglm3",
     {.begin = "[gMASK]sop", .other = "<|{role}|>\\n {content}", .answer = "<|assistant|>"}},
    {"chatglm4",
     {.begin = "[gMASK]<sop>", .other = "<|{role}|>\\n{content}", .answer = "<|assistant|>\\n"}},
    {"glmedge", {.other = "<|{role}|>\\n{content}", .answer = "<|assistant|>"}},
    {"minicpm", {.user = "<用户>{trimmed}<AI>", .other = "{trimmed}"}},
    {"exaone3",
     {.system = "[|system|]{trimmed}[|endofturn|]\\n",
      .user = "[|user|]{trimmed}\\n",
      .assistant = "[|assistant|]{trimmed}[|endofturn|]\\n",
      .answer = "[|assistant|]"}},
    {"exaone4",
     {.user = "[|user|]{trimmed}\\n",
      .other = "[|{role}|]{trimmed}[|endofturn|]\\n",
      .answer = "[|assistant|]"}},
    {"exaone-moe",
     {.other = "<|{role}|>\\n{trimmed}<|endofturn|>\\n", .answer = "<|assistant|>\\n"}},
    {.name = "rwkv-world", .program = RwkvWorld},
    {"granite", kGranite},
    {"granite-4.0", kGranite},
    {"granite-4.1", kGranite},
    {"gigachat",
     {.begin = "<s>",
      .system = "{content}<|message_sep|>",
      .user = "user<|role_sep|>{content}<|message_sep|>available "
              "functions<|role_sep|>[]<|message_sep|>",
      .assistant = "assistant<|role_sep|>{content}<|message_sep|>",
      .answer = "assistant<|role_sep|>",
      .only_first_system = true}},
    {"megrez",
     {.other = "<|role_start|>{role}<|role_end|>{content}<|turn_end|>",
      .answer = "<|role_start|>assistant<|role_end|>"}},
    {"yandex",
     {.user = " Пользователь: {content}\\n\\n",
      .assistant = " Ассистент: {content}\\n\\n",
      .answer = " Ассистент:[SEP]"}},
    {"bailing",
     {.user = "<role>HUMAN</role>{content}",
      .other = "<role>{ROLE}</role>{content}",
      .answer = "<role>ASSISTANT</role>"}},
    {"bailing-think",
     {.user = "<role>HUMAN</role>{content}",
      .other = "<role>{ROLE}</role>{content}",
      .answer = "<role>ASSISTANT</role><think>"}},
    {"bailing2",
     {.begin_without_system = "<role>SYSTEM</role>detailed thinking off<|role_end|>",
      .user = "<role>HUMAN</role>{content}<|role_end|>",
      .other = "<role>{ROLE}</role>{content}<|role_end|>",
      .answer = "<role>ASSISTANT</role>"}},
    {"smolvlm",
     {.begin = "<|im_start|>",
      .system = "{content}\\n\\n",
      .user = "User: {content}<end_of_utterance>\\n",
      .other = "Assistant: {content}<end_of_utterance>\\n",
      .answer = "Assistant:"}},
    {"hunyuan-moe",
     {.system = "<|startoftext|>{content}<|extra_4|>",
      .assistant = "{content}<|eos|>",
      .other = "<|startoftext|>{content}<|extra_0|>"}},
    {"hunyuan-dense",
     {.system = "{content}<｜hy_place▁holder▁no▁3｜>",
      .user = "<｜hy_User｜>{content}<｜hy_Assistant｜>",
      .assistant = "<｜hy_Assistant｜>{content}<｜hy_place▁holder▁no▁2｜>",
      .only_first_system = true}},
    {"hunyuan-vl",
     {.begin = "<｜hy_begin▁of▁sentence｜>",
      .system = "{content}<｜hy_place▁holder▁no▁3｜>",
      .user = "{content}<｜hy_User｜>",
      .assistant = "{content}<｜hy_Assistant｜>",
      .only_first_system = true}},
    {"gpt-oss",
     {.assistant = "<|start|>assistant<|message|>{content}<|return|>",
      .other = "<|start|>{role}<|message|>{content}<|end|>",
      .answer = "<|start|>assistant"}},
    {"kimi-k2",
     {.user = "<|im_user|>user<|im_middle|>{content}<|im_end|>",
      .assistant = "<|im_assistant|>assistant<|im_middle|>{content}<|im_end|>",
      .other = "<|im_system|>{role}<|im_middle|>{content}<|im_end|>",
      .answer = "<|im_assistant|>assistant<|im_middle|>"}},
    {"seed_oss",
     {.assistant = "<seed:bos>assistant\\n{trimmed}<seed:eos>",
      .other = "<seed:bos>{role}\\n{content}<seed:eos>",
      .answer = "<seed:bos>assistant\\n"}},
    {"grok-2",
     {.system = "System: {trimmed}<|separator|>\\n\\n",
      .user = "Human: {trimmed}<|separator|>\\n\\n",
      .assistant = "Assistant: {content}<|separator|>\\n\\n",
      .answer = "Assistant:"}},
    {"pangu-embedded",
     {.begin_without_system = "[unused9]系统：[unused10]",
      .system = "[unused9]系统：{content}[unused10]",
      .user = "[unused9]用户：{content}[unused10]",
      .assistant = "[unused9]助手：{content}[unused10]",
      .other = "[unused9]工具：{content}[unused10]",
      .answer = "[unused9]助手："}},
    {"solar-open",
     {.other = "<|begin|>{role}<|content|>{content}<|end|>", .answer = "<|begin|>assistant"}},
    {"notebook", {.other = "<|{role}|>{content}<|end|>", .answer = "<|assistant|>"}},
});

constexpr auto kNames = [] {
  std::array<std::string_view, kFormats.size()> names{};
  for (std::size_t i = 0; i < kFormats.size(); ++i) names[i] = kFormats[i].name;
  return names;
}();

}  // namespace

std::span<const std::string_view> NamedFormats() { return kNames; }

std::optional<std::string> NamedFormatText(std::string_view name) {
  for (const NamedFormat& format : kFormats) {
    if (format.name != name) continue;
    return format.program != nullptr ? format.program() : Format(format.messages);
  }
  return std::nullopt;
}

}  // namespace kvd
