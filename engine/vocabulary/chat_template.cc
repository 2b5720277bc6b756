// Most chat formats put the same frame around every message. The formats of Llama 2, Mistral and
// Gemma treat the three roles differently.
#include "engine/vocabulary/chat_template.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace kvd {
namespace {

struct NamedTemplate {
  ChatTemplate kind;
  std::string_view name;
};

constexpr auto kNames = std::to_array<NamedTemplate>({
    {ChatTemplate::kChatml, "chatml"},
    {ChatTemplate::kLlama2, "llama2"},
    {ChatTemplate::kLlama2Sys, "llama2-sys"},
    {ChatTemplate::kLlama2SysBos, "llama2-sys-bos"},
    {ChatTemplate::kLlama2SysStrip, "llama2-sys-strip"},
    {ChatTemplate::kLlama3, "llama3"},
    {ChatTemplate::kMistralV1, "mistral-v1"},
    {ChatTemplate::kMistralV3, "mistral-v3"},
    {ChatTemplate::kMistralV3Tekken, "mistral-v3-tekken"},
    {ChatTemplate::kMistralV7, "mistral-v7"},
    {ChatTemplate::kMistralV7Tekken, "mistral-v7-tekken"},
    {ChatTemplate::kZephyr, "zephyr"},
    {ChatTemplate::kZephyrEos, "zephyr-eos"},
    {ChatTemplate::kGemma, "gemma"},
    {ChatTemplate::kPhi3, "phi3"},
    {ChatTemplate::kNotebook, "notebook"},
});

std::string_view Trim(std::string_view text) {
  constexpr std::string_view space = " \t\n\v\f\r";
  std::size_t begin = text.find_first_not_of(space);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

bool Has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// The format of a template that contains "[INST]".
ChatTemplate RecogniseInstTemplate(std::string_view text) {
  if (Has(text, "[SYSTEM_PROMPT]")) return ChatTemplate::kMistralV7;
  if (Has(text, "' [INST] ' + system_message") || Has(text, "[AVAILABLE_TOOLS]")) {
    if (Has(text, " [INST]")) return ChatTemplate::kMistralV1;
    return Has(text, "\"[INST]\"") ? ChatTemplate::kMistralV3Tekken : ChatTemplate::kMistralV3;
  }
  if (Has(text, "content.strip()")) return ChatTemplate::kLlama2SysStrip;
  if (Has(text, "bos_token + '[INST]")) return ChatTemplate::kLlama2SysBos;
  return Has(text, "<<SYS>>") ? ChatTemplate::kLlama2Sys : ChatTemplate::kLlama2;
}

// Phi-3's template and the bundled model's have the same markers; only Phi-3's template writes line
// ends: as an escape, within quotes, or after a marker.
bool WritesLineEnds(std::string_view text) {
  return Has(text, "\\n") || Has(text, "'\n") || Has(text, "\"\n") || Has(text, "|>\n");
}

// Whether the expression that writes the user's message appends the EOS.
bool EndsUserTurnWithEos(std::string_view text) {
  std::size_t begin = text.find("<|user|>");
  std::string_view expression = text.substr(begin, text.find("}}", begin) - begin);
  return Has(expression, "eos_token");
}

// The frame around every message, independent of its role.
struct Frame {
  std::string_view before_role;
  std::string_view after_role;
  std::string_view after_content;
  bool trim = false;
};

std::optional<Frame> FrameOf(ChatTemplate kind) {
  switch (kind) {
    case ChatTemplate::kChatml: return Frame{"<|im_start|>", "\n", "<|im_end|>\n"};
    case ChatTemplate::kLlama3:
      return Frame{"<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", true};
    case ChatTemplate::kZephyr: return Frame{"<|", "|>\n", "<|endoftext|>\n"};
    case ChatTemplate::kPhi3: return Frame{"<|", "|>\n", "<|end|>\n"};
    case ChatTemplate::kNotebook: return Frame{"<|", "|>", "<|end|>"};
    default: return std::nullopt;
  }
}

std::string WriteFramed(const Frame& frame, std::span<const ChatMessage> messages,
                        bool add_assistant) {
  std::string text;
  for (const ChatMessage& message : messages) {
    text.append(frame.before_role).append(message.role).append(frame.after_role);
    text.append(frame.trim ? Trim(message.content) : std::string_view(message.content))
        .append(frame.after_content);
  }
  if (add_assistant) text.append(frame.before_role).append("assistant").append(frame.after_role);
  return text;
}

// Llama 2: "[INST] " opens a turn, and the assistant's message closes it.
std::string WriteLlama2(ChatTemplate kind, std::span<const ChatMessage> messages) {
  std::string text = "[INST] ";
  bool open = true;
  for (const ChatMessage& message : messages) {
    std::string_view content = message.content;
    if (kind == ChatTemplate::kLlama2SysStrip) content = Trim(content);
    if (!open) text.append(kind == ChatTemplate::kLlama2SysBos ? "<s>[INST] " : "[INST] ");
    open = message.role != "assistant";
    if (message.role == "assistant") {
      text.append(content).append("</s>");
    } else if (message.role == "user") {
      text.append(content).append(" [/INST]");
    } else if (kind == ChatTemplate::kLlama2) {
      text.append(content).append("\n");
    } else {
      text.append("<<SYS>>\n").append(content).append("\n<</SYS>>\n\n");
    }
  }
  return text;
}

// Mistral's first versions differ in the spaces around "[INST]" and in whether the answer is
// trimmed.
std::string WriteMistral(ChatTemplate kind, std::span<const ChatMessage> messages) {
  std::string_view before = kind == ChatTemplate::kMistralV1 ? " " : "";
  std::string_view after = kind == ChatTemplate::kMistralV3Tekken ? "" : " ";
  std::string text;
  bool open = false;
  for (const ChatMessage& message : messages) {
    if (!open) text.append(before).append("[INST]").append(after);
    open = message.role != "assistant";
    if (message.role == "system") {
      text.append(message.content).append("\n\n");
    } else if (message.role == "user") {
      text.append(message.content).append(before).append("[/INST]");
    } else {
      bool trim = kind == ChatTemplate::kMistralV3;
      text.append(after)
          .append(trim ? Trim(message.content) : std::string_view(message.content))
          .append("</s>");
    }
  }
  return text;
}

std::string WriteMistralV7(ChatTemplate kind, std::span<const ChatMessage> messages) {
  std::string_view space = kind == ChatTemplate::kMistralV7Tekken ? "" : " ";
  std::string text;
  for (const ChatMessage& message : messages) {
    if (message.role == "system") {
      text.append("[SYSTEM_PROMPT]")
          .append(space)
          .append(message.content)
          .append("[/SYSTEM_PROMPT]");
    } else if (message.role == "user") {
      text.append("[INST]").append(space).append(message.content).append("[/INST]");
    } else {
      text.append(space).append(message.content).append("</s>");
    }
  }
  return text;
}

std::string WriteGemma(std::span<const ChatMessage> messages, bool add_assistant) {
  std::string text;
  std::string system;  // the system text, which is put into the user's next message
  for (const ChatMessage& message : messages) {
    if (message.role == "system") {
      system.append(Trim(message.content));
      continue;
    }
    bool user = message.role == "user";
    text.append("<start_of_turn>").append(user ? "user" : "model").append("\n");
    if (user && !system.empty()) text.append(std::exchange(system, {})).append("\n\n");
    text.append(Trim(message.content)).append("<end_of_turn>\n");
  }
  if (add_assistant) text.append("<start_of_turn>model\n");
  return text;
}

Status CheckMessages(std::span<const ChatMessage> messages) {
  if (messages.empty()) return Fail(Code::kInvalidArgument, "messages: a chat needs at least one");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role == "system" || role == "user" || role == "assistant") continue;
    return Fail(Code::kInvalidArgument, "messages[", i, "].role: '", role.substr(0, 40),
                "' is not system, user or assistant");
  }
  return {};
}

}  // namespace

