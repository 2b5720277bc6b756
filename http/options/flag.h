// The table of flags, with llama-server's names, and what kvd-http does with each.
//
// A flag is used (`take` fills the settings), ignored (it is about hardware or about something that
// kvd does by itself; one line on standard error says so), or refused (it asks for something that
// kvd lacks).
#pragma once

#include <span>

#include "base/flag.h"
#include "http/options/settings.h"

namespace kvd::http {

using kvd::FlagValue;
using Flag = kvd::Flag<Settings>;

// The rows by topic, in the order of the help text.
std::span<const Flag> ModelFlags();
std::span<const Flag> ServerFlags();
std::span<const Flag> ChatFlags();
std::span<const Flag> SamplingFlags();
std::span<const Flag> IgnoredFlags();
std::span<const Flag> RefusedFlags();

}  // namespace kvd::http
