// A container's destructor hands its items to the outermost container that is being destroyed on
// this thread, which destroys them one after the other. So destruction does not recurse.
#include "text/value.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "base/text.h"
#include "base/utf8.h"

namespace kvd {
namespace {

thread_local std::vector<Value>* unfinished = nullptr;

bool HoldsItems(const Value& value) { return value.is_sequence() || value.is_dict(); }

// Destroys the values that `for_each` passes to its argument.
template <class ForEach>
void DestroyAll(const ForEach& for_each) {
  if (unfinished != nullptr) {
    for_each([](Value&& value) {
      if (HoldsItems(value)) unfinished->push_back(std::move(value));
    });
    return;
  }
  std::vector<Value> work;
  for_each([&work](Value&& value) {
    if (HoldsItems(value)) work.push_back(std::move(value));
  });
  unfinished = &work;
  while (!work.empty()) {
    const Value last = std::move(work.back());
    work.pop_back();
  }
  unfinished = nullptr;
}

std::uint64_t AddSaturating(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

std::size_t CodePoints(std::string_view bytes) {
  std::size_t count = 0;
  for (const char byte : bytes) count += (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  return count;
}

std::size_t Mix(std::size_t hash, std::size_t other) {
  return (hash ^ other) * 0x9e3779b97f4a7c15u + (hash >> 29);
}

std::size_t HashOfFloat(double number) {
  if (number == std::floor(number) && std::abs(number) < 9.2e18) {
    return std::hash<std::int64_t>{}(static_cast<std::int64_t>(number));
  }
  return std::hash<double>{}(number);
}

std::shared_ptr<ItemList> MakeItemList(std::vector<Value> items) {
  auto sequence = std::make_shared<ItemList>();
  for (const Value& item : items) {
    sequence->nesting = std::max(sequence->nesting, item.nesting() + 1);
    sequence->node_count = AddSaturating(sequence->node_count, item.node_count());
  }
  sequence->items = std::move(items);
  return sequence;
}

bool EqualNumbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
  if (a.is_float() && b.is_float()) return a.real() == b.real();
  const double real = a.is_float() ? a.real() : b.real();
  const std::int64_t integer = a.is_float() ? b.integer() : a.integer();
  return real == std::floor(real) && std::abs(real) < 9.2e18 &&
         static_cast<std::int64_t>(real) == integer;
}

bool EqualItems(const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::ranges::equal(
      a, b, [](const Value& x, const Value& y) { return x.IsSameAs(y) || Equal(x, y); });
}

bool EqualDicts(const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  return std::ranges::all_of(a.items(), [&b](const Dict::Item& item) {
    if (!b.Contains(item.first)) return false;
    const Value& other = b.Find(item.first);
    return item.second.IsSameAs(other) || Equal(item.second, other);
  });
}

// What Value::object() returns for a Value of another kind.
class NoObject final : public Object {
 public:
  std::string_view type_name() const override { return "no object"; }
};

std::unexpected<Error> OtherKind(std::string_view needed, const Value& value) {
  return Fail(Code::kInvalidArgument, needed, " is needed, not ", value.kind_name());
}

}  // namespace

const Text Value::kNoText;
const ItemList Value::kNoItems;
const Dict Dict::kEmpty;

std::string UndefinedReason::Message() const {
  switch (kind) {
    case Kind::kName: return Concat("'", text, "' is undefined");
    case Kind::kAttribute: return Concat("'", object, "' has no attribute '", text, "'");
    case Kind::kItem: return Concat(object, " has no element ", text);
    case Kind::kHint: return text;
  }
  return text;
}

ItemList::~ItemList() {
  if (nesting == 1) return;
  DestroyAll([this](const auto& take) {
    for (Value& item : items) take(std::move(item));
  });
}

Value Value::Undefined(UndefinedReason reason) {
  Value value;
  value.payload_ = std::make_shared<const UndefinedReason>(std::move(reason));
  return value;
}

Value Value::None() {
  Value value;
  value.kind_ = Kind::kNone;
  return value;
}

Value Value::Bool(bool truth) {
  Value value;
  value.kind_ = Kind::kBool;
  value.scalar_.truth = truth;
  return value;
}

Value Value::Int(std::int64_t number) {
  Value value;
  value.kind_ = Kind::kInt;
  value.scalar_.integer = number;
  return value;
}

Value Value::Float(double number) {
  Value value;
  value.kind_ = Kind::kFloat;
  value.scalar_.real = number;
  return value;
}

Value Value::String(std::string bytes, bool is_safe) {
  Value value;
  value.kind_ = Kind::kString;
  const std::size_t code_points = CodePoints(bytes);
  value.payload_ = std::make_shared<const Text>(Text{std::move(bytes), code_points, is_safe});
  return value;
}

Value Value::List(std::vector<Value> items) {
  Value value;
  value.kind_ = Kind::kList;
  value.payload_ = MakeItemList(std::move(items));
  return value;
}

Value Value::Tuple(std::vector<Value> items) {
  Value value;
  value.kind_ = Kind::kTuple;
  const std::shared_ptr<ItemList> sequence = MakeItemList(std::move(items));
  sequence->hash = sequence->items.size();
  for (const Value& item : sequence->items) {
    const std::optional<std::size_t> hash = item.Hash();
    if (!hash) {
      sequence->hash.reset();
      break;
    }
    sequence->hash = Mix(*sequence->hash, *hash);
  }
  value.payload_ = sequence;
  return value;
}

Value Value::Of(Dict dict) {
  Value value;
  value.kind_ = Kind::kDict;
  value.payload_ = std::make_shared<const Dict>(std::move(dict));
  return value;
}

Value Value::Of(Object& object) {
  Value value;
  value.kind_ = Kind::kObject;
  value.scalar_.object = &object;
  return value;
}

const Value& Value::Missing() {
  static const Value missing;
  return missing;
}

Object& Value::no_object() {
  static NoObject none;
  return none;
}

std::string_view Value::kind_name() const {
  switch (kind_) {
    case Kind::kUndefined: return "no value";
    case Kind::kNone: return "null";
    case Kind::kBool: return "true or false";
    case Kind::kInt: return "a whole number";
    case Kind::kFloat: return "a number";
    case Kind::kString: return "a text";
    case Kind::kList: return "a list";
    case Kind::kTuple: return "a tuple";
    case Kind::kDict: return "an object";
    case Kind::kObject: return "a function";
  }
  return "no value";
}

Result<bool> Value::AsBool() const {
  if (!is_bool()) return OtherKind("true or false", *this);
  return truth();
}

Result<std::int64_t> Value::AsInt() const {
  constexpr double kExactMax = 9007199254740992;  // 2^53: a float has every whole number up to it
  if (is_int()) return integer();
  if (is_float() && std::trunc(real()) == real() && std::abs(real()) <= kExactMax) {
    return static_cast<std::int64_t>(real());
  }
  return OtherKind("a whole number", *this);
}

Result<double> Value::AsNumber() const {
  if (!is_int() && !is_float()) return OtherKind("a number", *this);
  return number();
}

Result<std::string_view> Value::AsString() const {
  if (!is_string()) return OtherKind("a text", *this);
  return view();
}

Result<std::reference_wrapper<const std::vector<Value>>> Value::AsList() const {
  if (!is_list()) return OtherKind("a list", *this);
  return std::cref(items());
}

Result<std::reference_wrapper<const Dict>> Value::AsDict() const {
  if (!is_dict()) return OtherKind("an object", *this);
  return std::cref(dict());
}

std::uint32_t Value::nesting() const {
  if (is_sequence()) return sequence().nesting;
  return is_dict() ? dict().nesting() : 0;
}

std::uint64_t Value::node_count() const {
  if (is_sequence()) return sequence().node_count;
  return is_dict() ? dict().node_count() : 1;
}

bool Value::IsSameAs(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kNone: return true;
    case Kind::kBool: return truth() == other.truth();
    case Kind::kInt: return integer() == other.integer();
    case Kind::kObject: return &object() == &other.object();
    case Kind::kFloat: return false;
    default: return payload_ == other.payload_;
  }
}

std::optional<std::size_t> Value::Hash() const {
  switch (kind_) {
    case Kind::kUndefined: return 1;
    case Kind::kNone: return 2;
    case Kind::kBool:
    case Kind::kInt: return std::hash<std::int64_t>{}(integer());
    case Kind::kFloat: return HashOfFloat(real());
    case Kind::kString: return std::hash<std::string_view>{}(view());
    case Kind::kTuple: return sequence().hash;
    case Kind::kObject:
      if (!object().is_hashable()) return std::nullopt;
      return object().Hash();
    case Kind::kList:
    case Kind::kDict: return std::nullopt;
  }
  return std::nullopt;
}

bool Equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return EqualNumbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::kString: return a.view() == b.view();
    case Value::Kind::kList:
    case Value::Kind::kTuple: return a.IsSameAs(b) || EqualItems(a.items(), b.items());
    case Value::Kind::kDict: return a.IsSameAs(b) || EqualDicts(a.dict(), b.dict());
    case Value::Kind::kObject: return a.object().Equals(b.object());
    default: return true;  // undefined, None
  }
}

