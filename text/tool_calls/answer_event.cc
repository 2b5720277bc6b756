#include "text/tool_calls/answer_event.h"

namespace kvd {

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

}  // namespace kvd
