#include "text/tool_calls/answer_parser.h"

#include "text/tool_calls/answer_machine.h"

namespace kvd {

// ---- answer event
void ParsedAnswer::Add(std::span<const AnswerEvent> events) {
  for (const AnswerEvent& event : events) {
    switch (event.kind) {
      case AnswerEvent::Kind::kContent: content += event.text; break;
      case AnswerEvent::Kind::kReasoning: reasoning += event.text; break;
      case AnswerEvent::Kind::kCallBegin:
        calls.push_back(
            {.id = event.id, .name = event.text, .arguments = {}, .is_complete = false});
        break;
      case AnswerEvent::Kind::kArguments: calls.back().arguments += event.text; break;
      case AnswerEvent::Kind::kCallEnd:
        calls.back().is_complete = event.is_complete;
        if (!event.id.empty()) calls.back().id = event.id;
        break;
    }
  }
}

// ---- answer parser
// The machines take one byte at a time, so that the result cannot depend on the cuts. Events of the
// same kind are joined within one Feed.
void AnswerParser::Machine::Emit(AnswerEvent::Kind kind, std::string_view text) {
  if (!events_->empty() && events_->back().kind == kind) {
    events_->back().text += text;
  } else {
    events_->push_back({.kind = kind,
                        .call = kind == AnswerEvent::Kind::kArguments ? call_count_ - 1 : 0,
                        .text = std::string(text),
                        .id = {},
                        .is_complete = true});
  }
}

// Nine letters and digits from a 64-bit mix of the seed and the index (splitmix64, Steele et al.,
// "Fast Splittable Pseudorandom Number Generators", 2014).
std::string AnswerParser::Machine::NewId() const {
  constexpr std::string_view kDigits =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::uint64_t mixed = options_.id_seed + (call_count_ + 1) * 0x9E3779B97F4A7C15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  mixed ^= mixed >> 31;
  std::string id;
  for (int i = 0; i < 9; ++i, mixed /= kDigits.size()) id += kDigits[mixed % kDigits.size()];
  return id;
}

bool AnswerParser::Machine::BeginCall(std::string_view name, std::string_view id) {
  if (call_count_ == kCallsMax) return false;
  OnCallBegin();
  events_->push_back({.kind = AnswerEvent::Kind::kCallBegin,
                      .call = call_count_,
                      .text = std::string(name),
                      .id = id.empty() ? NewId() : std::string(id),
                      .is_complete = true});
  ++call_count_;
  in_call_ = true;
  OnReport();
  return true;
}

void AnswerParser::Machine::AddArguments(std::string_view json) {
  Emit(AnswerEvent::Kind::kArguments, json);
  OnReport();
}

void AnswerParser::Machine::EndCall(std::string_view id) {
  events_->push_back({.kind = AnswerEvent::Kind::kCallEnd,
                      .call = call_count_ - 1,
                      .text = {},
                      .id = std::string(id),
                      .is_complete = true});
  in_call_ = false;
  OnReport();
}

void AnswerParser::Machine::BreakCall() {
  if (!in_call_) return;
  EndCall({});
  events_->back().is_complete = false;
}

AnswerParser::AnswerParser(ToolFormat format, const AnswerOptions& options)
    : machine_(format == ToolFormat::kHarmony ? MakeHarmonyMachine(options)
                                              : MakeMarkedMachine(format, options)) {}
AnswerParser::~AnswerParser() = default;
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;

void AnswerParser::Feed(std::string_view bytes, std::vector<AnswerEvent>& events) {
  machine_->set_events(&events);
  for (const char c : bytes) machine_->Take(c);
}

void AnswerParser::Finish(std::vector<AnswerEvent>& events) {
  machine_->set_events(&events);
  machine_->End();
}

ParsedAnswer ParseAnswer(ToolFormat format, const AnswerOptions& options, std::string_view text) {
  AnswerParser parser(format, options);
  std::vector<AnswerEvent> events;
  parser.Feed(text, events);
  parser.Finish(events);
  ParsedAnswer answer;
  answer.Add(events);
  return answer;
}

}  // namespace kvd
