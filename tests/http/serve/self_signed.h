// A certificate for localhost that signs itself, in files of a folder.
#pragma once

#include <string>

#include "http/serve/byte_stream.h"

namespace kvd::http::test {

// Writes NAME.crt and NAME.key (P-256), which are valid for a day.
TlsFiles WriteSelfSigned(const std::string& folder, const std::string& name);

}  // namespace kvd::http::test
