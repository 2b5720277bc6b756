// The flags of verbs that take a prompt: how tokens are drawn, and how a chat is formatted.
#pragma once

#include <array>
#include <cstddef>

#include "kvctl/command_line.h"

namespace kvd::kvctl {

inline constexpr std::size_t kChatFlagCount = 8;
inline constexpr std::size_t kSamplingFlagCount = 26;

extern const std::array<Flag<CommandLine>, kChatFlagCount> kRunChatFlags;  // need --chat
extern const std::array<Flag<CommandLine>, kChatFlagCount> kWhyChatFlags;  // need --chat
extern const std::array<Flag<CommandLine>, kChatFlagCount - 1> kChatVerbFlags;
extern const std::array<Flag<CommandLine>, kSamplingFlagCount> kSamplingFlags;

}  // namespace kvd::kvctl
