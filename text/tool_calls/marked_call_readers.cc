// Readers of calls between markers: arguments as a JSON object, and parameters between tags.
#include "text/tool_calls/call_reader.h"

#include <algorithm>
#include <optional>

namespace kvd {

// ---- named call reader
// Texts between markers, and after the last marker the arguments as a JSON object.

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

// ---- tagged call reader
// Parameters between tags. The values have no quotes: the function's schema says whether a text is
// a string. A parameter that can only be a string is reported as it comes; another one is held back
// until its end, because only then is known whether it is JSON.

namespace {

constexpr std::size_t kTaggedFieldBytesMax = 512;

class TaggedCallReader : public CallReader {
 public:
  TaggedCallReader(const TaggedCallForm& form, const ToolTable& tools, bool in_call)
      : form_(form), tools_(tools) {
    if (form_.has_value_lines) line_close_ = std::string("\n").append(form_.value_close);
    if (in_call || form_.call_open.empty()) {
      place_ = Place::kName;
    } else {
      Choose(Place::kOpen, {form_.call_open});
    }
  }

  Step Take(char c, CallOutput& output) override {
    switch (place_) {
      case Place::kOpen: return Open(c);
      case Place::kName: return Name(c, output);
      case Place::kNext: return Next(c, output);
      case Place::kKey: return Key(c);
      case Place::kValueOpen: return ValueOpen(c);
      case Place::kValue: return InValue(c, output);
    }
    return Step::kFail;
  }

  void Finish(CallOutput& output) override {
    if (place_ != Place::kValue || !is_string_ || tail_.empty()) return;
    std::string json;
    OpenValue(json);
    for (const char c : tail_) AppendEscaped(c, json);
    output.AddArguments(json);
  }

 private:
  enum class Place : std::uint8_t { kOpen, kName, kNext, kKey, kValueOpen, kValue };

  void Choose(Place place, std::vector<std::string_view> literals) {
    place_ = place;
    choice_ = LiteralChoice(std::move(literals));
  }

  Step Open(char c) {
    const int found = choice_.Take(c);
    if (found == LiteralChoice::kFail) return Step::kFail;
    if (found == 1) return Step::kDone;
    if (found == 0) {
      place_ = Place::kName;
      field_.clear();
    }
    return Step::kMore;
  }

  // A name ends with its tag. If its tag is a line end, the name also ends where the next tag
  // begins.
  Step Name(char c, CallOutput& output) {
    const bool ends_with_line = form_.name_close == "\n";
    if (ends_with_line && field_.empty() && IsJsonSpace(c)) return Step::kMore;
    if (!ends_with_line || (c != '\n' && c != '<')) {
      field_ += c;
      if (field_.size() > kTaggedFieldBytesMax) return Step::kFail;
      if (ends_with_line || !field_.ends_with(form_.name_close)) return Step::kMore;
      field_.resize(field_.size() - form_.name_close.size());
    }
    while (!field_.empty() && IsJsonSpace(field_.back())) field_.pop_back();
    if (!IsFunctionName(field_) || !output.BeginCall(field_, {})) return Step::kFail;
    name_ = field_;
    output.AddArguments("{");
    is_first_ = true;
    Choose(Place::kNext, {form_.call_close, form_.key_open});
    return ends_with_line && c == '<' ? Next(c, output) : Step::kMore;
  }

  Step Next(char c, CallOutput& output) {
    const int found = choice_.Take(c);
    if (found == LiteralChoice::kFail) return Step::kFail;
    if (found == 1) {
      place_ = Place::kKey;
      field_.clear();
    }
    if (found != 0) return Step::kMore;
    output.AddArguments("}");
    output.EndCall({});
    if (form_.section_close.empty()) return Step::kDone;
    Choose(Place::kOpen, {form_.call_open, form_.section_close});
    return Step::kMore;
  }

  Step Key(char c) {
    field_ += c;
    if (field_.size() > kTaggedFieldBytesMax) return Step::kFail;
    if (!field_.ends_with(form_.key_close)) return Step::kMore;
    field_.resize(field_.size() - form_.key_close.size());
    if (field_.empty()) return Step::kFail;
    if (form_.value_open.empty()) {
      StartValue();
    } else {
      Choose(Place::kValueOpen, {form_.value_open});
    }
    return Step::kMore;
  }

  Step ValueOpen(char c) {
    const int found = choice_.Take(c);
    if (found == 0) StartValue();
    return found == LiteralChoice::kFail ? Step::kFail : Step::kMore;
  }

  void StartValue() {
    place_ = Place::kValue;
    types_ = tools_.TypesOf(name_, field_);
    is_string_ = types_ == kTypeString;
    at_value_begin_ = true;
    is_value_open_ = false;
    tail_.clear();
    value_.clear();
  }

  // Appends what stands before the value's text, once.
  void OpenValue(std::string& json) {
    if (is_value_open_) return;
    is_value_open_ = true;
    json += is_first_ ? "" : ", ";
    is_first_ = false;
    json += QuotedJson(field_);
    json += ": ";
    if (is_string_) json += '"';
  }

  Step InValue(char c, CallOutput& output) {
    if (at_value_begin_ && form_.has_value_lines) {
      at_value_begin_ = false;
      if (c == '\n') return Step::kMore;
    }
    tail_ += c;
    std::string json;
    while (!tail_.empty()) {
      if (tail_ == form_.value_close || tail_ == line_close_) {
        OpenValue(json);
        json += is_string_ ? "\"" : JsonOfText(value_, types_);
        output.AddArguments(json);
        Choose(Place::kNext, {form_.call_close, form_.key_open});
        return Step::kMore;
      }
      if (form_.value_close.starts_with(tail_) || line_close_.starts_with(tail_)) break;
      if (is_string_) {
        OpenValue(json);
        AppendEscaped(tail_.front(), json);
      } else {
        value_ += tail_.front();
      }
      tail_.erase(0, 1);
    }
    if (!json.empty()) output.AddArguments(json);
    return Step::kMore;
  }

  TaggedCallForm form_;
  const ToolTable& tools_;
  std::string line_close_;  // with has_value_lines: a line end and value_close
  Place place_ = Place::kOpen;
  LiteralChoice choice_;
  std::string name_;
  std::string field_;  // the name or key that is being read
  bool is_first_ = true;
  TypeSet types_ = kTypeAny;
  bool is_string_ = false;
  bool at_value_begin_ = false;
  bool is_value_open_ = false;
  std::string tail_;   // bytes that may belong to value_close
  std::string value_;  // the bytes before tail_ of a value that is held back
};

}  // namespace

std::unique_ptr<CallReader> MakeTaggedCallReader(const TaggedCallForm& form, const ToolTable& tools,
                                                 bool in_call) {
  return std::make_unique<TaggedCallReader>(form, tools, in_call);
}

}  // namespace kvd
