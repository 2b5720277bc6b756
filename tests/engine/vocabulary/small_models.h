// Hand-made vocabularies of the models gemma4, whitespace, hybriddna, rwkv and plamo2, for unit
// tests and fuzz targets.
#pragma once

#include "engine/vocabulary/vocabulary_data.h"

namespace kvd::test {

// Model gemma4. Tokens 0 to 255 are "<0x00>" to "<0xFF>"; from 256 on, with U+2581 for "_":
//   "_" "h" "e" "l" "o" "he" "ll" "_h" "hell" "\n" "\n\n" "\u00e9"
//   then 268 "<bos>" (control) and 269 "<user>" (user-defined)
VocabularyData SmallLinesData();

// Model whitespace. Tokens:
//   0 "<s>" (control)  1 "h" 2 "e" 3 "l" 4 "o" 5 "he" 6 "lo" 7 "\u00e9" 8 "H"  9 "<0xC3>" (byte)
VocabularyData SmallBlankSeparatedData();

// Model hybriddna with the tokens of a byte-level vocabulary (0 to 255: the bytes), then
//   256 "ac"  257 "<dna>" 258 "</dna>" 259 "<oov>"  260 to 262 the groups ACGTAC, AAAAAA, GTAAAA
VocabularyData SmallDnaData();

// Model rwkv. Token 0 is "<s>" (control), tokens 1 to 256 are the bytes, then
//   257 "he" 258 "hell" 259 "hello wor" 260 "\r\n" (escaped) 261 the bytes E4 BD (escaped)
//   262 "\\'" (escaped apostrophe: the same byte as token 40) 263 "unused" (unused)
VocabularyData SmallLongestMatchData();

// Model plamo2. Tokens 0 to 3 are "<|unk|>" "<|bos|>" "<|eos|>" "<|pad|>", 4 to 259 the bytes, then
// (with scores)
//   260 "a" -1  261 "b" -1  262 "ab" -1.5  263 "abc" -9  264 "\u00e9" -2  265 " " -1
//   266 "bb" -1000 (a mark)  267 "aa" -3000 (takes no part)  268 "<user>" 0 (user-defined)
VocabularyData SmallReverseUnigramData();

}  // namespace kvd::test
