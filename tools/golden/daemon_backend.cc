#include "tools/golden/backend.h"
namespace kvd::golden {
Result<std::unique_ptr<Backend>> MakeDaemonBackend(const std::string&, const BackendOptions&) {
  return Fail(Code::kUnsupported, "--spawn: not built yet");
}
}  // namespace kvd::golden
