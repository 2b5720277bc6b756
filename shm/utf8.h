// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <string_view>

namespace kvd {

bool IsValidUtf8(std::string_view text);

}  // namespace kvd
