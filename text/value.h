// Value: a value of JSON or of a template's language, with the semantics of Python's values.
//
// No function of a Value or a Dict can end the process. Looking up a member returns a Value, which
// is missing if the member is absent; there is no pointer to check. A Value is read in two ways:
// the functions As...() return an error for a Value of another kind; the accessors that are named
// after a kind return the empty value of their type (decision 0037).
//
// A Value is immutable and cheap to copy: strings, lists, tuples and dicts are shared payloads.
// Values may be copied and read on several threads at once. An Object is an exception: it belongs
// to the render that made it, and a Value with an Object must not outlive that render. Destroying a
// Value takes constant stack, however deeply the value is nested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kvd {

class Dict;
class Value;

// A string in UTF-8. `code_points` is the string's length as Python counts it.
struct Text {
  std::string bytes;
  std::size_t code_points = 0;
  bool is_safe = false;  // markup: escaping leaves it unchanged

  bool is_ascii() const { return code_points == bytes.size(); }
};

// The items of a list or a tuple.
struct ItemList {
  std::vector<Value> items;
  std::uint32_t nesting = 1;        // levels of lists, tuples and dicts; a list of numbers has 1
  std::uint64_t node_count = 1;     // values inside, each as often as it is reached
  std::optional<std::size_t> hash;  // of a tuple; none if an item cannot be hashed

  ItemList() = default;
  ~ItemList();
  ItemList(const ItemList&) = delete;
  ItemList& operator=(const ItemList&) = delete;
};

// Why a value is undefined. The message is that of Jinja2.
struct UndefinedReason {
  enum class Kind : std::uint8_t { kName, kAttribute, kItem, kHint };
  Kind kind = Kind::kName;
  std::string text;    // the name, the attribute, the item as Python's repr(), or the message
  std::string object;  // "dict object"; only with kAttribute and kItem

  std::string Message() const;
};

// An object with behaviour: a function, a namespace, an iterator. The interpreter of a language
// derives its objects from this class, owns them and outlives every Value with them.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;  // Python's name of the type
  virtual bool is_hashable() const { return true; }
  // Python's == and hash(). Equal objects have equal hashes.
  virtual bool Equals(const Object& other) const { return this == &other; }
  virtual std::size_t Hash() const { return std::hash<const void*>{}(this); }
};

class Value {
 public:
  enum class Kind : std::uint8_t {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kList,
    kTuple,
    kDict,
    kObject,
  };

  Value() = default;  // missing: undefined, without a reason
  static Value Undefined(UndefinedReason reason);
  static Value None();
  static Value Bool(bool truth);
  static Value Int(std::int64_t number);
  static Value Float(double number);
  static Value String(std::string bytes, bool is_safe = false);
  static Value List(std::vector<Value> items);
  static Value Tuple(std::vector<Value> items);
  static Value Of(Dict dict);
  static Value Of(Object& object);

