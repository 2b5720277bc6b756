// make_state_file_corpus FOLDER: saved sequences of each small engine in every profile, as files and
// as their sections, for state_file_fuzz to start from.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/sampler_state.h"
#include "engine/saved_state/save_sequences.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/fuzz/small_engines.h"
#include "tests/fuzz/state_file_form.h"

namespace {

using namespace kvd;
using test::StateFileForm;

struct Profile {
  const char* name;
  std::size_t count;  // sequences
  SaveProfile profile;
};
const Profile kProfiles[] = {{"packed", 1, {}},
                             {"plain", 1, {.packed = false}},
                             {"tokens", 1, {.tokens_only = true}},
                             {"q8_0", 1, {.rows_type = kernels::DataType::kQ8_0}},
                             {"several", 3, {}}};

std::vector<std::byte> BytesOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}

Status WriteSeeds(std::size_t number, const std::filesystem::path& scratch,
                  const std::string& folder) {
  Engine& engine = test::SmallEngine(number);
  const UniqueFd directory(::open(scratch.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  KeptSampler sampler;
  sampler.params.biases = {{3, 0.5f}};
  const std::vector<std::byte> sampler_bytes = EncodeSampler(sampler);
  std::vector<SequenceExport> exports;
  for (const std::size_t count : {20, 3, 0}) {
    KVD_TRY(SequenceExport opened, SequenceExport::Open(engine, test::MakeSequence(engine, count)));
    exports.push_back(std::move(opened));
  }
  const SaveItem items[] = {{.sequence = &exports[0], .sampler = sampler_bytes},
                            {.sequence = &exports[1]},
                            {.sequence = &exports[2]}};
  for (const Profile& one : kProfiles) {
    const auto chosen = std::span(items).first(one.count);
    const std::string name = test::SmallEngineName(number) + "_" + one.name;
    KVD_TRY(auto sections, PlanSections(chosen, one.profile));
    KVD_TRY([[maybe_unused]] const SaveReport report,
            SaveSequences(engine, chosen, one.profile, std::move(sections),
                          {.directory = directory.get(), .name = name}, 1));
    const std::vector<std::byte> file = BytesOf(scratch / name);
    KVD_TRY(const std::vector<std::byte> form, test::SectionsForm(file));
    test::WriteSeed(folder, name, test::InputBytes({number, StateFileForm::kAsIs, 0, file}));
    test::WriteSeed(folder, name + "_sums",
                    test::InputBytes({number, StateFileForm::kSums, 0, file}));
    test::WriteSeed(folder, name + "_sections",
                    test::InputBytes({number, StateFileForm::kSections, 0, form}));
    test::WriteSeed(folder, name + "_cut",
                    test::InputBytes({number, StateFileForm::kSections, 7, form}));
  }
  return {};
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  std::string scratch = (std::filesystem::temp_directory_path() / "kvd-corpus-XXXXXX").string();
  if (::mkdtemp(scratch.data()) == nullptr) return 1;
  Status status;
  for (std::size_t number = 0; number < test::kSmallEngines && status; ++number) {
    status = WriteSeeds(number, scratch, arguments[1]);
  }
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
  if (status) return 0;
  std::fprintf(stderr, "make_state_file_corpus: %s\n", status.error().message.c_str());
  return 1;
}
