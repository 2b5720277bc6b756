// Chat templates: the messages of a chat as the one text that the model was trained on.
//
// A model file holds its template as a Jinja program (tokenizer.chat_template). Programs of a file
// are not run; the formats that people meet are recognised by the markers in the program's text, as
// llama.cpp does it, and written by hand here. Pure functions, any thread.
//
// The text begins without BOS: tokenize it with `add_special` and `parse_special`. A message's text
// is not escaped, so a user who writes "<|end|>" ends the turn, in every program that formats this
// way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shm/error.h"

namespace kvd {

enum class ChatTemplate : std::uint8_t {
  kUnknown,
  kChatml,     // Qwen, SmolLM, Hermes and many more
  kLlama2,     // also Mistral before it had a system role: the system text joins the first message
  kLlama2Sys,  // with <<SYS>>
  kLlama2SysBos,    // and a BOS before every turn
  kLlama2SysStrip,  // and messages without the white space around them
  kLlama3,
  kMistralV1,
  kMistralV3,
  kMistralV3Tekken,
  kMistralV7,
  kMistralV7Tekken,  // by its name only, its program looks like v7's
  kZephyr,           // turns end with <|endoftext|> (StableLM Zephyr)
  kZephyrEos,        // turns end with the vocabulary's EOS (Zephyr, TinyLlama)
  kGemma,            // no system role: its text joins the next message of the user
  kPhi3,
  kNotebook,  // <|role|>text<|end|> without line ends: the bundled model's, Phi-4-mini's
};

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

// The format of a template's text, or of one of the names of `ChatTemplateName`.
ChatTemplate RecogniseChatTemplate(std::string_view template_text);

// "chatml", "llama2-sys", ...; llama.cpp's names where it has the format. "unknown" for kUnknown.
std::string_view ChatTemplateName(ChatTemplate kind);

// The chat's text, after it the beginning of the assistant's turn if `add_assistant` (formats in
// which nothing begins that turn stay as they are). `eos_text` is the text of the vocabulary's EOS,
// for kZephyrEos. kUnsupported: kUnknown; kInvalidArgument: no messages, or a role that is none of
// the three.
Result<std::string> ApplyChatTemplate(ChatTemplate kind, std::span<const ChatMessage> messages,
                                      bool add_assistant, std::string_view eos_text = "</s>");

// The same for the text of a template; the message of kUnsupported shows where the text begins.
Result<std::string> ApplyChatTemplateText(std::string_view template_text,
                                          std::span<const ChatMessage> messages, bool add_assistant,
                                          std::string_view eos_text = "</s>");

}  // namespace kvd
