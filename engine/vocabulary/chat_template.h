// Chat templates turn the messages of a chat into the text format that the model was trained on.
//
// A model file contains its template as a Jinja program (tokenizer.chat_template). The daemon does
// not run programs from a file. Instead, common formats are recognised by markers in the program's
// text, as in llama.cpp, and each format is implemented here in C++. The functions are pure and may
// be called from any thread.
//
// The text of a chat does not begin with BOS: tokenize the text with `add_special` and
// `parse_special`. The text of a message is not escaped, so a user who writes "<|end|>" ends the
// turn. Every program that formats chats as plain text has the same limitation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvd {

enum class ChatTemplate : std::uint8_t {
  kUnknown,
  kChatml,     // Qwen, SmolLM, Hermes and many more
  kLlama2,     // Llama 2 and Mistral without system role: the system text begins the first message
  kLlama2Sys,  // with <<SYS>>
  kLlama2SysBos,    // kLlama2Sys with a BOS before every turn
  kLlama2SysStrip,  // kLlama2Sys with white space around messages removed
  kLlama3,
  kMistralV1,
  kMistralV3,
  kMistralV3Tekken,
  kMistralV7,
  kMistralV7Tekken,  // selected only by its name, because its program cannot be distinguished from
                     // that of v7
  kZephyr,           // turns end with <|endoftext|> (StableLM Zephyr)
  kZephyrEos,        // turns end with the vocabulary's EOS (Zephyr, TinyLlama)
  kGemma,            // no system role: the system text is put into the user's next message
  kPhi3,
  kNotebook,  // <|role|>text<|end|> without line ends: the bundled model and Phi-4-mini
};

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

// Returns the format of a template's text, or the format with a name that `ChatTemplateName`
// returns.
ChatTemplate RecogniseChatTemplate(std::string_view template_text);

// "chatml", "llama2-sys", ...: llama.cpp's name if llama.cpp has the format. "unknown" for
// kUnknown.
std::string_view ChatTemplateName(ChatTemplate kind);

// Returns the chat's text. `add_assistant`: the beginning of the assistant's turn is appended (some
// formats have no such beginning; then nothing is appended). `eos_text` is the text of the
// vocabulary's EOS, used by kZephyrEos. Errors: kUnsupported: kUnknown; kInvalidArgument: no
// messages, or a role other than "system", "user" and "assistant".
Result<std::string> ApplyChatTemplate(ChatTemplate kind, std::span<const ChatMessage> messages,
                                      bool add_assistant, std::string_view eos_text = "</s>");

// As ApplyChatTemplate, with the format of the given template's text. The message of kUnsupported
// quotes the start of that text.
Result<std::string> ApplyChatTemplateText(std::string_view template_text,
                                          std::span<const ChatMessage> messages, bool add_assistant,
                                          std::string_view eos_text = "</s>");

}  // namespace kvd
