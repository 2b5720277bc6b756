// The prompt of a chat, and the commands that show it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "client/client.h"
#include "kvctl/options.h"
#include "text/value.h"

namespace kvd::kvctl {

// The prompt of a chat: the options of the command line and files of JSON become a text by the chat
// template, and the text becomes tokens.

// The text of a chat, and what reading the answer needs.
struct ChatPrompt {
  std::string text;
  Value tools = Value::None();  // in OpenAI's form
  std::string chat_template;    // the text of the template
};

// What stands behind the messages of a chat: the beginning of the answer, or nothing, for a context
// that later messages continue.
enum class ChatEnd : bool { kAnswer, kContext };

// Returns the text of the chat: the system message, the messages of the file, the user's message
// `prompt`, and what `end` says, as far as they are given. Without a prompt and a file the user's
// message is read from standard input, except with kContext. Says on standard error if the model
// has no template. Errors: kInvalidArgument, kNotFound and kUnsupported as ParseChatRequest and
// ChatFormatter; those of files.
Result<ChatPrompt> MakeChatPrompt(const ChatTexts& texts, const ChatOptions& options,
                                  const std::optional<std::string>& prompt,
                                  ChatEnd end = ChatEnd::kAnswer);

// Returns the tokens of the chat's text. The tokens of a new sequence begin with BOS if texts of
// this model do; tokens that are appended to a sequence do not.
Result<std::vector<TokenId>> ChatTokens(const Client& client, const ChatTexts& texts,
                                        std::string text, bool is_new_sequence);

}  // namespace kvd::kvctl
