// Tokenizer cases of published vocabularies, and small hand-made vocabularies. The cases are in the
// folder ../shared/vocab, or in the folder named by KVD_VOCAB_DIR.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/vocabulary/vocabulary.h"

namespace kvd {

// Returns the name of the folder with the cases. A relative name is relative to the project's root,
// in which tests run.
std::string VocabularyFolder();

// Returns the part X of each file name ggml-vocab-X.gguf in the folder, sorted; empty if the folder
// is absent.
std::vector<std::string> VocabularyNames();

// Returns the reason to skip a test of these vocabularies; empty if there are some.
std::string MissingVocabularies();

// Reads the vocabulary of ggml-vocab-<name>.gguf. Returns null if the file is absent. If the file
// cannot be read, adds a test failure and returns null.
std::unique_ptr<Vocabulary> LoadVocabulary(const std::string& name);
std::unique_ptr<Vocabulary> LoadVocabularyFile(const std::string& path);

struct VocabularyCase {
  std::string text;
  std::vector<TokenId> tokens;
};

// Returns the texts of the .inp file with the tokens of the .out file; empty if either is absent.
std::vector<VocabularyCase> LoadCases(const std::string& name);

// Returns a byte-level vocabulary. Tokens 0 to 255 are the bytes; the other tokens, with the merges
// that make them, are:
//   256 "he"  257 "ll"  258 "hell"  259 "hello"  260 " hello"
//   261 "<|end|>" (control)  262 "<user>" (user-defined)
VocabularyData SmallBytePairData();

// Returns a SentencePiece vocabulary with the tokens 0 "<unk>", 1 "<s>", 2 "</s>", 3 to 258 for the
// bytes, and from 259 on:
//   "_" "h" "e" "l" "o" "he" "ll" "hell" "hello" "_hello" (with U+2581 for "_"),
//   then "<user>" (user-defined)
VocabularyData SmallSentencePieceData();

// Makes the vocabulary. On failure, adds a test failure and returns null.
std::unique_ptr<Vocabulary> MakeVocabulary(VocabularyData data);

// Makes the vocabulary and tokenizes a text. On an error, adds a test failure and returns no
// tokens.
std::vector<TokenId> TokensOf(const VocabularyData& data, std::string_view text,
                              TokenizeOptions options = {});

}  // namespace kvd
