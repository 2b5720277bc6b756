// Writes the seeds of state_file_fuzz into a directory: sequences of the bundled model in every
// profile.
#include <fcntl.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "engine/saved_state/save_sequences.h"
#include "shm/unique_fd.h"

int main(int argument_count, char** arguments) {
  using namespace kvd;
  if (argument_count != 2) return 2;
  const UniqueFd folder(::open(arguments[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  auto engine = Engine::Create({.cells = 256, .threads = 1});
  if (!folder || !engine) return 1;
  std::vector<SequenceExport> exports;
  for (const std::size_t count : {0, 3, 40}) {
    const auto handle = (*engine)->memory().Create({});
    const std::vector<TokenId> tokens(count, 7);
    StepItem item{.sequence = *handle, .pos = Pos{0}, .tokens = tokens, .first_logits_row = count};
    if (count > 0) (*engine)->Step({&item, 1});
    auto opened = SequenceExport::Open(**engine, *handle);
    if (!item.status || !opened) return 1;
    exports.push_back(std::move(*opened));
  }
  const std::vector<std::byte> sampler(9, std::byte{3});
  const SaveItem items[] = {{.sequence = &exports[1], .sampler = sampler},
                            {.sequence = &exports[2]},
                            {.sequence = &exports[0]}};
  struct Seed {
    const char* name;
    std::size_t count;
    SaveProfile profile;
  };
  const Seed seeds[] = {{"packed", 1, {}},
                        {"plain", 1, {.packed = false}},
                        {"tokens", 1, {.tokens_only = true}},
                        {"q8_0", 1, {.rows_type = kernels::DataType::kQ8_0}},
                        {"several", 3, {}}};
  for (const Seed& seed : seeds) {
    const auto chosen = std::span(items).first(seed.count);
    auto sections = PlanSections(chosen, seed.profile);
    const auto saved =
        sections ? SaveSequences(**engine, chosen, seed.profile, std::move(*sections),
                                 {.directory = folder.get(), .name = seed.name, .replace = true}, 1)
                 : Result<SaveReport>(std::unexpected(sections.error()));
    if (saved) continue;
    std::fprintf(stderr, "make_state_file_corpus: %s\n", saved.error().message.c_str());
    return 1;
  }
  return 0;
}
