// A call as a JSON object: {"name": "f", "arguments": {...}}. The keys have any order; arguments
// before the name are held back until the name is known. "parameters" is another key for the
// arguments, "id" for the id; an object {"function": {...}} around both is accepted, and other keys
// are skipped. Arguments that are a string are its text, null and absent ones are {}.
//
// The object is checked by one JsonScanner. The reader looks at the scanner before and after each
// byte to see where values of the call's own level begin and end.
#include <optional>

#include "text/json.h"
#include "text/tool_calls/call_reader.h"

namespace kvd {
namespace {

std::optional<std::string> TextOfJsonString(std::string_view json) {
  std::string escaped;
  for (const char c : json) {
    if (static_cast<unsigned char>(c) < 0x20) {
      AppendEscaped(c, escaped);
    } else {
      escaped += c;
    }
  }
  const auto value = ParseJson(escaped);
  if (!value || !value->is_string()) return std::nullopt;
  return std::string(value->view());
}

// One object.
class JsonCall {
 public:
  explicit JsonCall(bool is_bare) : is_bare_(is_bare) {}

  JsonScanner::Step Take(char c, CallOutput& output) {
    const std::size_t depth = scanner_.depth();
    const bool was_string = scanner_.in_string();
    const bool begins = scanner_.expects_value() && !IsJsonSpace(c);
    const JsonScanner::Step step = scanner_.Take(c);
    if (step == JsonScanner::Step::kFail) return step;
    bool is_good = true;
    if (begins && depth == level_ && depth > 0) {
      is_good = BeginValue(c, output);
    } else if (is_streaming_) {
      Pass(c, output);
    } else if (holds_) {
      held_ += c;
    }
    if (!was_string && scanner_.in_string() && scanner_.is_key() && depth == level_) {
      key_.clear();
      in_key_ = true;
    }
    if (in_key_) key_ += c;
    const bool ends_string = was_string && !scanner_.in_string() && depth == level_;
    if (ends_string && in_key_) {
      in_key_ = false;
      is_good = is_good && EndKey();
    } else if (ends_string || (depth == level_ + 1 && scanner_.depth() == level_)) {
      is_good = is_good && EndValue(output);
    }
    if (level_ == 2 && scanner_.depth() == 1) level_ = 1;
    if (step == JsonScanner::Step::kEnd) is_good = is_good && End(output);
    return is_good ? step : JsonScanner::Step::kFail;
  }

 private:
  enum class Role : std::uint8_t { kOther, kName, kArguments, kId };

  static Role RoleOf(std::string_view key) {
    if (key == "name") return Role::kName;
    if (key == "arguments" || key == "parameters") return Role::kArguments;
    return key == "id" ? Role::kId : Role::kOther;
  }

  bool EndKey() {
    const auto key = TextOfJsonString(key_);
    if (!key) return false;
    key_ = *key;
    role_ = RoleOf(key_);
    return !is_bare_ || role_ != Role::kOther || key_ == "type" || key_ == "function";
  }

  bool BeginValue(char c, CallOutput& output) {
    held_.clear();
    switch (role_) {
      case Role::kOther:
        if (key_ == "function" && c == '{' && level_ == 1) level_ = 2;
        return true;
      case Role::kName:
        if (!name_.empty()) {
          role_ = Role::kOther;
          return true;
        }
        holds_ = c == '"';
        break;
      case Role::kId: holds_ = c == '"'; break;
      case Role::kArguments:
        if (has_arguments_) {
          role_ = Role::kOther;
          return true;
        }
        has_arguments_ = true;
        if (c == 'n') {
          held_arguments_ = "{}";
          role_ = Role::kOther;
          return name_.empty() || Begin(output);
        }
        if (c != '"' && c != '{') return false;
        if (c == '{' && !name_.empty()) {
          if (!Begin(output)) return false;
          is_streaming_ = true;
          Pass(c, output);
          return true;
        }
        holds_ = true;
        break;
    }
    if (holds_) held_ = c;
    return holds_ || role_ == Role::kId;
  }

