#include "text/value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvd {
namespace {

Value DeepList(int levels) {
  Value value = Value::Int(1);
  for (int i = 0; i < levels; ++i) value = Value::List({value});
  return value;
}

TEST(ValueTest, AValueWithoutReasonIsMissingAndUndefined) {
  EXPECT_TRUE(Value().is_missing());
  EXPECT_TRUE(Value().is_undefined());
  const Value named = Value::Undefined({.text = "x", .object = ""});
  EXPECT_TRUE(named.is_undefined());
  EXPECT_FALSE(named.is_missing());
}

TEST(ValueTest, AReasonGivesTheMessageOfJinja) {
  using Kind = UndefinedReason::Kind;
  EXPECT_EQ((UndefinedReason{Kind::kName, "x", ""}.Message()), "'x' is undefined");
  EXPECT_EQ((UndefinedReason{Kind::kAttribute, "x", "dict object"}.Message()),
            "'dict object' has no attribute 'x'");
  EXPECT_EQ((UndefinedReason{Kind::kItem, "3", "list object"}.Message()),
            "list object has no element 3");
  EXPECT_EQ((UndefinedReason{Kind::kHint, "because", ""}.Message()), "because");
}

TEST(ValueTest, LengthsAreInCodePoints) {
  EXPECT_EQ(Value::String("a\u00e9\u5b57\U0001f642").text().code_points, 4u);
  EXPECT_TRUE(Value::String("abc").text().is_ascii());
  EXPECT_FALSE(Value::String("\u00e9").text().is_ascii());
}

TEST(ValueTest, NumbersOfDifferentKindsAreEqualAndHashAlike) {
  EXPECT_TRUE(Equal(Value::Int(1), Value::Float(1.0)));
  EXPECT_TRUE(Equal(Value::Bool(true), Value::Int(1)));
  EXPECT_EQ(Value::Int(1).Hash(), Value::Float(1.0).Hash());
  EXPECT_EQ(Value::Int(1).Hash(), Value::Bool(true).Hash());
  EXPECT_FALSE(Equal(Value::Int(1), Value::Float(1.5)));
  EXPECT_FALSE(Equal(Value::Int(9007199254740993), Value::Float(9007199254740992.0)));
  EXPECT_FALSE(Equal(Value::Float(NAN), Value::Float(NAN)));
  EXPECT_FALSE(Equal(Value::Int(1), Value::String("1")));
}

TEST(ValueTest, ContainersAreEqualByTheirItems) {
  const Value list = Value::List({Value::Int(1), Value::String("a")});
  EXPECT_TRUE(Equal(list, Value::List({Value::Float(1), Value::String("a")})));
  EXPECT_FALSE(Equal(list, Value::Tuple({Value::Int(1), Value::String("a")})));
  Dict a, b;
  a.Set("x", Value::Int(1));
  a.Set("y", Value::None());
  b.Set("y", Value::None());
  b.Set("x", Value::Int(1));
  EXPECT_TRUE(Equal(Value::Of(a), Value::Of(b)));
  b.Set("x", Value::Int(2));
  EXPECT_FALSE(Equal(Value::Of(a), Value::Of(b)));
}

TEST(ValueTest, OnlyTuplesOfHashableValuesHaveAHash) {
  EXPECT_TRUE(Value::Tuple({Value::Int(1)}).Hash().has_value());
  EXPECT_FALSE(Value::List({}).Hash().has_value());
  EXPECT_FALSE(Value::Of(Dict()).Hash().has_value());
  EXPECT_FALSE(Value::Tuple({Value::List({})}).Hash().has_value());
}

TEST(ValueTest, NestingAndNodesAreCounted) {
  EXPECT_EQ(Value::Int(1).nesting(), 0u);
  EXPECT_EQ(DeepList(3).nesting(), 3u);
  EXPECT_EQ(DeepList(3).node_count(), 4u);
  const Value shared = DeepList(1);
  EXPECT_EQ(Value::List({shared, shared}).node_count(), 5u);
}

// A value with two references at each of 80 levels has 2^80 nodes.
TEST(ValueTest, TheNodeCountOfASharedValueDoesNotOverflow) {
  Value value = Value::Int(1);
  for (int i = 0; i < 80; ++i) value = Value::List({value, value});
  EXPECT_EQ(value.node_count(), UINT64_MAX);
}

TEST(ValueTest, DestroyingAMillionLevelsTakesConstantStack) {
  {
    const Value lists = DeepList(1'000'000);
  }
  Value dicts = Value::Int(1);
  for (int i = 0; i < 1'000'000; ++i) {
    Dict dict;
    dict.Set("x", std::move(dicts));
    dicts = Value::Of(std::move(dict));
  }
  dicts = Value();
  EXPECT_TRUE(dicts.is_missing());
}

TEST(DictTest, KeepsTheOrderOfInsertionAndReplacesInPlace) {
  Dict dict;
  for (int i = 0; i < 100; ++i) dict.Set(std::to_string(i), Value::Int(i));
  dict.Set("5", Value::Int(-5));
  ASSERT_EQ(dict.size(), 100u);
  EXPECT_EQ(dict.items()[5].second.integer(), -5);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(dict.items()[static_cast<std::size_t>(i)].first.view(), std::to_string(i));
    EXPECT_EQ(dict.Find(std::to_string(i)).is_int(), true) << i;
    EXPECT_TRUE(dict.Contains(Value::String(std::to_string(i)))) << i;
  }
  EXPECT_FALSE(dict.Contains("100"));
}

