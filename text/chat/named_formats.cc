// Most chat formats put the same frame around every message. In the formats of Llama 2 and Mistral,
// "[INST]" opens a turn, which the assistant's message closes, and a system text begins the turn of
// the user's next message. In the following programs `opens` is true if the next message opens a
// turn.
#include "text/chat/named_formats.h"

#include <array>

#include "base/text.h"

namespace kvd {
namespace {

// Texts and expressions of Jinja. Texts are parts of string literals in '', expressions print the
// content of `m`, a message.
struct Frame {
  std::string_view before_role = "<|";
  std::string_view after_role;
  std::string_view after_content;  // an expression
  std::string_view content = "m.content";
};

std::string Framed(const Frame& frame) {
  return Concat("{% for m in messages %}{{ '", frame.before_role, "' ~ m.role ~ '",
                frame.after_role, "' ~ ", frame.content, " ~ ", frame.after_content,
                " }}{% endfor %}{% if add_generation_prompt %}{{ '", frame.before_role, "assistant",
                frame.after_role, "' }}{% endif %}");
}

// A format with turns: the loop around the expressions that print the opening of a turn and the
// message of each role.
struct Turns {
  std::string_view open;
  std::string_view next_open;  // of every turn but the first
  std::string_view system;
  std::string_view user;
  std::string_view assistant;
};

std::string InTurns(const Turns& turns) {
  return Concat("{% set ns = namespace(opens=true) %}{% for m in messages %}{% if ns.opens %}{{ ",
                turns.open, " if loop.first else ", turns.next_open,
                " }}{% endif %}{% set ns.opens = m.role == 'assistant' %}{{ ", turns.system,
                " if m.role == 'system' else ", turns.assistant, " if m.role == 'assistant' else ",
                turns.user, " }}{% endfor %}");
}

std::string Llama2(std::string_view system, std::string_view content = "m.content",
                   std::string_view next_open = "'[INST] '") {
  const std::string user = Concat(content, " ~ ' [/INST]'");
  const std::string assistant = Concat(content, " ~ '</s>'");
  return InTurns({"'[INST] '", next_open, system, user, assistant});
}

constexpr std::string_view kLlama2System = R"('<<SYS>>\n' ~ m.content ~ '\n<</SYS>>\n\n')";

std::string Mistral(std::string_view open, std::string_view close, std::string_view assistant) {
  const std::string user = Concat("m.content ~ ", close);
  return InTurns({open, open, R"(m.content ~ '\n\n')", user, assistant});
}

// From version 7 on, every message of a user has its own "[INST]".
std::string MistralV7(std::string_view space) {
  return Concat("{% for m in messages %}{% if m.role == 'system' %}{{ '[SYSTEM_PROMPT]", space,
                "' ~ m.content ~ '[/SYSTEM_PROMPT]' }}{% elif m.role == 'user' %}{{ '[INST]", space,
                "' ~ m.content ~ '[/INST]' }}{% else %}{{ '", space,
                "' ~ m.content ~ '</s>' }}{% endif %}{% endfor %}");
}

// Gemma has no system role: a system text begins the user's next message. The assistant is "model".
constexpr std::string_view kGemma =
    R"({% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %})"
    R"({% set ns.system = ns.system ~ (m.content | trim) %}{% else %})"
    R"({{ '<start_of_turn>' ~ ('user' if m.role == 'user' else 'model') ~ '\n' }})"
    R"({% if m.role == 'user' and ns.system %}{{ ns.system ~ '\n\n' }}{% set ns.system = '' %})"
    R"({% endif %}{{ (m.content | trim) ~ '<end_of_turn>\n' }}{% endif %}{% endfor %})"
    R"({% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %})";

struct NamedFormat {
  std::string_view name;
  std::string (*text)();
};

constexpr auto kFormats = std::to_array<NamedFormat>({
    {"chatml",
     [] {
       return Framed({.before_role = "<|im_start|>",
                      .after_role = "\\n",
                      .after_content = "'<|im_end|>\\n'",
                      .content = "(m.content or '')"});
     }},
    {"llama2", [] { return Llama2(R"(m.content ~ '\n')"); }},
    {"llama2-sys", [] { return Llama2(kLlama2System); }},
    {"llama2-sys-bos", [] { return Llama2(kLlama2System, "m.content", "'<s>[INST] '"); }},
    {"llama2-sys-strip",
     [] {
       return Llama2(R"('<<SYS>>\n' ~ (m.content | trim) ~ '\n<</SYS>>\n\n')",
                     "(m.content | trim)");
     }},
    {"llama3",
     [] {
       return Framed({.before_role = "<|start_header_id|>",
                      .after_role = "<|end_header_id|>\\n\\n",
                      .after_content = "'<|eot_id|>'",
                      .content = "(m.content | trim)"});
     }},
    {"mistral-v1", [] { return Mistral("' [INST] '", "' [/INST]'", "' ' ~ m.content ~ '</s>'"); }},
    {"mistral-v3",
     [] { return Mistral("'[INST] '", "'[/INST]'", "' ' ~ (m.content | trim) ~ '</s>'"); }},
    {"mistral-v3-tekken", [] { return Mistral("'[INST]'", "'[/INST]'", "m.content ~ '</s>'"); }},
    {"mistral-v7", [] { return MistralV7(" "); }},
    {"mistral-v7-tekken", [] { return MistralV7(""); }},
    {"zephyr",
     [] { return Framed({.after_role = "|>\\n", .after_content = R"('<|endoftext|>\n')"}); }},
    {"zephyr-eos",
     [] { return Framed({.after_role = "|>\\n", .after_content = R"(eos_token ~ '\n')"}); }},
    {"gemma", [] { return std::string(kGemma); }},
    {"phi3", [] { return Framed({.after_role = "|>\\n", .after_content = R"('<|end|>\n')"}); }},
    {"notebook", [] { return Framed({.after_role = "|>", .after_content = "'<|end|>'"}); }},
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
    if (format.name == name) return format.text();
  }
  return std::nullopt;
}

}  // namespace kvd
