#include "tests/fuzz/http_json.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace kvd::test {
namespace {

constexpr std::uint8_t kWrongFrom = 216;   // choices from here on are wrong values
constexpr std::uint8_t kAbsentFrom = 250;  // and from here on absent members
constexpr int kDepthMax = 12;

std::string Repeated(std::string_view text, std::size_t count) {
  std::string all;
  all.reserve(text.size() * count);
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

std::string Nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

// What is wrong for most types. The long ones come last.
const std::array<std::string, 34>& WrongValues() {
  static const std::array<std::string, 34> values = {"null",
                                                     "null",
                                                     "null",
                                                     "null",
                                                     "null",
                                                     "null",
                                                     "null",
                                                     "null",
                                                     "true",
                                                     "0",
                                                     "-1",
                                                     "1.5",
                                                     "\"x\"",
                                                     "\"\"",
                                                     "[]",
                                                     "{}",
                                                     "[null]",
                                                     "[1,\"a\"]",
                                                     "{\"a\":null}",
                                                     "[[]]",
                                                     "[{}]",
                                                     "{\"type\":null}",
                                                     "{\"type\":\"text\"}",
                                                     "{\"content\":null,\"role\":\"user\"}",
                                                     "1e400",
                                                     "99999999999999999999",
                                                     "false",
                                                     "\"\\ud800\"",
                                                     Nested(20),
                                                     Nested(126),
                                                     Nested(127),
                                                     '"' + std::string(600, 'x') + '"',
                                                     "[" + Repeated("1,", 300) + "1]",
                                                     '"' + Repeated("ab ", 1500) + '"'};
  return values;
}

class JsonMaker {
 public:
  explicit JsonMaker(Choices& choices) : choices_(choices) {}

  void Append(const FieldType& type, std::string& text) {
    const Choices::Scope scope(choices_, &type);
    AppendChosen(type, choices_.Take(), text);
  }

 private:
  void AppendChosen(const FieldType& type, std::uint8_t how, std::string& text) {
    if (how >= kWrongFrom) {
      text += WrongValues()[(how - kWrongFrom) % WrongValues().size()];
      return;
    }
    if (++depth_ > kDepthMax) {
      text += "null";
    } else {
      AppendRight(type, text);
    }
    --depth_;
  }

  void AppendRight(const FieldType& type, std::string& text) {
    switch (type.kind) {
      case FieldType::Kind::kTexts: text += type.texts[choices_.Below(type.texts.size())]; return;
      case FieldType::Kind::kOneOf: {
        Append(*type.types[choices_.Below(type.types.size())], text);
        return;
      }
      case FieldType::Kind::kList: AppendList(*type.types.front(), text); return;
      case FieldType::Kind::kObject: AppendObject(type, text); return;
    }
  }

  void AppendList(const FieldType& item, std::string& text) {
    constexpr std::uint8_t kCounts[] = {1, 1, 2, 1, 2, 3, 1, 0, 2, 1, 4, 3, 2, 6, 1, 5};
    const std::size_t count = kCounts[choices_.Below(std::size(kCounts))];
    text += '[';
    for (std::size_t i = 0; i < count; ++i) {
      if (i != 0) text += ',';
      Append(item, text);
    }
    text += ']';
  }

  struct Member {
    const Field* field;
    std::string value;
  };

  void AddMember(const Field& field, bool is_doubled, std::vector<Member>& members) {
    const Choices::Scope scope(choices_, &field);
    const std::uint8_t how = choices_.Take();
    const auto found = std::ranges::find(members, &field, &Member::field);
    if (how >= kAbsentFrom) {
      if (found != members.end()) members.erase(found);
      return;
    }
    std::string value;
    AppendChosen(*field.type, how, value);
    if (found != members.end() && !is_doubled) {
      found->value = std::move(value);
    } else {
      members.push_back({&field, std::move(value)});
    }
  }

  const Field& FieldAt(const FieldType& type, std::size_t index) {
    for (const auto& fields : {type.fields, type.more_fields, type.further_fields}) {
      if (index < fields.size()) return fields[index];
      index -= fields.size();
    }
    return type.fields.front();
  }

  // The usual members, then chosen ones. The first fields of a type are chosen more often.
  void AppendObject(const FieldType& type, std::string& text) {
    std::vector<Member> members;
    for (const auto& fields : {type.fields, type.more_fields, type.further_fields}) {
      for (const Field& field : fields) {
        if (field.is_usual) AddMember(field, false, members);
      }
    }
    constexpr std::uint8_t kCounts[] = {0, 0, 1, 0, 1, 2, 0, 1, 3, 1, 0, 2, 5, 1, 8, 4};
    const std::size_t picks = kCounts[choices_.Below(std::size(kCounts))];
    const std::size_t all =
        type.fields.size() + type.more_fields.size() + type.further_fields.size();
    for (std::size_t i = 0; i < picks; ++i) {
      const std::uint8_t pick = choices_.Take();
      const std::size_t index = pick < 128 ? pick % type.fields.size() : pick % all;
      AddMember(FieldAt(type, index), pick % 16 == 15, members);
    }
    text += '{';
    for (std::size_t i = 0; i < members.size(); ++i) {
      text += i == 0 ? "\"" : ",\"";
      text += members[i].field->name;
      text += "\":";
      text += members[i].value;
    }
    text += '}';
  }

  Choices& choices_;
  int depth_ = 0;
};

}  // namespace

void AppendJson(const FieldType& type, Choices& choices, std::string& text) {
  JsonMaker(choices).Append(type, text);
}

std::vector<std::pair<std::string, std::string>> QueryOf(std::span<const Field> fields,
                                                         Choices& choices) {
  std::vector<std::pair<std::string, std::string>> query;
  for (const Field& field : fields) {
    const Choices::Scope scope(choices, &field);
    const std::uint8_t how = choices.Take();
    const bool is_there = field.is_usual ? how < kAbsentFrom : how >= 128;
    if (!is_there) continue;
    const auto& texts = field.type->texts;
    query.emplace_back(field.name, texts[choices.Below(texts.size())]);
  }
  return query;
}

void Damage(Choices& choices, std::string& text) {
  const std::size_t count = 1 + choices.Below(4);
  for (std::size_t i = 0; i < count && !text.empty(); ++i) {
    const std::size_t place = (choices.Take() * std::size_t{256} + choices.Take()) % text.size();
    const std::uint8_t what = choices.Take();
    switch (choices.Below(4)) {
      case 0: text[place] = static_cast<char>(what); break;
      case 1: text.erase(place, 1 + what % 8u); break;
      case 2: text.insert(place, text.substr(place, 1 + what % 32u)); break;
      default: text.resize(place); break;
    }
  }
}

}  // namespace kvd::test
