// Commas: a member after the first one has a comma before it. So the first member is a choice: an
// optional one, or the first required one; a rule for each place of the first member says what
// follows. Where the number of properties is limited, the rules count members, too.
#include "text/schema/object_writer.h"

#include <algorithm>
#include <unordered_set>

#include "text/schema/json_value.h"

namespace kvd::schema {
namespace {

constexpr std::size_t kPatternsMax = 4;
constexpr std::size_t kStepsMax = 4096;  // rules that count members

}  // namespace

Result<GrammarExpression> ObjectWriter::Write() {
  names_ = Names();
  KVD_TRY(const bool is_possible, CollectMembers());
  if (!is_possible) return Nothing();
  KVD_TRY(other_, WriteOther());
  const auto required_count =
      static_cast<std::uint64_t>(std::ranges::count_if(members_, &Member::is_required));
  const auto& count_max = object_.count_max;
  const bool has_limit = object_.count_min > required_count ||
                         (count_max && (!other_.is_nothing() || *count_max < members_.size()));
  if (has_limit) return WithCounts();
  return WithoutCounts();
}

std::vector<std::string> ObjectWriter::Names() const {
  std::vector<std::string> names;
  std::unordered_set<std::string_view> known;
  for (const auto& part : object_.parts)
    for (const auto& property : part->properties)
      if (known.insert(property.first).second) names.push_back(property.first);
  for (const std::string& name : object_.required)
    if (known.insert(name).second) names.push_back(name);
  return names;
}

Result<bool> ObjectWriter::CollectMembers() {
  const std::unordered_set<std::string_view> required(object_.required.begin(),
                                                      object_.required.end());
  for (const std::string& name : names_) {
    const bool is_required = required.contains(name);
    KVD_TRY(const NodeSet nodes, writer_.shapes_.PropertyNodes(object_, name));
    KVD_TRY(bool is_possible, writer_.shapes_.Accepts(object_.names, Value::String(name), true));
    KVD_TRY(GrammarExpression value, writer_.ValueOf(nodes, name));
    is_possible = is_possible && !value.is_nothing();
    if (!is_possible && is_required) return false;
    if (!is_possible) continue;
    members_.push_back({Sequence({Literal(QuotedText(name)), writer_.Space(), Literal(":"),
                                  writer_.Space(), std::move(value)}),
                        is_required});
  }
  return true;
}

std::vector<SharedRegex> ObjectWriter::Patterns() const {
  std::vector<SharedRegex> patterns;
  for (const auto& part : object_.parts)
    for (const auto& pattern : part->patterns)
      if (std::ranges::find(patterns, pattern.first) == patterns.end())
        patterns.push_back(pattern.first);
  return patterns;
}

bool ObjectWriter::IsOpen() const {
  return object_.parts.empty() || std::ranges::any_of(object_.parts, [](const auto& part) {
           return part->additional.has_value();
         });
}

NodeSet ObjectWriter::OtherNodes(const std::vector<SharedRegex>& matched) const {
  NodeSet nodes;
  for (const auto& part : object_.parts) {
    bool is_known = false;
    for (const auto& [pattern, node] : part->patterns) {
      if (std::ranges::find(matched, pattern) == matched.end()) continue;
      nodes.push_back(node);
      is_known = true;
    }
    if (!is_known && part->additional) nodes.push_back(*part->additional);
  }
  std::ranges::sort(nodes);
  nodes.erase(std::ranges::unique(nodes).begin(), nodes.end());
  return nodes;
}

Result<GrammarExpression> ObjectWriter::WriteOther() {
  const std::vector<SharedRegex> patterns = Patterns();
  if (patterns.size() > kPatternsMax)
    return Fail(Code::kUnsupported, one_.pointer, "/patternProperties: more than ", kPatternsMax,
                " patterns");
  name_texts_.kind = RegexNode::Kind::kAlternation;
  for (const std::string& name : names_) name_texts_.children.push_back(ExactText(name));
  std::vector<GrammarExpression> others;
  for (std::size_t subset = 0; subset < std::size_t{1} << patterns.size(); ++subset) {
    if (subset == 0 && !IsOpen()) continue;
    std::vector<SharedRegex> matched;
    std::vector<const RegexNode*> required;
    std::vector<const RegexNode*> excluded;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const bool is_matched = (subset >> i & 1) != 0;
      if (is_matched) matched.push_back(patterns[i]);
      (is_matched ? required : excluded).push_back(patterns[i].get());
    }
    if (!names_.empty()) excluded.push_back(&name_texts_);
    KVD_TRY(GrammarExpression value, writer_.ValueOf(OtherNodes(matched), hint_ + "-other"));
    if (value.is_nothing()) continue;
    KVD_TRY(GrammarExpression key, OtherKey(required, excluded));
    if (key.is_nothing()) continue;
    others.push_back(Sequence(
        {std::move(key), writer_.Space(), Literal(":"), writer_.Space(), std::move(value)}));
  }
  GrammarExpression other = Choice(std::move(others));
  if (other.is_nothing()) return other;
  const RuleId rule = writer_.book_.Declare(hint_ + "-more");
  writer_.book_.Define(rule, std::move(other));
  return Reference(rule);
}

