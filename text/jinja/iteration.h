// Iterating over values.
#pragma once

#include <vector>

#include "base/error.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/script_object.h"
#include "text/value.h"

namespace kvd::jinja {

// Python's iter(). Errors: kInvalidArgument: "'int' object is not iterable".
Result<IteratorPtr> IterateOver(Interpreter& interpreter, const Value& value);
bool IsIterable(const Value& value);
// Python's reversed(); null if the value cannot be reversed.
Result<IteratorPtr> ReverseOver(Interpreter& interpreter, const Value& value);
// Python's list(): all items. Each item counts as a step.
Result<std::vector<Value>> ItemsOf(Interpreter& interpreter, const Value& value);
// Python's len(); none if the value has no length.
Result<std::optional<std::int64_t>> LengthOf(const Value& value);

// REQUIRES: a list or a tuple.
IteratorPtr MakeListIterator(Value sequence);

// An object that can be iterated over once, as Python's generators. `type_name` is the class.
Result<Value> MakeGenerator(Interpreter& interpreter, IteratorPtr iterator,
                            std::string_view type_name = "generator");

// The items of `iterable` for which the condition of `loop` is true, as a generator.
Result<Value> MakeConditionIterator(Interpreter& interpreter, const For& loop,
                                    std::shared_ptr<CallFrame> frame, const Value& iterable);

}  // namespace kvd::jinja
