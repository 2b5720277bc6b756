// Writes seeds for prompt_store_fuzz: entries of the prompt caches of the small engines,
// as files and in the kSections form.
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "state_layout/state_layout.h"
#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/fuzz/prompt_folder.h"
#include "tests/fuzz/small_engines.h"
#include "tests/fuzz/state_file_form.h"

namespace kvd::prompt_store_corpus {
namespace {

using kvd::state_file::FileHeader;
using kvd::state_file::SectionEntry;

// Returns a file in the kSections form with its sequence twice, which is invalid: an entry has one
// sequence.
std::vector<std::byte> WithSequenceTwice(std::span<const std::byte> form) {
  FileHeader header;
  std::memcpy(&header, form.data(), sizeof header);
  std::vector<SectionEntry> entries(header.section_count);
  const std::size_t table_bytes = std::as_bytes(std::span(entries)).size();
  std::memcpy(entries.data(), form.data() + sizeof header, table_bytes);
  const std::span<const std::byte> data = form.subspan(sizeof header + table_bytes);
  header.section_count *= 2;
  header.sequence_count = 2;
  for (std::size_t at = 0, count = entries.size(); at < count; ++at) {
    SectionEntry again = entries[at];
    again.sequence = 1;
    entries.push_back(again);
  }
  std::vector<std::byte> twice;
  for (const auto part :
       {std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(entries)), data, data}) {
    twice.insert(twice.end(), part.begin(), part.end());
  }
  return twice;
}

}  // namespace

int Make(const std::string& folder) {
  using namespace test;
  for (std::size_t number = 0; number + 1 < kSmallEngines; ++number) {
    PromptFolder entries(SmallEngine(number));
    // Checks that the store notices the entry. If the store did not notice the entry, the target
    // would test files that the store ignores.
    entries.Put(entries.entry_name(), entries.entry());
    if (entries.store().counts().entries != 1) {
      std::fprintf(stderr, "make_corpus prompt_store: the entry was not noticed\n");
      return 1;
    }
    const auto form = SectionsForm(entries.entry());
    if (!form) {
      std::fprintf(stderr, "make_corpus prompt_store: %s\n", form.error().message.c_str());
      return 1;
    }
    const std::string name = SmallEngineName(number);
    WriteSeed(folder, name + "_file",
              InputBytes({number, StateFileForm::kSums, 0, entries.entry()}));
    WriteSeed(folder, name + "_sections", InputBytes({number, StateFileForm::kSections, 0, *form}));
    WriteSeed(folder, name + "_parts", InputBytes({number, StateFileForm::kSections, 3, *form}));
    WriteSeed(folder, name + "_twice",
              InputBytes({number, StateFileForm::kSections, 0, WithSequenceTwice(*form)}));
  }
  return 0;
}

}  // namespace kvd::prompt_store_corpus
