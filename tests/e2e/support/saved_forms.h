// The sequences in each folder tests/data/saved_COMMIT: a saved file for each kind of memory and
// content, and an entry of the prompt cache if the kind has one.
//
// write_saved_forms writes the folder saved_COMMIT with the daemon of COMMIT; UpgradeTest loads
// all folders with the present daemon. write_saved_forms and UpgradeTest create the sequences with
// the code of saved_forms, so that the loaded data can be compared with computed data. The models
// are in tests/data/models.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"

namespace kvd::test {

enum class FormContent : std::uint8_t {
  kWhole,       // a computed sequence
  kUnpacked,    // a computed sequence, saved without packing
  kEdited,      // a sequence with removed cells; the cells after them are shifted
  kTokensOnly,  // tokens without rows; loading computes the rows
  kQ8Rows,      // rows saved as q8_0; loading converts them
  kSampled,     // a sequence with generated tokens and a sampler that can be resumed
  kSession,     // three sequences: a computed one, a fork of its first tokens, an edited one
};

struct SavedForm {
  std::string name{};                    // the name of the saved file
  std::string model{};                   // tests/data/models/MODEL.gguf
  std::vector<std::string> arguments{};  // arguments of a daemon with such cells
  FormContent content = FormContent::kWhole;
  bool is_cached = false;     // the prompt cache has an entry of its tokens
  bool attends_text = false;  // the model's decoder attends to an encoded text
};

const std::vector<SavedForm>& SavedForms();

inline constexpr std::size_t kFormTokens = 48;  // one block and a half

// Tokens of the sequences, and tokens that continue them. All tokens are below 64, the size of the
// models' vocabulary.
std::vector<TokenId> FormTokens(std::size_t count = kFormTokens);
std::vector<TokenId> FormContinuation();

// Returns the arguments of a daemon for the form, with this store and this prompt cache; "": none.
std::vector<std::string> ArgumentsFor(const SavedForm& form, const std::string& store,
                                      const std::string& cache);

// Computes the form's sequences without taking prefixes from other sequences or the prompt cache.
Result<std::vector<SequenceHandle>> MakeForm(const Client& client, const SavedForm& form);

// Saves `sequences` under the form's name, replacing the file. REQUIRES: the session has no other
// sequences.
Result<SaveInfo> SaveForm(const Client& client, const SavedForm& form,
                          std::span<const SequenceHandle> sequences);

// Generates `count` more tokens with the sampler that has drawn the sequence's last tokens.
Result<std::vector<TokenId>> ResumeSampler(const Client& client, SequenceHandle sequence,
                                           std::int32_t count);

}  // namespace kvd::test
