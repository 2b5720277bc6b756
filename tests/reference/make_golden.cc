// make_golden FOLDER: writes a golden folder for each of GoldenModels() into FOLDER/golden. Reads
// the texts in FOLDER/vocabulary/texts and writes their vocabularies and tokens into
// FOLDER/vocabulary. Run make_golden in the project's root. Exit codes: 0: written; 1: failed; 2:
// wrong usage. tests/data/README.md explains when to run it.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "tests/reference/golden_models.h"
#include "tests/reference/run_script.h"
#include "tests/reference/vocabulary_set.h"
#include "tests/reference/write_case.h"
#include "tools/make_model/model_maker.h"

namespace kvd::reference {
namespace {

Status MakeFolder(const GoldenModel& model, const std::string& folder) {
  std::filesystem::create_directories(folder);
  const std::string model_path = folder + "/model.gguf";
  KVD_TRY([[maybe_unused]] const MadeModel made, MakeModelFile(model.shape, nullptr, model_path));
  KVD_TRY(const GgufFile file, GgufFile::Open(model_path));
  golden::Case golden = CaseWithoutRows(model);
  golden.expected = RunScript(*ReadModel(ModelFile(file)), golden.scenarios);
  return WriteCase(golden, folder);
}

Status MakeAll(const std::string& folder) {
  for (const GoldenModel& model : GoldenModels()) {
    KVD_CHECK_OK(MakeFolder(model, folder + "/golden/" + model.folder));
  }
  return WriteVocabularySet(folder + "/vocabulary");
}

}  // namespace
}  // namespace kvd::reference

int main(int argument_count, char** arguments) {
  if (argument_count != 2) {
    std::fprintf(stderr, "usage: make_golden FOLDER\n");
    return 2;
  }
  try {
    const auto made = kvd::reference::MakeAll(arguments[1]);
    if (made) return 0;
    std::fprintf(stderr, "make_golden: %s\n", made.error().message.c_str());
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "make_golden: %s\n", problem.what());
  }
  return 1;
}
