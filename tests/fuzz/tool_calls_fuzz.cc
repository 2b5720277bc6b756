// Parses any bytes as a model's answer, as a whole and cut into pieces.
//
// The first byte of an input chooses the format, the second the options, the third the cuts.
// Oracle, in addition to the sanitizers: both answers are the same; no event is empty or out of
// order; the arguments of a complete call are a JSON object (control characters and all else that
// JsonScanner checks); a text of n bytes yields at most kGrowthMax * n bytes. Seeds:
// make_corpus tool_calls FOLDER.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tests/text/tool_calls/answer_cases.h"
#include "text/tool_calls/answer_parser.h"
#include "text/tool_calls/json_scanner.h"

namespace {

using namespace kvd;

// A control character becomes six bytes; the quotes of keys and the braces come in addition.
constexpr std::size_t kGrowthMax = 8;

bool IsObject(std::string_view text) {
  JsonScanner scanner;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const JsonScanner::Step step = scanner.Take(text[i]);
    if (step == JsonScanner::Step::kMore) continue;
    return step == JsonScanner::Step::kEnd && i + 1 == text.size();
  }
  return false;
}

void CheckOrder(const std::vector<AnswerEvent>& events, std::size_t& calls, bool& in_call) {
  for (const AnswerEvent& event : events) {
    switch (event.kind) {
      case AnswerEvent::Kind::kCallBegin:
        KVD_ASSERT(!in_call && event.call == calls && !event.text.empty() && !event.id.empty());
        in_call = true;
        ++calls;
        break;
      case AnswerEvent::Kind::kArguments:
        KVD_ASSERT(in_call && event.call == calls - 1 && !event.text.empty());
        break;
      case AnswerEvent::Kind::kCallEnd:
        KVD_ASSERT(in_call && event.call == calls - 1);
        in_call = false;
        break;
      default: KVD_ASSERT(!in_call && !event.text.empty());
    }
  }
}

ParsedAnswer CutAnswer(ToolFormat format, const AnswerOptions& options, std::string_view text,
                       std::uint8_t cuts) {
  AnswerParser parser(format, options);
  ParsedAnswer answer;
  std::uint32_t random = cuts;
  std::size_t calls = 0;
  bool in_call = false;
  std::vector<AnswerEvent> events;
  while (!text.empty()) {
    random = random * 1664525u + 1013904223u;
    const std::size_t byte_count = cuts == 0 ? 1 : 1 + (random >> 24) % 16;
    events.clear();
    parser.Feed(text.substr(0, byte_count), events);
    CheckOrder(events, calls, in_call);
    answer.Add(events);
    text.remove_prefix(std::min(byte_count, text.size()));
  }
  events.clear();
  parser.Finish(events);
  CheckOrder(events, calls, in_call);
  KVD_ASSERT(!in_call);
  answer.Add(events);
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  if (byte_count < 3) return 0;
  const ToolFormat format = ToolFormats()[data[0] % ToolFormats().size()];
  test::AnswerCase answer{};
  answer.format = format;
  answer.starts_in_reasoning = (data[1] & 1) != 0;
  AnswerOptions options = OptionsOf(answer);
  if ((data[1] & 2) != 0) options.tools = Value::None();
  if ((data[1] & 4) != 0) options.reasoning = {};
  if ((data[1] & 8) != 0) options.parses_calls = false;
  // The copy has no bytes after its end, so that AddressSanitizer detects a read too far.
  const std::vector<char> copy(data + 3, data + byte_count);
  const std::string_view text(copy.data(), copy.size());
  const ParsedAnswer whole = ParseAnswer(format, options, text);
  KVD_ASSERT(whole == CutAnswer(format, options, text, data[2]));
  std::size_t bytes = whole.content.size() + whole.reasoning.size();
  for (const ParsedCall& call : whole.calls) {
    KVD_ASSERT(options.parses_calls);
    KVD_ASSERT(!call.is_complete || IsObject(call.arguments));
    bytes += call.name.size() + call.arguments.size();
  }
  KVD_ASSERT(bytes <= kGrowthMax * text.size());
  return 0;
}
