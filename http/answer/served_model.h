// ServedModel: what the routes need to know of the model of one daemon: its names, its numbers, its
// chat templates with their formats of calls and reasoning.
//
// A ServedModel is made once, after the first session with its daemon was opened, and is not
// changed afterwards, but for the cache of parsed templates.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/backend/daemon_session.h"
#include "http/loop/await.h"
#include "http/options/settings.h"
#include "text/chat/chat_formatter.h"
#include "text/chat/chat_texts.h"
#include "text/tool_calls/tool_format.h"
#include "text/tool_calls/tool_grammar.h"

namespace kvd::http {

// A chat template and what its text says about answers.
struct TemplateReading {
  ChatFormatter formatter;
  ToolFormat tool_format = ToolFormat::kJson;
  ReasoningTags reasoning;
  // Markers of calls and reasoning that are one token of the vocabulary.
  std::vector<MarkerToken> markers;
};

class ServedModel {
 public:
  // Errors: those of the session; kInvalidArgument: the template of the settings cannot be parsed.
  static Await<Result<std::unique_ptr<ServedModel>>> Create(DaemonSession& session,
                                                            const Settings& settings,
                                                            std::vector<std::string> names);

  // The first name is the id that replies show.
  const std::vector<std::string>& names() const { return names_; }
  const std::string& id() const { return names_.front(); }
  const Settings& settings() const { return settings_; }
  const wire::InfoReply& info() const { return info_; }
  const ChatTexts& texts() const { return texts_; }
  const std::string& path() const { return path_; }  // of the model's file, as it was given
  std::int64_t created_unix_s() const { return created_unix_s_; }
  std::uint32_t slot_count() const { return slot_count_; }
  // The most tokens of a sequence: prompt and answer.
  std::uint32_t slot_cells() const { return slot_cells_; }
  std::string bos_text() const;  // empty: none
  std::string eos_text() const;

  // The template of a request's chats. `choice`: ChatRequest::chat_template; empty: the template of
  // the settings, else the model's. Errors: those of ChatFormatter::Create.
  Await<Result<std::shared_ptr<const TemplateReading>>> ReadTemplate(DaemonSession& session,
                                                                     const std::string& choice,
                                                                     bool has_tools);

 private:
  ServedModel(const Settings& settings, std::vector<std::string> names)
      : settings_(settings), names_(std::move(names)) {}

  const Settings& settings_;
  std::vector<std::string> names_;
  std::string path_;
  wire::InfoReply info_{};
  ChatTexts texts_;
  std::int64_t created_unix_s_ = 0;
  std::uint32_t slot_count_ = 0;
  std::uint32_t slot_cells_ = 0;
  std::map<std::string, std::shared_ptr<const TemplateReading>>
      readings_;  // by choice, at most kReadingsMax
};

}  // namespace kvd::http
