// The one error type of the project: a code that also travels on the wire, and a sentence that
// names what is wrong.
//
// Every fallible function of ours returns `Result<T>` and throws nothing. The message names the
// field, the number found and the limit ("cells: 900 needed, 128 free"), so that it can be shown to
// a user as it is.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace kvd {

// Values travel on the wire and are stored in `meta`: append only, never renumber.
enum class Code : std::uint8_t {
  kOk = 0,
  kInvalidArgument = 1,  // a number or text of the request is out of its range
  kNotFound = 2,         // no such handle, name or file, or not one that the caller may see
  kPermission = 3,       // the caller may see it, but not do this to it
  kNoSpace = 4,      // the pool, a quota, an arena or a disk is full; the message holds the numbers
  kBusy = 5,         // the sequence is being computed; try again when that request has ended
  kExists = 6,       // the name or range is already taken
  kUnsupported = 7,  // this memory kind, model or build cannot do it
  kCorrupt = 8,      // a file or segment failed its validation
  kIo = 9,           // the system refused a call; the message holds errno's text
  kNumerical = 10,   // a computed value was not finite; nothing was committed
  kCancelled = 11,   // the request was cancelled; what was committed stays
  kDisconnected = 12,     // the other side is gone
  kVersionMismatch = 13,  // client and daemon do not speak the same protocol version
  kNoTokenizer = 14,      // the model has no tokenizer that we know: use token ids
  kConflict = 15,         // the sequence changed while a step computed on it
  kInternal = 16,         // a bug of ours; please report
  kTimeout = 17,          // nothing came in the time allowed
  kNeedsReplay = 18,      // inside the daemon: the state at the cut has to be computed again
  kWindowLost = 19,       // the edit needs cells that a sliding window has dropped
  kSessionLost = 20,      // the daemon does not know the session (any more): its sequences are gone
};

inline constexpr Code kCodeLast = Code::kSessionLost;

// The code's stable lower_snake name ("no_space"), used in logs and JSON. Never empty.
std::string_view CodeName(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string message;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

// `return Fail(Code::kNotFound, "sequence 7: no such handle");`
inline std::unexpected<Error> Fail(Code code, std::string message) {
  return std::unexpected<Error>(Error{code, std::move(message)});
}

// A system call's failure: "WHAT: errno text". Reads errno.
std::unexpected<Error> FailErrno(std::string_view what);

}  // namespace kvd

#define KVD_CONCAT_INNER(a, b) a##b
#define KVD_CONCAT(a, b) KVD_CONCAT_INNER(a, b)
// Evaluates a Result; on error returns it from the enclosing function, else binds the value:
// KVD_TRY(auto x, Load());
#define KVD_TRY(declaration, expression)                                       \
  auto KVD_CONCAT(kvd_try_, __LINE__) = (expression);                          \
  if (!KVD_CONCAT(kvd_try_, __LINE__))                                         \
    return std::unexpected(std::move(KVD_CONCAT(kvd_try_, __LINE__)).error()); \
  declaration = std::move(*KVD_CONCAT(kvd_try_, __LINE__))
// The same for a Status.
#define KVD_CHECK_OK(expression)                                            \
  do {                                                                      \
    auto kvd_status = (expression);                                         \
    if (!kvd_status) return std::unexpected(std::move(kvd_status).error()); \
  } while (0)