Dict::~Dict() {
  if (nesting_ == 1) return;
  DestroyAll([this](const auto& take) {
    for (Item& item : items_) {
      take(std::move(item.first));
      take(std::move(item.second));
    }
  });
}

std::size_t Dict::IndexOf(const Value& key, std::size_t hash) const {
  const auto is_at = [&](std::size_t index) {
    return hashes_[index] == hash &&
           (items_[index].first.IsSameAs(key) || Equal(items_[index].first, key));
  };
  if (slots_.empty()) {
    for (std::size_t index = 0; index < items_.size(); ++index) {
      if (is_at(index)) return index;
    }
    return kAbsent;
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    if (is_at(slots_[slot] - 1)) return slots_[slot] - 1;
  }
  return kAbsent;
}

std::size_t Dict::IndexOf(const Value& key) const {
  const std::optional<std::size_t> hash = key.Hash();
  return hash ? IndexOf(key, *hash) : kAbsent;
}

std::size_t Dict::IndexOf(std::string_view key) const {
  const std::size_t hash = std::hash<std::string_view>{}(key);
  const auto is_at = [&](std::size_t index) {
    return hashes_[index] == hash && items_[index].first.is_string() &&
           items_[index].first.view() == key;
  };
  if (slots_.empty()) {
    for (std::size_t index = 0; index < items_.size(); ++index) {
      if (is_at(index)) return index;
    }
    return kAbsent;
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    if (is_at(slots_[slot] - 1)) return slots_[slot] - 1;
  }
  return kAbsent;
}

