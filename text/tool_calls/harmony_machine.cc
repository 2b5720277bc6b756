// Answers in Harmony, the format of gpt-oss: messages with a header and a body.
//
//   <|start|>assistant<|channel|>analysis<|message|>...<|end|>
//   <|start|>assistant to=functions.f<|channel|>commentary json<|message|>{...}<|call|>
//   <|start|>assistant<|channel|>final<|message|>...<|return|>
//
// The recipient may also follow the channel. The prompt ends with "<|start|>assistant", so an
// answer begins inside a header. The channel "analysis" is reasoning; messages to functions are
// calls; every other message is content. A header that is too long, and a call whose body is no
// JSON object, are content. A line end, which is not in the text, separates two messages of the
// same kind. Source: openai/harmony, docs/format.md.
#include <algorithm>
#include <array>

#include "text/tool_calls/answer_machine.h"

namespace kvd {
namespace {

constexpr std::size_t kHeaderBytesMax = 1024;
constexpr std::string_view kRecipient = "to=";
constexpr std::string_view kFunctions = "functions.";
constexpr std::array<std::string_view, 7> kTags = {"<|start|>",   "<|channel|>", "<|constrain|>",
                                                   "<|message|>", "<|end|>",     "<|call|>",
                                                   "<|return|>"};

// The text after the last `mark` up to white space or a tag; empty if the header lacks the mark.
std::string_view WordAfter(std::string_view header, std::string_view mark) {
  const std::size_t at = header.rfind(mark);
  if (at == header.npos) return {};
  const std::string_view word = header.substr(at + mark.size());
  return word.substr(0, word.find_first_of(" \t\r\n<"));
}

class HarmonyMachine : public AnswerParser::Machine {
 public:
  explicit HarmonyMachine(const AnswerOptions& options) : Machine(options) {
    if (options.starts_in_reasoning) place_ = Place::kReasoning;
  }

  void Take(char c) override {
    // Inside of the arguments a tag is text.
    if (place_ == Place::kCall && in_call() && TakeArguments(c)) return;
    hold_ += c;
    while (!hold_.empty()) {
      const auto* const tag = std::ranges::find(kTags, hold_);
      if (tag != kTags.end()) {
        hold_.clear();
        TakeTag(*tag);
        return;
      }
      const bool may_continue = std::ranges::any_of(
          kTags, [&](std::string_view text) { return text.starts_with(hold_); });
      if (may_continue) return;
      const char first = hold_.front();
      hold_.erase(0, 1);
      TakeByte(first);
    }
  }

  void End() override {
    const std::string rest = std::move(hold_);
    hold_.clear();
    for (const char c : rest) TakeByte(c);
    if (place_ == Place::kBegin || place_ == Place::kHeader) RefuseHeader();
    if (place_ == Place::kCall && !in_call()) RefuseCall();
    BreakCall();
  }

 private:
  enum class Place : std::uint8_t {
    kBegin,    // of the answer, in a header that may have no tag yet
    kHeader,   // after <|start|> or <|channel|>
    kBetween,  // after the end of a message
    kContent,
    kReasoning,
    kCall,
    kAfterArguments,
  };

  void OnCallBegin() override {}
  void OnReport() override {}

  void TakeTag(std::string_view tag) {
    if (tag == "<|message|>" && (place_ == Place::kBegin || place_ == Place::kHeader)) {
      return StartBody();
    }
    if (tag == "<|start|>" || tag == "<|channel|>" || tag == "<|constrain|>") {
      const bool in_header = place_ == Place::kBegin || place_ == Place::kHeader;
      if (tag == "<|start|>" || !in_header) EndMessage();
      place_ = Place::kHeader;
      header_ += tag;
      return;
    }
    if (tag == "<|message|>") {
      for (const char c : tag) TakeByte(c);
      return;
    }
    EndMessage();
    place_ = Place::kBetween;
  }

