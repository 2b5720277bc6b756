// The tokenizer cases of ../shared/vocab (KVD_VOCAB_DIR names another folder), and small
// vocabularies made by hand.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/vocabulary/vocabulary.h"

namespace kvd {

// The folder's name, relative to the project's root, in which tests run.
std::string VocabularyFolder();

// X of each ggml-vocab-X.gguf in the folder; empty where the folder is absent.
std::vector<std::string> VocabularyNames();

// The vocabulary of ggml-vocab-<name>.gguf. Null, with a failed expectation, where it cannot be
// read; null without one where the file is absent.
std::unique_ptr<Vocabulary> LoadVocabulary(const std::string& name);
std::unique_ptr<Vocabulary> LoadVocabularyFile(const std::string& path);

struct VocabularyCase {
  std::string text;
  std::vector<TokenId> tokens;
};

// Texts of the .inp file with the tokens of the .out file; empty where either is absent.
std::vector<VocabularyCase> LoadCases(const std::string& name);

// A byte-level vocabulary of the 256 bytes (token = byte), the tokens and merges below and
// "<|end|>" as a control token:
//   256 "he"  257 "ll"  258 "hell"  259 "hello"  260 " hello"
//   261 "<|end|>" (control)  262 "<user>" (user-defined)
VocabularyData SmallBytePairData();

// A SentencePiece vocabulary: 0 "<unk>", 1 "<s>", 2 "</s>", 3 + byte the byte tokens, and from 259
// on:
//   "_" "h" "e" "l" "o" "he" "ll" "hell" "hello" "_hello" (with U+2581 for "_"),
//   then "<user>" (user-defined)
VocabularyData SmallSentencePieceData();

// Makes it, with a failed expectation and null where that does not work.
std::unique_ptr<Vocabulary> MakeVocabulary(VocabularyData data);

// The number in KVD_TEST_SCALE, which multiplies the volume of random tests; 1 without it.
int TestScale();

}  // namespace kvd
