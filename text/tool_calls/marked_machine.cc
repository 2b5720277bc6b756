// Answers whose calls begin with a marker, which is every format but Harmony.
//
// In some formats a call may also stand inside the reasoning, which continues after the call.
//
// In content and in reasoning, bytes that may be the begin of a marker are held in hold_. After a
// marker a CallReader takes the bytes; those that it has not reported yet are in held_. When the
// reader refuses a byte, the marker (if no call has begun since) is text, and the held bytes are
// read once more as text, where they may contain another marker. A marker that failed is not
// tried again, so each failure consumes at least its marker.
#include <algorithm>
#include <deque>

#include "text/tool_calls/answer_machine.h"
#include "text/tool_calls/call_reader.h"

namespace kvd {
namespace {

// Of bytes that are read once more after a call has failed. Bytes in front of them are text without
// a search for markers, so that the work for each byte is bounded.
constexpr std::size_t kReadAgainBytesMax = 512;
// Of white space that is held back because a call may follow; longer white space is content.
constexpr std::size_t kSpaceBytesMax = 4096;

class MarkedMachine : public AnswerParser::Machine {
 public:
  MarkedMachine(ToolFormat format, const AnswerOptions& options)
      : Machine(options), format_(format), form_(FormOf(format)) {
    if (!options.parses_calls) form_.markers.clear();
    if (options.starts_in_reasoning && !options.reasoning.close.empty()) {
      mode_ = Mode::kReasoning;
      has_reasoning_ = true;
    }
    // GLM's template writes a line end before the content, also after a prompt without reasoning.
    skips_space_ = format == ToolFormat::kGlm;
  }

  void Take(char c) override {
    pending_.push_back(c);
    Drain();
  }

  void End() override {
    while (mode_ == Mode::kCall) {
      reader_->Finish(*this);
      Fail();
      Drain();
    }
    const std::string rest = std::move(hold_);
    hold_.clear();
    AddText(rest);
    if (mode_ != Mode::kReasoning && !after_call_ && !skips_space_) FlushSpace();
  }

 private:
  enum class Mode : std::uint8_t { kContent, kReasoning, kCall };

  void OnReport() override { held_.clear(); }

  void OnCallBegin() override {
    if (after_call_ || !has_content_ || outer_ == Mode::kReasoning ||
        form_.gap == CallGap::kSpace) {
      space_.clear();
    } else if (form_.gap == CallGap::kLine && space_.ends_with('\n')) {
      space_.pop_back();
    }
    FlushSpace();
    after_call_ = true;
    has_begun_ = true;
  }

  void Drain() {
    while (!pending_.empty()) {
      const char c = pending_.front();
      pending_.pop_front();
      switch (mode_) {
        case Mode::kReasoning: ScanReasoning(c); break;
        case Mode::kContent: ScanContent(c); break;
        case Mode::kCall: Read(c); break;
      }
    }
  }

  void ScanReasoning(char c) {
    const std::string& close = options().reasoning.close;
    hold_ += c;
    while (!hold_.empty()) {
      if (hold_ == close) return EndReasoning();
      bool may_continue = close.starts_with(hold_);
      if (const CallMarker* marker = FindMarker(may_continue)) return StartCalls(*marker);
      if (may_continue) return;
      Reason(hold_.front());
      hold_.erase(0, 1);
    }
  }

  void StartReasoning() {
    hold_.clear();
    space_.clear();
    mode_ = Mode::kReasoning;
    has_reasoning_ = true;
    has_reasoning_text_ = false;
  }

  void EndReasoning() {
    hold_.clear();
    space_.clear();
    mode_ = Mode::kContent;
    has_reasoning_ = true;
    skips_space_ = true;
  }

  // Returns the marker that hold_ is, or null. Sets `may_continue` if hold_ is the begin of one.
  const CallMarker* FindMarker(bool& may_continue) const {
    if (mode_ == Mode::kReasoning && !form_.calls_in_reasoning) return nullptr;
    for (const CallMarker& marker : form_.markers) {
      if ((marker.is_first_byte && !is_first()) || !marker.text.starts_with(hold_)) continue;
      if (hold_.size() == marker.text.size()) return &marker;
      may_continue = true;
    }
    return nullptr;
  }