  bool EndValue(CallOutput& output) {
    is_streaming_ = false;
    if (!holds_) return true;
    holds_ = false;
    if (role_ == Role::kArguments && held_.front() == '{') {
      held_arguments_ = std::move(held_);
      return name_.empty() || Begin(output);
    }
    const auto text = TextOfJsonString(held_);
    if (!text) return false;
    if (role_ == Role::kId) {
      id_ = *text;
      return true;
    }
    if (role_ == Role::kArguments) {
      held_arguments_ = text->empty() ? "{}" : *text;
      const auto object = ParseJson(held_arguments_);
      if (!object || !object->is_dict()) return false;
    } else {
      if (!IsFunctionName(*text)) return false;
      name_ = *text;
    }
    return name_.empty() || !has_arguments_ || Begin(output);
  }

  bool End(CallOutput& output) {
    if (name_.empty()) return false;
    if (!has_arguments_) held_arguments_ = "{}";
    if (!has_begun_ && !Begin(output)) return false;
    output.EndCall(id_ == begin_id_ ? std::string() : id_);
    return true;
  }

  bool Begin(CallOutput& output) {
    if (!output.BeginCall(name_, id_)) return false;
    begin_id_ = id_;
    has_begun_ = true;
    if (!held_arguments_.empty()) output.AddArguments(held_arguments_);
    return true;
  }

  void Pass(char c, CallOutput& output) {
    std::string json;
    if (scanner_.in_string() && static_cast<unsigned char>(c) < 0x20) {
      AppendEscaped(c, json);
    } else {
      json = c;
    }
    output.AddArguments(json);
  }

  JsonScanner scanner_;
  bool is_bare_;
  std::size_t level_ = 1;  // of the object with the name
  Role role_ = Role::kOther;
  std::string key_;
  bool in_key_ = false;
  bool is_streaming_ = false;  // the arguments are passed on
  bool holds_ = false;         // the value is collected in held_
  std::string held_;
  std::string held_arguments_;
  bool has_arguments_ = false;
  bool has_begun_ = false;
  std::string name_;
  std::string id_;
  std::string begin_id_;
};

class JsonCallReader : public CallReader {
 public:
  explicit JsonCallReader(const JsonCallForm& form) : form_(form) {}

  Step Take(char c, CallOutput& output) override {
    switch (place_) {
      case Place::kStart:
        if (c == '[' && !is_list_) {
          is_list_ = true;
          return Step::kMore;
        }
        if (IsJsonSpace(c)) return Step::kMore;
        [[fallthrough]];
      case Place::kNext:
        if (IsJsonSpace(c)) return Step::kMore;
        if (c != '{') return Step::kFail;
        call_.emplace(form_.is_bare);
        place_ = Place::kCall;
        [[fallthrough]];
      case Place::kCall:
        switch (call_->Take(c, output)) {
          case JsonScanner::Step::kMore: return Step::kMore;
          case JsonScanner::Step::kFail: return Step::kFail;
          case JsonScanner::Step::kEnd: break;
        }
        place_ = Place::kAfterCall;
        closer_ = LiteralChoice({form_.closer});
        return Step::kMore;
      case Place::kAfterCall: return AfterCall(c, output);
      case Place::kCloser: break;
    }
    return Closer(c);
  }

 private:
  enum class Place : std::uint8_t { kStart, kNext, kCall, kAfterCall, kCloser };

  Step AfterCall(char c, CallOutput& output) {
    if (IsJsonSpace(c)) return Step::kMore;
    if (is_list_) {
      if (c == ',') {
        place_ = Place::kNext;
        return Step::kMore;
      }
      if (c != ']') return Step::kFail;
      if (form_.closer.empty()) return Step::kDone;
      place_ = Place::kCloser;
      return Step::kMore;
    }
    if (c == '{') {
      place_ = Place::kNext;
      return Take(c, output);
    }
    if (form_.is_bare && (c == ';' || c == ',')) {
      place_ = Place::kNext;
      return Step::kMore;
    }
    place_ = Place::kCloser;
    return Closer(c);
  }

  Step Closer(char c) {
    switch (closer_.Take(c)) {
      case LiteralChoice::kMore: return Step::kMore;
      case 0: return Step::kDone;
      default: return Step::kFail;
    }
  }

  JsonCallForm form_;
  Place place_ = Place::kStart;
  bool is_list_ = false;
  std::optional<JsonCall> call_;
  LiteralChoice closer_;
};

}  // namespace

std::unique_ptr<CallReader> MakeJsonCallReader(const JsonCallForm& form) {
  return std::make_unique<JsonCallReader>(form);
}

}  // namespace kvd
