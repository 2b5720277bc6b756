// The flags of verbs that take a prompt: how tokens are drawn, and how a chat is formatted.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "kvctl/command_line.h"

namespace kvd::kvctl {

inline constexpr std::size_t kChatFlagCount = 8;
inline constexpr std::size_t kSamplingFlagCount = 26;

// Whether names of special tokens in a text are read as those tokens. `excludes`: a flag with which
// it has no effect.
constexpr Flag<CommandLine> ParseSpecialFlag(decltype(Flag<CommandLine>::take) take,
                                             std::string_view excludes = {}) {
  return {.names = "--parse-special",
          .negatives = "--no-parse-special",
          .help =
              "Read names of special tokens in the text as those tokens, or as plain text. "
              "Default: as tokens.",
          .take = take,
          .excludes = excludes};
}

extern const std::array<Flag<CommandLine>, kChatFlagCount> kRunChatFlags;   // need --chat
extern const std::array<Flag<CommandLine>, kChatFlagCount> kWarmChatFlags;  // need --chat
extern const std::array<Flag<CommandLine>, kChatFlagCount> kWhyChatFlags;   // need --chat
extern const std::array<Flag<CommandLine>, kChatFlagCount - 1> kChatVerbFlags;
extern const std::array<Flag<CommandLine>, kSamplingFlagCount> kSamplingFlags;

}  // namespace kvd::kvctl
