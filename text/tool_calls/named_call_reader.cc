// Texts between markers, and after the last marker the arguments as a JSON object.
#include <algorithm>
#include <optional>

#include "text/tool_calls/call_reader.h"

namespace kvd {
namespace {

constexpr std::size_t kFieldBytesMax = 512;

class NamedCallReader : public CallReader {
 public:
  NamedCallReader(const NamedCallForm& form, bool in_call) : form_(form) {
    if (in_call || form_.call_open.empty()) {
      StartCall();
    } else {
      Choose(Place::kOpen, {form_.call_open});
    }
  }

  Step Take(char c, CallOutput& output) override {
    switch (place_) {
      case Place::kList: return list_->Take(c, output);
      case Place::kOpen:
      case Place::kNext: return Open(c);
      case Place::kField: return Field(c, output);
      case Place::kArguments: return Arguments(c, output);
      case Place::kClose: return Close(c);
    }
    return Step::kFail;
  }

 private:
  using Part = NamedCallForm::Part;
  enum class Place : std::uint8_t { kOpen, kField, kList, kArguments, kClose, kNext };

  void Choose(Place place, std::vector<std::string_view> literals) {
    place_ = place;
    choice_ = LiteralChoice(std::move(literals));
  }

  void StartCall() {
    place_ = Place::kField;
    part_ = form_.first;
    field_.clear();
    name_.clear();
    id_.clear();
    arguments_.reset();
  }

  // At the beginning of a call; after a call also at the end of the section.
  Step Open(char c) {
    const int found = choice_.Take(c);
    if (found == LiteralChoice::kFail) return Step::kFail;
    if (found == 1) return Step::kDone;
    if (found == 0) StartCall();
    return Step::kMore;
  }

  Step Field(char c, CallOutput& output) {
    if (field_.empty() && IsJsonSpace(c)) return Step::kMore;
    if (field_.empty() && form_.takes_list && c == '[') {
      list_ = MakeJsonCallReader({});
      place_ = Place::kList;
      return list_->Take(c, output);
    }
    field_ += c;
    if (field_.size() > kFieldBytesMax) return Step::kFail;
    for (const NamedCallForm::Marker& marker : form_.markers) {
      if (marker.part != part_ || !field_.ends_with(marker.text)) continue;
      field_.resize(field_.size() - marker.text.size());
      while (!field_.empty() && IsJsonSpace(field_.back())) field_.pop_back();
      if (!EndField()) return Step::kFail;
      part_ = marker.next;
      if (part_ != Part::kArguments) return Step::kMore;
      place_ = Place::kArguments;
      // A marker that is a brace begins the arguments itself.
      return marker.text == "{" ? Arguments(c, output) : Step::kMore;
    }
    return Step::kMore;
  }

  bool EndField() {
    const std::string field = std::move(field_);
    field_.clear();
    if (part_ == Part::kId) id_ = field;
    if (part_ != Part::kName) return true;
    name_ = field;
    if (form_.has_qualified_name) {
      id_ = field;
      if (name_.starts_with("functions.")) name_.erase(0, 10);
      name_.resize(std::min(name_.size(), name_.rfind(':')));
    }
    return IsFunctionName(name_);
  }

  Step Arguments(char c, CallOutput& output) {
    if (!arguments_) {
      if (IsJsonSpace(c)) return Step::kMore;
      if (c != '{' || !output.BeginCall(name_, id_)) return Step::kFail;
      arguments_.emplace();
    }
    switch (arguments_->Take(c, output)) {
      case JsonScanner::Step::kMore: return Step::kMore;
      case JsonScanner::Step::kFail: return Step::kFail;
      case JsonScanner::Step::kEnd: break;
    }
    output.EndCall({});
    if (form_.call_close.empty()) return EndCall();
    // A model may forget to close a call before the next one.
    std::vector<std::string_view> literals = {form_.call_close};
    if (!form_.call_open.empty()) literals.push_back(form_.call_open);
    if (!form_.fence.empty()) literals.push_back(form_.fence);
    Choose(Place::kClose, std::move(literals));
    return Step::kMore;
  }

  Step Close(char c) {
    const int found = choice_.Take(c);
    if (found == LiteralChoice::kFail) return Step::kFail;
    if (found == 0) return EndCall();
    if (found == 1) StartCall();
    if (found == 2) Choose(Place::kClose, {form_.call_close});
    return Step::kMore;
  }

  Step EndCall() {
    if (form_.section_close.empty()) return Step::kDone;
    Choose(Place::kNext, {form_.call_open, form_.section_close});
    return Step::kMore;
  }

  NamedCallForm form_;
  Place place_ = Place::kOpen;
  LiteralChoice choice_;
  Part part_ = Part::kName;
  std::string field_;
  std::string name_;
  std::string id_;
  std::optional<ArgumentsReader> arguments_;
  std::unique_ptr<CallReader> list_;
};

}  // namespace

std::unique_ptr<CallReader> MakeNamedCallReader(const NamedCallForm& form, bool in_call) {
  return std::make_unique<NamedCallReader>(form, in_call);
}

}  // namespace kvd