  void TakeByte(char c) {
    switch (place_) {
      case Place::kBegin:
        header_ += c;
        // Without a tag only a recipient can begin a header.
        if (!std::string_view(" to=").starts_with(header_.substr(0, 4))) RefuseHeader();
        break;
      case Place::kHeader: header_ += c; break;
      case Place::kBetween:
        if (IsJsonSpace(c)) break;
        [[fallthrough]];
      case Place::kContent: AddContent(std::string_view(&c, 1)); break;
      case Place::kReasoning: AddReasoning(c); break;
      case Place::kCall: BeginArguments(c); break;
      case Place::kAfterArguments:
        if (!IsJsonSpace(c)) AddContent(std::string_view(&c, 1));
        break;
    }
    if (header_.size() > kHeaderBytesMax) RefuseHeader();
  }

  void AddContent(std::string_view text) {
    place_ = Place::kContent;
    if (message_is_new_ && has_content_) Emit(AnswerEvent::Kind::kContent, "\n");
    message_is_new_ = false;
    has_content_ = true;
    Emit(AnswerEvent::Kind::kContent, text);
  }

  void AddReasoning(char c) {
    if (message_is_new_ && has_reasoning_) Emit(AnswerEvent::Kind::kReasoning, "\n");
    message_is_new_ = false;
    has_reasoning_ = true;
    Emit(AnswerEvent::Kind::kReasoning, std::string_view(&c, 1));
  }

  void RefuseHeader() {
    const std::string header = std::move(header_);
    header_.clear();
    place_ = Place::kContent;
    if (!header.empty()) AddContent(header);
  }

  void StartBody() {
    const std::string_view recipient = WordAfter(header_, kRecipient);
    const std::string_view channel = WordAfter(header_, "<|channel|>");
    message_is_new_ = true;
    if (recipient.starts_with(kFunctions)) {
      name_ = recipient.substr(kFunctions.size());
      if (!options().parses_calls || !IsFunctionName(name_)) {
        header_ += "<|message|>";
        return RefuseHeader();
      }
      call_header_ = std::move(header_) + "<|message|>";
      place_ = Place::kCall;
    } else {
      place_ = channel == "analysis" ? Place::kReasoning : Place::kContent;
    }
    header_.clear();
  }

  // Returns false if the byte ends the arguments before they are complete.
  bool TakeArguments(char c) {
    switch (arguments_.Take(c, *this)) {
      case JsonScanner::Step::kMore: break;
      case JsonScanner::Step::kEnd:
        EndCall({});
        message_is_new_ = true;
        place_ = Place::kAfterArguments;
        break;
      case JsonScanner::Step::kFail:
        BreakCall();
        message_is_new_ = true;
        place_ = Place::kContent;
        return false;
    }
    return true;
  }

  // The first bytes of a call's body.
  void BeginArguments(char c) {
    if (IsJsonSpace(c)) return;
    if (c == '{' && BeginCall(name_, {})) {
      arguments_ = ArgumentsReader();
      (void)TakeArguments(c);
      return;
    }
    RefuseCall();
    AddContent(std::string_view(&c, 1));
  }

  void RefuseCall() { AddContent(call_header_); }

  void EndMessage() {
    if (place_ == Place::kBegin || place_ == Place::kHeader) RefuseHeader();
    // A call without a body has no arguments.
    if (place_ == Place::kCall && !in_call()) {
      if (BeginCall(name_, {})) {
        AddArguments("{}");
        EndCall({});
      } else {
        RefuseCall();
      }
    }
    BreakCall();
    message_is_new_ = true;
    header_.clear();
  }

  Place place_ = Place::kBegin;
  std::string hold_;    // the begin of a tag
  std::string header_;  // of the message that begins
  std::string call_header_;
  std::string name_;
  ArgumentsReader arguments_;
  bool message_is_new_ = true;
  bool has_content_ = false;
  bool has_reasoning_ = false;
};

}  // namespace

std::unique_ptr<AnswerParser::Machine> MakeHarmonyMachine(const AnswerOptions& options) {
  return std::make_unique<HarmonyMachine>(options);
}

}  // namespace kvd
