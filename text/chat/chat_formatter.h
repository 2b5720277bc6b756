// ChatFormatter: formats chats as text with one template.
//
// The template is the model's own, one of the model's named ones, one that the caller gives, or a
// format of NamedFormats(). It runs in the caller's process; the daemon hands out only its text. A
// ChatFormatter is immutable; several threads may use it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "text/chat/chat_request.h"
#include "text/chat/chat_texts.h"
#include "text/chat/template_traits.h"
#include "text/jinja/template.h"

namespace kvd {

class ChatFormatter {
 public:
  // `choice` is ChatRequest::chat_template. If it is empty, a request with tools uses the model's
  // template "tool_use" if there is one, and other requests use the model's default template; a
  // model without a template uses ChatML. Errors: kNotFound (no template has this name; the message
  // lists the names), kInvalidArgument (the template cannot be parsed; line and column).
  static Result<ChatFormatter> Create(const ChatTexts& texts, std::string_view choice,
                                      bool has_tools);

  // As Create, with a Jinja program that may be any text. Errors: kInvalidArgument.
  static Result<ChatFormatter> FromProgram(const ChatTexts& texts, std::string program);

  // Returns the text of a chat. Tokenize it with special tokens parsed and none added; the text
  // begins with BOS if the template writes one. Errors: those of the template (raise_exception's
  // own text), those of AdaptMessages, and kInvalidArgument if continue_final_message is set and
  // the template does not print the content of the last message. REQUIRES: CheckChatRequest
  // accepted the request, which names this template.
  Result<std::string> Format(const ChatRequest& request) const;

  // The model has no template and the caller gave none, so chats are formatted as ChatML.
  bool is_fallback() const { return is_fallback_; }
  const TemplateTraits& traits() const { return traits_; }
  // The text of the template.
  const std::string& source() const { return source_; }

 private:
  static Result<ChatFormatter> Parse(const ChatTexts& texts, std::string program, bool is_fallback);
  ChatFormatter(std::string source, jinja::Template program, TemplateTraits traits, Value tokens,
                bool is_fallback)
      : source_(std::move(source)),
        program_(std::move(program)),
        traits_(std::move(traits)),
        tokens_(std::move(tokens)),
        is_fallback_(is_fallback) {}

  std::string source_;
  jinja::Template program_;
  TemplateTraits traits_;
  Value tokens_;  // a dict: bos_token, eos_token, ...
  bool is_fallback_ = false;
};

}  // namespace kvd