Result<GrammarExpression> ObjectWriter::OtherKey(const std::vector<const RegexNode*>& required,
                                                 const std::vector<const RegexNode*>& excluded) {
  KVD_TRY(const ShapePointer names, writer_.shapes_.Of(object_.names));
  std::vector<GrammarExpression> keys;
  for (const Alternative& one : *names) {
    TextConstraint constraint;
    constraint.required = required;
    constraint.excluded = excluded;
    if (one.kind == ValueKind::kString) {
      KVD_CHECK_OK(writer_.CheckExclusions(one));
      for (const auto& pattern : one.string.patterns) constraint.required.push_back(pattern.get());
      for (const RegexNode* format : one.string.formats) constraint.required.push_back(format);
      constraint.length_min = one.string.length_min;
      constraint.length_max = one.string.length_max;
      if (constraint.length_max && *constraint.length_max < constraint.length_min) continue;
    } else if (one.kind == ValueKind::kConstants) {
      RegexNode texts;
      texts.kind = RegexNode::Kind::kAlternation;
      for (const Value& value : one.constants) {
        KVD_TRY(const bool is_in, writer_.shapes_.Accepts(object_.names, value, true));
        if (value.is_string() && is_in) texts.children.push_back(ExactText(value.view()));
      }
      constraint.required.push_back(&texts);
      Result<GrammarExpression> key =
          StringOf(constraint, hint_, writer_.book_, writer_.TextLimits());
      if (!key) return FailWithin(one_.pointer, key.error());
      keys.push_back(*std::move(key));
      continue;
    } else {
      continue;
    }
    Result<GrammarExpression> key =
        StringOf(constraint, hint_, writer_.book_, writer_.TextLimits());
    if (!key) return FailWithin(one_.pointer, key.error());
    keys.push_back(*std::move(key));
  }
  return Choice(std::move(keys));
}

GrammarExpression ObjectWriter::MemberRule(std::size_t index) {
  GrammarExpression& text = members_[index].text;
  if (text.kind == GrammarExpression::Kind::kRule) return text;
  const RuleId rule = writer_.book_.Declare(hint_ + "-member");
  writer_.book_.Define(rule, std::move(text));
  text = Reference(rule);
  return text;
}

// Everything after a first member before member `next`.
GrammarExpression ObjectWriter::AfterFirst(std::size_t next) {
  std::vector<GrammarExpression> parts;
  for (std::size_t i = next; i < members_.size(); ++i) {
    GrammarExpression member = Sequence({writer_.Comma(), members_[i].text});
    parts.push_back(members_[i].is_required ? std::move(member) : Optional(std::move(member)));
  }
  if (!other_.is_nothing())
    parts.push_back(Repeat(Sequence({writer_.Comma(), other_}), 0, std::nullopt));
  return Sequence(std::move(parts));
}