std::string_view ChatTemplateName(ChatTemplate kind) {
  auto found = std::ranges::find(kNames, kind, &NamedTemplate::kind);
  return found == kNames.end() ? "unknown" : found->name;
}

ChatTemplate RecogniseChatTemplate(std::string_view text) {
  auto named = std::ranges::find(kNames, text, &NamedTemplate::name);
  if (named != kNames.end()) return named->kind;
  if (Has(text, "<|im_start|>")) {
    // The formats of Phi-4 and SmolVLM also contain the first marker of ChatML, but have other
    // frames.
    bool other = Has(text, "<|im_sep|>") || Has(text, "<end_of_utterance>");
    return other ? ChatTemplate::kUnknown : ChatTemplate::kChatml;
  }
  if (text.starts_with("mistral") || Has(text, "[INST]")) return RecogniseInstTemplate(text);
  if (Has(text, "<|assistant|>") && Has(text, "<|end|>")) {
    return WritesLineEnds(text) ? ChatTemplate::kPhi3 : ChatTemplate::kNotebook;
  }
  if (Has(text, "[gMASK]<sop>")) return ChatTemplate::kUnknown;
  if (Has(text, "<|user|>") && Has(text, "<|endoftext|>")) return ChatTemplate::kZephyr;
  if (Has(text, "<|user|>") && Has(text, "<|assistant|>")) {
    return EndsUserTurnWithEos(text) ? ChatTemplate::kZephyrEos : ChatTemplate::kUnknown;
  }
  if (Has(text, "<start_of_turn>")) return ChatTemplate::kGemma;
  if (Has(text, "<|start_header_id|>") && Has(text, "<|end_header_id|>"))
    return ChatTemplate::kLlama3;
  return ChatTemplate::kUnknown;
}

