// The sequences that each folder tests/data/saved_COMMIT holds: a saved file of each kind of memory
// and content, and an entry of the prompt cache where the kind has one.
//
// write_saved_forms writes such a folder with the daemon of its commit; upgrade_test loads every
// one of them with today's daemon. Both make the sequences here, so that what is loaded can be
// compared with what is computed. The models lie in tests/data/models.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"

namespace kvd::test {

enum class FormContent : std::uint8_t {
  kWhole,       // as it was computed
  kUnpacked,    // the same, not packed
  kEdited,      // cells removed, those behind them shifted
  kTokensOnly,  // no rows; loading computes them
  kQ8Rows,      // rows as q8_0; loading converts them
  kSampled,     // drawn by a sampler that goes on
  kSession,     // three sequences: one, a fork of its beginning, an edited one
};

struct SavedForm {
  std::string name{};                    // of the saved file
  std::string model{};                   // tests/data/models/MODEL.gguf
  std::vector<std::string> arguments{};  // of the daemon that holds such cells
  FormContent content = FormContent::kWhole;
  bool is_cached = false;     // the prompt cache has an entry of its tokens
  bool attends_text = false;  // its decoder attends to an encoded text
};

const std::vector<SavedForm>& SavedForms();

inline constexpr std::size_t kFormTokens = 48;  // one block and a half

// What the sequences hold, and tokens to go on with. Below 64, the models' vocabulary.
std::vector<TokenId> FormTokens(std::size_t count = kFormTokens);
std::vector<TokenId> FormContinuation();

// The arguments of a daemon for that form, over this store and this prompt cache; "": without one.
std::vector<std::string> ArgumentsFor(const SavedForm& form, const std::string& store,
                                      const std::string& cache);

// Computes the form's sequences, with nothing taken from other sequences or the prompt cache.
Result<std::vector<SequenceHandle>> MakeForm(const Client& client, const SavedForm& form);

// Saves them under the form's name, replacing it. REQUIRES: the session has no other sequences.
Result<SaveInfo> SaveForm(const Client& client, const SavedForm& form,
                          std::span<const SequenceHandle> sequences);

// Goes on with the sampler of the sequence's last tokens, by `count` tokens.
Result<std::vector<TokenId>> ResumeSampler(const Client& client, SequenceHandle sequence,
                                           std::int32_t count);

}  // namespace kvd::test
