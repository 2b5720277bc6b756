// Writes the script and the rows of a golden folder in the format that tools/golden reads. The
// script names the model as model.gguf; golden.model_path is ignored.
#pragma once

#include <string>

#include "base/error.h"
#include "tools/golden/golden_case.h"

namespace kvd::reference {

// Returns the text of script.json with one step per line.
std::string ScriptText(const golden::Case& golden);

// Writes FOLDER/script.json and FOLDER/expect.f32. Errors: kIo.
Status WriteCase(const golden::Case& golden, const std::string& folder);

}  // namespace kvd::reference