  // White space at both ends of the reasoning is not part of it.
  void Reason(char c) {
    if (IsJsonSpace(c) && space_.size() < kSpaceBytesMax) {
      if (has_reasoning_text_) space_ += c;
      return;
    }
    has_reasoning_text_ = true;
    space_ += c;
    Emit(AnswerEvent::Kind::kReasoning, space_);
    space_.clear();
  }

  // Nothing but white space and reasoning stands before.
  bool is_first() const { return !has_content_ && call_count() == 0; }

  // The tags of reasoning count in front of the answer, where a model may also end reasoning that
  // it has not begun. Those of Gemma, which are tokens of their own, count everywhere.
  void ScanContent(char c) {
    const ReasoningTags& tags = options().reasoning;
    hold_ += c;
    while (!hold_.empty()) {
      bool may_continue = false;
      if ((is_first() && !has_reasoning_) || format_ == ToolFormat::kGemma4) {
        if (hold_ == tags.open) return StartReasoning();
        if (hold_ == tags.close) return EndReasoning();
        may_continue = tags.open.starts_with(hold_) || tags.close.starts_with(hold_);
      }
      if (const CallMarker* marker = FindMarker(may_continue)) return StartCalls(*marker);
      if (may_continue) return;
      Content(hold_.front());
      hold_.erase(0, 1);
    }
  }

  void Content(char c) {
    if (IsJsonSpace(c) && space_.size() < kSpaceBytesMax) {
      space_ += c;
      return;
    }
    // White space between the reasoning and the content belongs to neither.
    if (skips_space_) space_.clear();
    skips_space_ = false;
    space_ += c;
    FlushSpace();
    after_call_ = false;
  }

  void FlushSpace() {
    if (space_.empty()) return;
    Emit(AnswerEvent::Kind::kContent, space_);
    has_content_ = true;
    space_.clear();
  }

  void StartCalls(const CallMarker& marker) {
    outer_ = mode_;
    mode_ = Mode::kCall;
    hold_.clear();
    held_.clear();
    marker_ = marker;
    has_begun_ = false;
    reader_ = MakeCallReader(format_, marker.text, tools());
    if (marker.is_first_byte) (void)reader_->Take(marker.text.front(), *this);
  }

  bool BeginCall(std::string_view name, std::string_view id) override {
    if (marker_.is_first_byte && !tools().is_empty() && tools().Find(name) == nullptr) return false;
    return Machine::BeginCall(name, id);
  }

  void Read(char c) {
    held_ += c;
    const CallReader::Step step = reader_->Take(c, *this);
    if (step == CallReader::Step::kDone) {
      mode_ = outer_;
      held_.clear();
    } else if (step == CallReader::Step::kFail || held_.size() > AnswerParser::kHeldBytesMax) {
      Fail();
    }
  }

  void Fail() {
    mode_ = outer_;
    const std::string rest = std::move(held_);
    held_.clear();
    BreakCall();
    if (!has_begun_) AddText(marker_.text);
    const std::size_t text_bytes = rest.size() - std::min(rest.size(), kReadAgainBytesMax);
    AddText(std::string_view(rest).substr(0, text_bytes));
    pending_.insert(pending_.begin(), rest.begin() + static_cast<std::ptrdiff_t>(text_bytes),
                    rest.end());
  }

  // Adds text that contains no marker.
  void AddText(std::string_view text) {
    for (const char c : text) mode_ == Mode::kReasoning ? Reason(c) : Content(c);
  }

  ToolFormat format_;
  FormatForm form_;
  Mode mode_ = Mode::kContent;
  Mode outer_ = Mode::kContent;  // where the present calls stand; it continues after them
  std::deque<char> pending_;     // bytes to read, in front of those that have not come yet
  std::string hold_;             // the begin of a marker, in content and reasoning
  std::string space_;            // white space that has not been reported
  std::string held_;             // bytes of calls since the last report
  CallMarker marker_;            // of the present calls
  std::unique_ptr<CallReader> reader_;
  bool has_begun_ = false;  // a call has begun since the marker
  bool has_reasoning_ = false;
  bool has_reasoning_text_ = false;
  bool has_content_ = false;
  bool skips_space_ = false;  // reasoning came last, apart from white space
  bool after_call_ = false;   // a call came last, apart from white space
};

}  // namespace

std::unique_ptr<AnswerParser::Machine> MakeMarkedMachine(ToolFormat format,
                                                         const AnswerOptions& options) {
  return std::make_unique<MarkedMachine>(format, options);
}

}  // namespace kvd
