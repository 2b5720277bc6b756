// make_prompt_store_corpus FOLDER: entries of the prompt caches of the small engines, as files and
// as their sections, for prompt_store_fuzz to start from.
#include <cstdio>
#include <string>

#include "tests/fuzz/make_wire_corpus.h"
#include "tests/fuzz/prompt_folder.h"
#include "tests/fuzz/small_engines.h"
#include "tests/fuzz/state_file_form.h"

int main(int argument_count, char** arguments) {
  using namespace kvd::test;
  if (argument_count != 2) return 2;
  for (std::size_t number = 0; number + 1 < kSmallEngines; ++number) {
    PromptFolder folder(SmallEngine(number));
    // The store must know it again, or the target would be about files that it does not look at.
    folder.Put(folder.entry_name(), folder.entry());
    if (folder.store().counts().entries != 1) {
      std::fprintf(stderr, "make_prompt_store_corpus: the entry was not noticed\n");
      return 1;
    }
    const auto form = SectionsForm(folder.entry());
    if (!form) {
      std::fprintf(stderr, "make_prompt_store_corpus: %s\n", form.error().message.c_str());
      return 1;
    }
    const std::string name = SmallEngineName(number);
    WriteSeed(arguments[1], name + "_file",
              InputBytes({number, StateFileForm::kSums, 0, folder.entry()}));
    WriteSeed(arguments[1], name + "_sections",
              InputBytes({number, StateFileForm::kSections, 0, *form}));
    WriteSeed(arguments[1], name + "_parts",
              InputBytes({number, StateFileForm::kSections, 3, *form}));
  }
}