Result<std::string> ApplyChatTemplate(ChatTemplate kind, std::span<const ChatMessage> messages,
                                      bool add_assistant, std::string_view eos_text) {
  KVD_CHECK_OK(CheckMessages(messages));
  if (std::optional<Frame> frame = FrameOf(kind))
    return WriteFramed(*frame, messages, add_assistant);
  switch (kind) {
    case ChatTemplate::kZephyrEos: {
      std::string end = std::string(eos_text) + "\n";
      return WriteFramed({"<|", "|>\n", end}, messages, add_assistant);
    }
    case ChatTemplate::kLlama2:
    case ChatTemplate::kLlama2Sys:
    case ChatTemplate::kLlama2SysBos:
    case ChatTemplate::kLlama2SysStrip: return WriteLlama2(kind, messages);
    case ChatTemplate::kMistralV1:
    case ChatTemplate::kMistralV3:
    case ChatTemplate::kMistralV3Tekken: return WriteMistral(kind, messages);
    case ChatTemplate::kMistralV7:
    case ChatTemplate::kMistralV7Tekken: return WriteMistralV7(kind, messages);
    case ChatTemplate::kGemma: return WriteGemma(messages, add_assistant);
    default: break;
  }
  return Fail(Code::kUnsupported, "chat template: ", ChatTemplateName(kind));
}

Result<std::string> ApplyChatTemplateText(std::string_view template_text,
                                          std::span<const ChatMessage> messages, bool add_assistant,
                                          std::string_view eos_text) {
  ChatTemplate kind = RecogniseChatTemplate(template_text);
  if (kind == ChatTemplate::kUnknown) {
    constexpr std::size_t shown_bytes = 80;
    std::string shown = template_text.empty()
                            ? "the model has none"
                            : "'" + std::string(template_text.substr(0, shown_bytes)) + "'";
    return Fail(Code::kUnsupported, "chat template: unknown format: ", shown);
  }
  return ApplyChatTemplate(kind, messages, add_assistant, eos_text);
}

}  // namespace kvd
