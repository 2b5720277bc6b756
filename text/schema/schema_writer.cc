// Rules that are declared wait in `open_`, so the depth of calls does not depend on the schema.
#include "text/schema/schema_writer.h"

#include <algorithm>

#include "text/schema/json_value.h"
#include "text/schema/object_writer.h"

namespace kvd::schema {
namespace {

constexpr std::uint64_t kItemsMax = 1 << 20;  // a repetition of the grammar
constexpr std::uint64_t kPrefixItemsMax = 4096;
constexpr std::uint64_t kGroupsMax = 8;  // optional items inside each other

// The shared rule of an alternative with every value of its kind.
std::optional<SharedRule> SharedRuleOf(const Alternative& one) {
  if (!one.is_unlimited()) return std::nullopt;
  switch (one.kind) {
    case ValueKind::kNull: return SharedRule::kNull;
    case ValueKind::kBoolean: return SharedRule::kBoolean;
    case ValueKind::kNumber: return SharedRule::kNumber;
    case ValueKind::kString: return SharedRule::kString;
    case ValueKind::kArray: return SharedRule::kArray;
    case ValueKind::kObject: return SharedRule::kObject;
    case ValueKind::kConstants: break;
  }
  return std::nullopt;
}

}  // namespace

Status SchemaWriter::Write(RuleId rule) {
  open_.emplace_back(NodeSet{SchemaDocument::kRoot}, rule);
  rules_.emplace(open_.back());
  while (!open_.empty()) {
    const auto [nodes, id] = std::move(open_.back());
    open_.pop_back();
    KVD_TRY(const ShapePointer shape, shapes_.Of(nodes));
    const std::string hint = book_.name(id);  // new rules move the names
    KVD_TRY(GrammarExpression expression, WriteShape(*shape, hint));
    book_.Define(id, std::move(expression));
    if (book_.is_full())
      return Fail(Code::kUnsupported, "#: a grammar of more than ", book_.rules_max(), " rules");
  }
  if (!book_.IsProductive(rule))
    return Fail(Code::kInvalidArgument, "#: no finite text satisfies the schema");
  return {};
}

Result<GrammarExpression> SchemaWriter::ValueOf(const NodeSet& nodes, std::string_view hint) {
  KVD_TRY(const ShapePointer shape, shapes_.Of(nodes));
  if (IsAny(*shape)) return book_.Shared(SharedRule::kValue);
  if (shape->empty()) return Nothing();
  const auto written_count = std::ranges::count_if(*shape, &Alternative::is_written);
  if (written_count == 1) {
    const auto one = std::ranges::find_if(*shape, &Alternative::is_written);
    if (const auto shared = SharedRuleOf(*one)) return book_.Shared(*shared);
  }
  const auto [place, is_new] = rules_.try_emplace(nodes);
  if (is_new) {
    place->second = book_.Declare(hint);
    open_.emplace_back(nodes, place->second);
  }
  return Reference(place->second);
}

Result<GrammarExpression> SchemaWriter::WriteShape(const Shape& shape, const std::string& hint) {
  if (IsAny(shape)) return book_.Shared(SharedRule::kValue);
  std::vector<GrammarExpression> alternatives;
  for (const Alternative& one : shape) {
    if (!one.is_written()) continue;
    KVD_TRY(GrammarExpression alternative, WriteAlternative(one, hint));
    alternatives.push_back(std::move(alternative));
  }
  return Choice(std::move(alternatives));
}

Result<GrammarExpression> SchemaWriter::WriteAlternative(const Alternative& one,
                                                         const std::string& hint) {
  if (one.kind == ValueKind::kConstants) return WriteConstants(one);
  KVD_CHECK_OK(CheckExclusions(one));
  if (const auto shared = SharedRuleOf(one)) return book_.Shared(*shared);
  switch (one.kind) {
    case ValueKind::kNull: return book_.Shared(SharedRule::kNull);
    case ValueKind::kBoolean: return book_.Shared(SharedRule::kBoolean);
    case ValueKind::kNumber: {
      Result<GrammarExpression> number = NumberRule(one.number, book_);
      if (!number) return Fail(number.error().code, one.pointer, "/", number.error().message);
      return number;
    }
    case ValueKind::kString: return WriteString(one, hint);
    case ValueKind::kArray: return WriteArray(one, hint);
    case ValueKind::kObject: return ObjectWriter(*this, one, hint).Write();
    case ValueKind::kConstants: break;
  }
  return Nothing();
}

Result<GrammarExpression> SchemaWriter::WriteConstants(const Alternative& one) {
  std::vector<GrammarExpression> texts;
  for (const Value& value : one.constants) {
    bool is_excluded = false;
    for (std::size_t i = 0; !is_excluded && i < one.exclusions.size(); ++i) {
      KVD_TRY(is_excluded, shapes_.Accepts({one.exclusions[i].node}, value, false));
    }
    if (!is_excluded) texts.push_back(Literal(CompactJson(value)));
  }
  return Choice(std::move(texts));
}

Status SchemaWriter::CheckExclusions(const Alternative& one) {
  for (const Exclusion& exclusion : one.exclusions) {
    KVD_TRY(const bool are_disjoint, shapes_.AreDisjoint(one, {exclusion.node}));
    if (!are_disjoint)
      return Fail(Code::kUnsupported, exclusion.pointer,
                  ": values that this schema accepts cannot be kept out of ", one.pointer);
  }
  return {};
}

AutomatonLimits SchemaWriter::TextLimits() {
  AutomatonLimits limits;
  limits.steps_left = &text_steps_left_;
  return limits;
}

Result<GrammarExpression> SchemaWriter::WriteString(const Alternative& one,
                                                    const std::string& hint) {
  TextConstraint constraint;
  for (const SharedRegex& pattern : one.string.patterns)
    constraint.required.push_back(pattern.get());
  for (const RegexNode* format : one.string.formats) constraint.required.push_back(format);
  constraint.length_min = one.string.length_min;
  constraint.length_max = one.string.length_max;
  if (constraint.length_max && *constraint.length_max < constraint.length_min) return Nothing();
  // A format alone is the same rule everywhere.
  const bool is_format = one.string.formats.size() == 1 && one.string.patterns.empty() &&
                         constraint.length_min == 0 && !constraint.length_max;
  const RegexNode* const format = is_format ? one.string.formats[0] : nullptr;
  const RuleId* const known = is_format ? book_.Remembered(format) : nullptr;
  if (known != nullptr) return Reference(*known);
  Result<GrammarExpression> text = StringOf(constraint, hint, book_, TextLimits());
  if (!text) return FailWithin(one.pointer, text.error());
  if (!is_format) return text;
  const RuleId rule = book_.Declare("format");
  book_.Define(rule, *std::move(text));
  book_.Remember(format, rule);
  return Reference(rule);
}

// "[", items with commas between them, "]".
Result<GrammarExpression> SchemaWriter::WriteArray(const Alternative& one,
                                                   const std::string& hint) {
  const ArraySet& array = one.array;
  std::optional<std::uint64_t> count_max = WrittenCountMax(array);
  if (array.is_unique && (!count_max || *count_max > 1))
    return Fail(Code::kUnsupported, one.pointer,
                "/uniqueItems: is supported only with at most one item");
  if (array.count_min > kItemsMax)
    return Fail(Code::kUnsupported, one.pointer, "/minItems: more than ", kItemsMax);
  if (count_max) count_max = std::min(*count_max, kItemsMax);
  if (count_max && *count_max < array.count_min) return Nothing();
  GrammarExpression empty = Sequence({Literal("["), Space(), Literal("]")});
  if (count_max == 0) return empty;
  GrammarExpression items;
  if (array.prefix.empty()) {
    KVD_TRY(const GrammarExpression item, ValueOf(array.items, hint + "-item"));
    const std::uint64_t more_min = array.count_min > 0 ? array.count_min - 1 : 0;
    if (count_max) --*count_max;
    items = Sequence({item, Repeat(Sequence({Comma(), item}), more_min, count_max)});
  } else {
    if (array.prefix.size() > kPrefixItemsMax)
      return Fail(Code::kUnsupported, one.pointer, "/prefixItems: more than ", kPrefixItemsMax);
    KVD_TRY(items, WritePrefix(array, count_max.value_or(kItemsMax), hint));
  }
  if (items.is_nothing()) return array.count_min == 0 ? empty : Nothing();
  items = Sequence({std::move(items), Space()});
  if (array.count_min == 0) items = Optional(std::move(items));
  return Sequence({Literal("["), Space(), std::move(items), Literal("]")});
}

// The items of an array with at least one item, from the last one to the first one: an item that
// the array need not have is a group, or a rule where groups would be deep.
Result<GrammarExpression> SchemaWriter::WritePrefix(const ArraySet& array, std::uint64_t count_max,
                                                    const std::string& hint) {
  const std::uint64_t prefix_count = array.prefix.size();
  std::vector<GrammarExpression> tail;  // after the items before the current one, in reverse order
  if (count_max > prefix_count) {
    KVD_TRY(const GrammarExpression item, ValueOf(array.items, hint + "-item"));
    const std::uint64_t more_min =
        array.count_min > prefix_count ? array.count_min - prefix_count : 0;
    tail.push_back(Repeat(Sequence({Comma(), item}), more_min, count_max - prefix_count));
  }
  std::uint64_t group_count = 0;
  for (std::uint64_t i = std::min(prefix_count, count_max); i-- > 0;) {
    KVD_TRY(GrammarExpression item, ValueOf(array.prefix[i], Concat(hint, "-", i)));
    tail.push_back(std::move(item));
    if (i == 0) break;
    tail.push_back(Comma());
    if (i < array.count_min) continue;
    std::ranges::reverse(tail);
    GrammarExpression group = Optional(Sequence(std::move(tail)));
    if (++group_count % kGroupsMax == 0) {
      const RuleId rule = book_.Declare(hint + "-rest");
      book_.Define(rule, std::move(group));
      group = Reference(rule);
    }
    tail.clear();
    tail.push_back(std::move(group));
  }
  std::ranges::reverse(tail);
  return Sequence(std::move(tail));
}

}  // namespace kvd::schema