// What Find returns cannot be dereferenced, so no reader has to remember the check.
using Found = decltype(std::declval<const Dict&>().Find("key"));
template <class T>
constexpr bool kHasStar = requires(T value) { *value; };
template <class T>
constexpr bool kHasArrow = requires(T value) { value.operator->(); } || std::is_pointer_v<T>;
static_assert(!kHasStar<Found> && !kHasArrow<Found>);

TEST(DictTest, AnAbsentMemberIsAMissingValueThatCanBeRead) {
  const Dict dict;
  const Value& absent = dict.Find("a");
  EXPECT_TRUE(absent.is_missing());
  EXPECT_EQ(absent.dict().Find("b").dict().Find("c").view(), "");
  EXPECT_TRUE(dict.Find(Value::List({})).is_missing());
}

TEST(DictTest, AMemberWithoutAValueIsContained) {
  Dict dict;
  dict.Set("a", Value());
  EXPECT_TRUE(dict.Contains("a"));
  EXPECT_TRUE(dict.Find("a").is_missing());
}

TEST(DictTest, KeysOfEqualNumbersAreOneKey) {
  Dict dict;
  EXPECT_TRUE(dict.Set(Value::Int(1), Value::String("a")));
  EXPECT_TRUE(dict.Set(Value::Float(1), Value::String("b")));
  EXPECT_TRUE(dict.Set(Value::Bool(true), Value::String("c")));
  ASSERT_EQ(dict.size(), 1u);
  EXPECT_TRUE(dict.items()[0].first.is_int());
  EXPECT_EQ(dict.items()[0].second.view(), "c");
}

TEST(DictTest, AListIsRefusedAsAKey) {
  Dict dict;
  EXPECT_FALSE(dict.Set(Value::List({}), Value::None()));
  EXPECT_TRUE(dict.empty());
  EXPECT_FALSE(dict.Contains(Value::List({})));
}

class OwnObject final : public Object {
 public:
  std::string_view type_name() const override { return "own"; }
};

// One value of each kind.
std::vector<Value> AllKinds(Object& object) {
  Dict dict;
  dict.Set("a", Value::Int(1));
  return {Value(),
          Value::Undefined({.text = "x", .object = {}}),
          Value::None(),
          Value::Bool(true),
          Value::Int(7),
          Value::Float(2.5),
          Value::String("text"),
          Value::List({Value::Int(1)}),
          Value::Tuple({Value::Int(1)}),
          Value::Of(std::move(dict)),
          Value::Of(object)};
}

TEST(ValueTest, ReadingAnotherKindIsAnErrorThatNamesBoth) {
  OwnObject object;
  for (const Value& value : AllKinds(object)) {
    const auto check = [&](const auto& read, bool is_own, std::string_view needed) {
      EXPECT_EQ(read.has_value(), is_own) << value.kind_name();
      if (read) return;
      EXPECT_EQ(read.error().code, Code::kInvalidArgument);
      EXPECT_EQ(read.error().message, Concat(needed, " is needed, not ", value.kind_name()));
    };
    check(value.AsBool(), value.is_bool(), "true or false");
    check(value.AsInt(), value.is_int(), "a whole number");
    check(value.AsNumber(), value.is_int() || value.is_float(), "a number");
    check(value.AsString(), value.is_string(), "a text");
    check(value.AsList(), value.is_list(), "a list");
    check(value.AsDict(), value.is_dict(), "an object");
  }
}

TEST(ValueTest, AWholeFloatIsAWholeNumberUpToTheLastExactOne) {
  EXPECT_EQ(Value::Float(3).AsInt().value_or(0), 3);
  EXPECT_EQ(Value::Float(-0x1p53).AsInt().value_or(0), -(std::int64_t{1} << 53));
  EXPECT_FALSE(Value::Float(0x1p53 + 2).AsInt());
  EXPECT_FALSE(Value::Float(std::numeric_limits<double>::infinity()).AsInt());
  EXPECT_FALSE(Value::Float(std::numeric_limits<double>::quiet_NaN()).AsInt());
}

TEST(ValueTest, AccessorsOfAnotherKindReturnTheEmptyValue) {
  OwnObject object;
  for (const Value& value : AllKinds(object)) {
    SCOPED_TRACE(value.kind_name());
    EXPECT_TRUE(value.is_bool() || !value.truth());
    EXPECT_TRUE(value.is_integral() || value.integer() == 0);
    EXPECT_TRUE(value.is_float() || value.real() == 0);
    EXPECT_TRUE(value.is_number() || value.number() == 0);
    EXPECT_TRUE(value.is_string() || (value.view().empty() && value.text().code_points == 0));
    EXPECT_TRUE(value.is_sequence() || value.items().empty());
    EXPECT_TRUE(value.is_dict() || value.dict().empty());
    EXPECT_TRUE(value.is_object() || value.object().type_name() == "no object");
    EXPECT_TRUE((value.is_undefined() && !value.is_missing()) || value.reason() == nullptr);
  }
}

}  // namespace
}  // namespace kvd
