// Arguments and results of builtins on texts. If the subject is markup, other texts are escaped
// before they are joined to it, and the result is markup.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/value.h"

namespace kvd::jinja {

// The argument as text, escaped if needed. Errors: kInvalidArgument: it is no string.
Result<std::string> TextArgument(const Invocation& call, std::size_t index);
// The argument as an int, or `absent`.
Result<std::int64_t> IntegerArgument(const Invocation& call, std::size_t index,
                                     std::int64_t absent);
// bool(argument), or `absent`.
Result<bool> BoolArgument(const Invocation& call, std::size_t index, bool absent);

// An argument that Python takes as an int and uses as a bool, or `absent`. Errors: it is no
// integer, or has more than 32 bits.
Result<bool> IntegerFlagArgument(const Invocation& call, std::size_t index, bool absent);

// A text made of the subject: markup if the subject is.
Result<Value> TextResult(const Invocation& call, std::string text);
Result<Value> ListResult(const Invocation& call, const std::vector<std::string_view>& parts);

// soft_str(): the subject as text, as the filters on texts take it.
Status MakeSubjectText(Invocation* call);

}  // namespace kvd::jinja
