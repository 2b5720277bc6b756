// AnswerParser::Machine: the two machines behind AnswerParser, and what they have in common: the
// events and the ids of calls.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_calls/answer_parser.h"
#include "text/tool_calls/call_reader.h"

namespace kvd {

class AnswerParser::Machine : public CallOutput {
 public:
  explicit Machine(const AnswerOptions& options) : options_(options), tools_(options.tools) {}

  virtual void Take(char c) = 0;
  virtual void End() = 0;

  void set_events(std::vector<AnswerEvent>* events) { events_ = events; }

  bool BeginCall(std::string_view name, std::string_view id) override;
  void AddArguments(std::string_view json) override;
  void EndCall(std::string_view id) override;

 protected:
  // Called whenever a part of a call was reported.
  virtual void OnCallBegin() = 0;
  virtual void OnReport() = 0;

  void Emit(AnswerEvent::Kind kind, std::string_view text);
  void BreakCall();  // ends an open call that is not complete

  const AnswerOptions& options() const { return options_; }
  const ToolTable& tools() const { return tools_; }
  bool in_call() const { return in_call_; }
  std::size_t call_count() const { return call_count_; }

 private:
  std::string NewId() const;

  AnswerOptions options_;
  ToolTable tools_;
  std::vector<AnswerEvent>* events_ = nullptr;
  std::size_t call_count_ = 0;  // calls that have begun
  bool in_call_ = false;
};

std::unique_ptr<AnswerParser::Machine> MakeMarkedMachine(ToolFormat format,
                                                         const AnswerOptions& options);
std::unique_ptr<AnswerParser::Machine> MakeHarmonyMachine(const AnswerOptions& options);

}  // namespace kvd