GrammarExpression ObjectWriter::WithoutCounts() {
  const auto first_required = std::ranges::find_if(members_, &Member::is_required);
  const auto optional_count = static_cast<std::size_t>(first_required - members_.begin());
  const bool may_be_empty = first_required == members_.end();
  if (optional_count > 0)
    for (std::size_t i = 0; i < members_.size(); ++i) MemberRule(i);
  std::vector<GrammarExpression> ways;
  GrammarExpression rest = may_be_empty ? AfterFirst(members_.size())
                                        : Sequence({writer_.Comma(), members_[optional_count].text,
                                                    AfterFirst(optional_count + 1)});
  if (!may_be_empty) {
    ways.push_back(Sequence({members_[optional_count].text, AfterFirst(optional_count + 1)}));
  } else if (!other_.is_nothing()) {
    ways.push_back(Sequence({other_, AfterFirst(members_.size())}));
  }
  for (std::size_t i = optional_count; i-- > 0;) {
    // `rest` is what follows member i.
    if (i > 0 && !rest.is_empty()) {
      const RuleId rule = writer_.book_.Declare(hint_ + "-rest");
      writer_.book_.Define(rule, std::move(rest));
      rest = Reference(rule);
    }
    ways.push_back(Sequence({members_[i].text, rest}));
    rest = Sequence({Optional(Sequence({writer_.Comma(), members_[i].text})), std::move(rest)});
  }
  std::ranges::reverse(ways);
  GrammarExpression inside = Choice(std::move(ways));
  if (!inside.is_nothing()) inside = Sequence({std::move(inside), writer_.Space()});
  if (may_be_empty)
    inside = inside.is_nothing() ? GrammarExpression() : Optional(std::move(inside));
  return Sequence({Literal("{"), writer_.Space(), std::move(inside), Literal("}")});
}

Result<GrammarExpression> ObjectWriter::WithCounts() {
  const std::uint64_t count_max =
      std::min<std::uint64_t>(object_.count_max.value_or(members_.size()), members_.size());
  if (members_.size() * (count_max + 1) > kStepsMax)
    return Fail(Code::kUnsupported, one_.pointer, ": minProperties or maxProperties with ",
                members_.size(), " properties");
  // Other names may be equal to each other, so only the first one surely adds a property.
  if (!other_.is_nothing() && object_.count_min > members_.size() + 1)
    return Fail(Code::kUnsupported, one_.pointer,
                "/minProperties: more than one property with a name that the schema does not fix");
  for (std::size_t i = 0; i < members_.size(); ++i) MemberRule(i);
  return Sequence({Literal("{"), writer_.Space(), Step(0, 0), writer_.Space(), Literal("}")});
}

GrammarExpression ObjectWriter::Step(std::size_t next, std::uint64_t count) {
  if (next == members_.size()) return OthersAfter(count);
  const auto known = steps_.find({next, count});
  if (known != steps_.end()) return Reference(known->second);
  const RuleId rule = writer_.book_.Declare(hint_ + "-step");
  steps_.emplace(std::pair(next, count), rule);
  std::vector<GrammarExpression> ways;
  if (!object_.count_max || count < *object_.count_max) {
    GrammarExpression member = members_[next].text;
    if (count > 0) member = Sequence({writer_.Comma(), std::move(member)});
    ways.push_back(Sequence({std::move(member), Step(next + 1, count + 1)}));
  }
  if (!members_[next].is_required) ways.push_back(Step(next + 1, count));
  writer_.book_.Define(rule, Choice(std::move(ways)));
  return Reference(rule);
}

GrammarExpression ObjectWriter::OthersAfter(std::uint64_t count) {
  const std::uint64_t missing = object_.count_min > count ? object_.count_min - count : 0;
  if (object_.count_max && *object_.count_max < count + missing) return Nothing();
  if (other_.is_nothing()) return missing == 0 ? GrammarExpression() : Nothing();
  // More than one missing property cannot be ensured; other ways through the members exist.
  if (missing > 1) return Nothing();
  std::optional<std::uint64_t> more;
  if (object_.count_max) more = *object_.count_max - count;
  const GrammarExpression next = Sequence({writer_.Comma(), other_});
  if (count > 0) return Repeat(next, missing, more);
  if (more == 0) return {};
  if (more) --*more;
  GrammarExpression list = Sequence({other_, Repeat(next, 0, more)});
  return missing > 0 ? std::move(list) : Optional(std::move(list));
}

}  // namespace kvd::schema
