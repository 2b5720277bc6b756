// Chats and templates for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "text/chat/chat_formatter.h"

namespace kvd::test {

inline ChatRequest RequestOf(std::string_view json) {
  auto request = ParseChatRequest(json);
  EXPECT_TRUE(request.has_value()) << request.error().message;
  return request ? *request : ChatRequest();
}

// The texts of a model with this default template and the tokens <s> and </s>.
inline ChatTexts TextsWith(std::string_view program) {
  ChatTexts texts;
  texts.templates = {{"", std::string(program)}};
  texts.tokens = {{"bos", "<s>"}, {"eos", "</s>"}};
  return texts;
}

// Returns the text of the chat; an error's message otherwise.
inline std::string Formatted(const ChatTexts& texts, std::string_view json) {
  const ChatRequest request = RequestOf(json);
  const auto formatter =
      ChatFormatter::Create(texts, request.chat_template, !request.tools.is_none());
  if (!formatter) return formatter.error().message;
  const auto text = formatter->Format(request);
  return text ? *text : text.error().message;
}

}  // namespace kvd::test
