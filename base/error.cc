#include "base/error.h"

#include <cerrno>
#include <system_error>

namespace kvd {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid_argument";
    case Code::kNotFound: return "not_found";
    case Code::kPermission: return "permission";
    case Code::kNoSpace: return "no_space";
    case Code::kBusy: return "busy";
    case Code::kExists: return "exists";
    case Code::kUnsupported: return "unsupported";
    case Code::kCorrupt: return "corrupt";
    case Code::kIo: return "io";
    case Code::kNumerical: return "numerical";
    case Code::kCancelled: return "cancelled";
    case Code::kDisconnected: return "disconnected";
    case Code::kVersionMismatch: return "version_mismatch";
    case Code::kNoTokenizer: return "no_tokenizer";
    case Code::kConflict: return "conflict";
    case Code::kInternal: return "internal";
    case Code::kTimeout: return "timeout";
    case Code::kNeedsReplay: return "needs_replay";
    case Code::kWindowLost: return "window_lost";
    case Code::kSessionLost: return "session_lost";
    case Code::kTooLarge: return "too_large";
  }
  return "unknown";
}

std::unexpected<Error> FailErrno(std::string_view what) {
  const int saved = errno;
  return Fail(Code::kIo, what, ": ", std::generic_category().message(saved));
}

}  // namespace kvd
