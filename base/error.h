// The project's error type: a code, which is also sent on the wire, and a message that says what is
// wrong.
//
// Every fallible function of the project returns `Result<T>` and does not throw. The message of an
// Error names the field, the number found and the limit ("cells: 900 needed, 128 free"), so that
// the message can be shown to a user unchanged.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace kvd {

// The values of Code are sent on the wire and stored in `meta`: new codes are added at the end, and
// existing codes keep their numbers.
enum class Code : std::uint8_t {
  kOk = 0,
  kInvalidArgument = 1,  // a number or text of the request is out of its range
  // No object has the handle, name or path, or the caller may not see the object.
  kNotFound = 2,
  // The caller may see the object, but may not perform the operation on the object.
  kPermission = 3,
  kNoSpace = 4,  // the pool, a quota, an arena or a disk is full; the message holds the numbers
  kBusy = 5,     // a request computes on the sequence; retry when that request has ended
  kExists = 6,   // the name or the range of positions is already taken
  // The model, the daemon's configuration or the build does not support the operation.
  kUnsupported = 7,
  kCorrupt = 8,           // a file or segment failed validation
  kIo = 9,                // a system call failed; the message holds errno's text
  kNumerical = 10,        // a computed value was not finite; nothing was committed
  kCancelled = 11,        // the request was cancelled; changes that it had committed remain
  kDisconnected = 12,     // the peer has closed the connection
  kVersionMismatch = 13,  // client and daemon use different protocol versions
  kNoTokenizer = 14,      // the model has no supported tokenizer; token ids still work
  kConflict = 15,         // the sequence changed while a step computed on it
  kInternal = 16,         // a bug in kvd; please report it
  kTimeout = 17,          // no answer came within the timeout
  // Used only inside the daemon: the recurrent state must be replayed before the operation.
  kNeedsReplay = 18,
  kWindowLost = 19,   // the edit needs cells that a sliding window has dropped
  kSessionLost = 20,  // the daemon does not know the session; its sequences are gone
  // What the caller sent exceeds a limit of one request: the same request fails again, however much
  // room there is.
  kTooLarge = 21,
};

inline constexpr Code kCodeLast = Code::kTooLarge;

// Returns the code's stable lower_snake name ("no_space"), used in logs and JSON. Never empty.
std::string_view CodeName(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string message;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

// `return Fail(Code::kNotFound, "sequence ", number, ": no such handle");`
inline std::unexpected<Error> Fail(Code code, std::string message) {
  return std::unexpected<Error>(Error{code, std::move(message)});
}
template <class First, class Second, class... Rest>
std::unexpected<Error> Fail(Code code, const First& first, const Second& second,
                            const Rest&... rest) {
  return Fail(code, Concat(first, second, rest...));
}

// Returns `error` with "PREFIX: " before its message.
inline std::unexpected<Error> FailWithin(std::string_view prefix, const Error& error) {
  return Fail(error.code, prefix, ": ", error.message);
}

// Returns the error of a failed system call, "WHAT: errno text", with the text of the present
// errno.
std::unexpected<Error> FailErrno(std::string_view what);

}  // namespace kvd

#define KVD_CONCAT_INNER(a, b) a##b
#define KVD_CONCAT(a, b) KVD_CONCAT_INNER(a, b)
// Evaluates a Result. On an error, KVD_TRY returns the error from the enclosing function; otherwise
// KVD_TRY binds the value: KVD_TRY(auto x, Load());
#define KVD_TRY(declaration, expression)                                       \
  auto KVD_CONCAT(kvd_try_, __LINE__) = (expression);                          \
  if (!KVD_CONCAT(kvd_try_, __LINE__))                                         \
    return std::unexpected(std::move(KVD_CONCAT(kvd_try_, __LINE__)).error()); \
  declaration = std::move(*KVD_CONCAT(kvd_try_, __LINE__))
// KVD_CHECK_OK evaluates a Status. On an error, KVD_CHECK_OK returns the error from the enclosing
// function.
#define KVD_CHECK_OK(expression)                                            \
  do {                                                                      \
    auto kvd_status = (expression);                                         \
    if (!kvd_status) return std::unexpected(std::move(kvd_status).error()); \
  } while (0)
