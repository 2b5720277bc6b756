// Finds model files that llama.cpp or the Hugging Face client has downloaded. kvd-http itself never
// downloads.
//
// The places, as llama.cpp of August 2026 has them (common/hf-cache.cpp, common/download.cpp):
//
//   HUB/models--USER--MODEL/refs/main             the commit; else any other file of refs
//   HUB/models--USER--MODEL/snapshots/COMMIT/...  the files of the repository, often links
//   CACHE/NAME.gguf                               a file of --model-url; NAME ends the URL
//   CACHE/USER_MODEL_NAME.gguf                    a file of -hf, as llama.cpp of 2025 named it
//
// HUB is the first of $LLAMA_CACHE, $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub,
// $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub; CACHE the first of $LLAMA_CACHE,
// $XDG_CACHE_HOME/llama.cpp, ~/.cache/llama.cpp.
#pragma once

#include <string>

#include "base/error.h"
#include "http/options/parse_flags.h"
#include "http/options/settings.h"

namespace kvd::http {

// Returns the path of the model file that -hf (with -hff), -m or --model-url names; empty if none
// of them is given. As in llama-server, -hf precedes -m, which precedes --model-url. Without -hff
// the file is the one whose name has QUANT before a '.' or '-'; without QUANT Q4_K_M, Q8_0, or the
// first one. Of a model in several files it is the first one. Errors: kNotFound (says how to get
// the file), kInvalidArgument (-hf is not USER/MODEL or USER/MODEL:QUANT).
Result<std::string> FindModelFile(const Settings& settings, const Environment& environment);

}  // namespace kvd::http