  Kind kind() const { return kind_; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_missing() const { return kind_ == Kind::kUndefined && payload_ == nullptr; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_int() const { return kind_ == Kind::kInt; }
  bool is_float() const { return kind_ == Kind::kFloat; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_tuple() const { return kind_ == Kind::kTuple; }
  bool is_sequence() const { return is_list() || is_tuple(); }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_object() const { return kind_ == Kind::kObject; }
  // A bool is a number, as in Python.
  bool is_integral() const { return is_int() || is_bool(); }
  bool is_number() const { return is_integral() || is_float(); }
  bool is_safe_string() const { return is_string() && text().is_safe; }

  // The value of a kind. Errors: kInvalidArgument, "a text is needed, not a list". A bool is no
  // number here, as in JSON; a whole number is a number, and AsInt takes whole floats up to 2^53.
  // References live as long as the Value.
  Result<bool> AsBool() const;
  Result<std::int64_t> AsInt() const;
  Result<double> AsNumber() const;
  Result<std::string_view> AsString() const;
  Result<std::reference_wrapper<const std::vector<Value>>> AsList() const;
  Result<std::reference_wrapper<const Dict>> AsDict() const;
  // "a list", "null", "no value": the kind in a sentence.
  std::string_view kind_name() const;

  // For code that has looked at the kind. Of a Value of another kind: false, 0, or empty.
  bool truth() const { return is_bool() && scalar_.truth; }
  double real() const { return is_float() ? scalar_.real : 0; }
  const Text& text() const { return is_string() ? *Payload<Text>() : kNoText; }
  std::string_view view() const { return text().bytes; }
  const ItemList& sequence() const { return is_sequence() ? *Payload<ItemList>() : kNoItems; }
  const std::vector<Value>& items() const { return sequence().items; }
  const Dict& dict() const;
  Object& object() const { return is_object() ? *scalar_.object : no_object(); }
  const UndefinedReason* reason() const {
    return is_undefined() ? Payload<UndefinedReason>() : nullptr;
  }
  std::int64_t integer() const {
    if (is_int()) return scalar_.integer;
    return truth() ? 1 : 0;
  }
  double number() const { return is_float() ? real() : static_cast<double>(integer()); }

  // The Value that stands for an absent member.
  static const Value& Missing();

  // Levels of lists, tuples and dicts; 0 for other values.
  std::uint32_t nesting() const;
  // The number of values that a walk through this value visits.
  std::uint64_t node_count() const;
  // Returns whether both values have the same payload or are the same scalar (Python's `is`).
  bool IsSameAs(const Value& other) const;
  // Returns none for a list, a dict and what contains one (Python: unhashable).
  std::optional<std::size_t> Hash() const;

 private:
  friend class Dict;

  static const Text kNoText;
  static const ItemList kNoItems;
  static Object& no_object();
  template <class Type>
  const Type* Payload() const {
    return static_cast<const Type*>(payload_.get());
  }

  Kind kind_ = Kind::kUndefined;
  union {
    bool truth;
    std::int64_t integer;
    double real;
    Object* object;
  } scalar_ = {.integer = 0};
  std::shared_ptr<const void> payload_;
};

// Python's ==. An int equals a float of the same number, a list never equals a tuple, and undefined
// values are equal. The work is bounded by the smaller node_count().
bool Equal(const Value& a, const Value& b);

// A mapping from hashable values to values, in the order of insertion.
class Dict {
 public:
  using Item = std::pair<Value, Value>;

  Dict() = default;
  ~Dict();
  Dict(const Dict&) = default;
  Dict(Dict&&) = default;
  Dict& operator=(const Dict&) = default;
  Dict& operator=(Dict&&) = default;

  const std::vector<Item>& items() const { return items_; }
  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  std::uint32_t nesting() const { return nesting_; }
  std::uint64_t node_count() const { return node_count_; }

  // Returns a missing Value if the key is absent. A key that cannot be hashed is absent. The
  // reference lives as long as the Dict is not changed.
  const Value& Find(const Value& key) const;
  const Value& Find(std::string_view key) const;
  bool Contains(const Value& key) const { return IndexOf(key) != kAbsent; }
  bool Contains(std::string_view key) const { return IndexOf(key) != kAbsent; }
  // Replaces the value of an equal key, which keeps its place, or appends the item. Returns false,
  // and does nothing, if the key cannot be hashed.
  bool Set(Value key, Value value);
  void Set(std::string_view key, Value value);

 private:
  static constexpr std::size_t kFewItems = 8;  // found without an index
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);

  // The index of the item with an equal key, or kAbsent.
  std::size_t IndexOf(const Value& key) const;
  std::size_t IndexOf(std::string_view key) const;
  std::size_t IndexOf(const Value& key, std::size_t hash) const;
  void Reindex();

  std::vector<Item> items_;
  std::vector<std::size_t> hashes_;   // of the keys
  std::vector<std::uint32_t> slots_;  // 1 + index of an item, 0: free; empty with few items
  std::uint32_t nesting_ = 1;
  std::uint64_t node_count_ = 1;

 public:
  static const Dict kEmpty;
};

inline const Dict& Value::dict() const { return is_dict() ? *Payload<Dict>() : Dict::kEmpty; }

}  // namespace kvd
