// Calls whose arguments are not JSON: those of LFM2 (Python) and of Gemma 4.
#include <optional>

#include "text/tool_calls/call_reader.h"
#include "text/tool_calls/loose_value.h"

namespace kvd {
namespace {

constexpr std::size_t kNameBytesMax = 256;

class LooseCallReader : public CallReader {
 public:
  LooseCallReader(LooseValue::Dialect dialect, std::string_view opener, std::string_view closer)
      : dialect_(dialect), opener_({opener}), closer_text_(closer) {}

  Step Take(char c, CallOutput& output) override {
    switch (place_) {
      case Place::kList: return list_->Take(c, output);
      case Place::kOpener: return Opener(c);
      case Place::kName: return Name(c, output);
      case Place::kArguments: return Arguments(c, output);
      case Place::kAfterCall: return AfterCall(c);
      case Place::kCloser: return Closer(c);
    }
    return Step::kFail;
  }

  void Finish(CallOutput& output) override {
    if (place_ != Place::kArguments) return;
    std::string json;
    arguments_->Finish(json);
    if (!json.empty()) output.AddArguments(json);
  }

 private:
  enum class Place : std::uint8_t { kOpener, kName, kList, kArguments, kAfterCall, kCloser };

  bool is_python() const { return dialect_ == LooseValue::Dialect::kPython; }

  Step Opener(char c) {
    const int found = opener_.Take(c);
    if (found == LiteralChoice::kFail) return Step::kFail;
    if (found == 0) place_ = Place::kName;
    return Step::kMore;
  }

  Step Name(char c, CallOutput& output) {
    if (name_.empty() && IsJsonSpace(c)) return Step::kMore;
    if (is_python() && is_first_ && name_.empty() && c == '{') {
      list_ = MakeJsonCallReader({.closer = closer_text_, .is_bare = false});
      place_ = Place::kList;
      (void)list_->Take('[', output);
      return list_->Take(c, output);
    }
    if (c != (is_python() ? '(' : '{')) {
      name_ += c;
      return name_.size() > kNameBytesMax ? Step::kFail : Step::kMore;
    }
    if (!IsFunctionName(name_) || !output.BeginCall(name_, {})) return Step::kFail;
    name_.clear();
    is_first_ = false;
    arguments_.emplace(dialect_);
    place_ = Place::kArguments;
    return Arguments(c, output);
  }

  Step Arguments(char c, CallOutput& output) {
    std::string json;
    const JsonScanner::Step step = arguments_->Take(c, json);
    if (step == JsonScanner::Step::kFail) return Step::kFail;
    if (!json.empty()) output.AddArguments(json);
    if (step == JsonScanner::Step::kMore) return Step::kMore;
    output.EndCall({});
    closer_ = LiteralChoice({closer_text_});
    place_ = is_python() ? Place::kAfterCall : Place::kCloser;
    return Step::kMore;
  }

  Step AfterCall(char c) {
    if (IsJsonSpace(c)) return Step::kMore;
    if (c != ',' && c != ']') return Step::kFail;
    place_ = c == ',' ? Place::kName : Place::kCloser;
    return Step::kMore;
  }

  Step Closer(char c) {
    switch (closer_.Take(c)) {
      case LiteralChoice::kMore: return Step::kMore;
      case 0: return Step::kDone;
      default: return Step::kFail;
    }
  }

  LooseValue::Dialect dialect_;
  LiteralChoice opener_;
  std::string_view closer_text_;
  LiteralChoice closer_;
  Place place_ = Place::kOpener;
  bool is_first_ = true;
  std::string name_;
  std::optional<LooseValue> arguments_;
  std::unique_ptr<CallReader> list_;
};

}  // namespace

std::unique_ptr<CallReader> MakePythonCallReader(std::string_view closer) {
  return std::make_unique<LooseCallReader>(LooseValue::Dialect::kPython, "[", closer);
}

std::unique_ptr<CallReader> MakeGemmaCallReader() {
  return std::make_unique<LooseCallReader>(LooseValue::Dialect::kGemma, "call:", "<tool_call|>");
}

}  // namespace kvd