const Value& Dict::Find(const Value& key) const {
  const std::size_t index = IndexOf(key);
  return index == kAbsent ? Value::Missing() : items_[index].second;
}

const Value& Dict::Find(std::string_view key) const {
  const std::size_t index = IndexOf(key);
  return index == kAbsent ? Value::Missing() : items_[index].second;
}

void Dict::Reindex() {
  slots_.assign(slots_.empty() ? 4 * kFewItems : 2 * slots_.size(), 0);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t index = 0; index < items_.size(); ++index) {
    std::size_t slot = hashes_[index] & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = static_cast<std::uint32_t>(index + 1);
  }
}

bool Dict::Set(Value key, Value value) {
  const std::optional<std::size_t> hash = key.Hash();
  if (!hash) return false;
  nesting_ = std::max({nesting_, key.nesting() + 1, value.nesting() + 1});
  node_count_ = AddSaturating(node_count_, AddSaturating(key.node_count(), value.node_count()));
  const std::size_t index = IndexOf(key, *hash);
  if (index != kAbsent) {
    items_[index].second = std::move(value);
    return true;
  }
  items_.emplace_back(std::move(key), std::move(value));
  hashes_.push_back(*hash);
  if (slots_.empty()) {
    if (items_.size() > kFewItems) Reindex();
  } else if (2 * items_.size() > slots_.size()) {
    Reindex();
  } else {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = *hash & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = static_cast<std::uint32_t>(items_.size());
  }
  return true;
}

void Dict::Set(std::string_view key, Value value) {
  Set(Value::String(std::string(key)), std::move(value));
}

}  // namespace kvd
