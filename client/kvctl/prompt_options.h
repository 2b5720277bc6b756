// The options of a chat and of sampling, which kvctl run and other verbs have. Each function adds
// options to a verb's command line; parsing fills the struct, which outlives the parser.
#pragma once

#include <CLI/CLI.hpp>

#include "client/kvctl/options.h"

namespace kvd::kvctl {

// `is_optional`: the verb also takes other prompts, and the options need the flag --chat.
void AddChatOptions(CLI::App& sub, ChatOptions& options, bool is_optional);

// The samplers of llama.cpp, with its names and defaults (docs/sampling.md).
void AddSamplingOptions(CLI::App& sub, RunOptions& run);

}  // namespace kvd::kvctl
