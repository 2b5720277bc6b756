// Makes the tokens of the text in which a reranker reads a query and a document.
//
// The form is the file's template (tokenizer.chat_template.rerank), in which {query} and {document}
// are replaced once and special tokens are read, as in llama.cpp's server. Without a template the
// tokens are BOS, query, EOS or SEP or both, document, EOS or SEP, each special token only if the
// vocabulary adds it to texts: "[CLS] query [SEP] document [SEP]" for bert. The query and the
// document are not escaped: in a template, "<|im_end|>" in a document is the special token.
#pragma once

#include <string_view>
#include <vector>

#include "engine/vocabulary/vocabulary.h"

namespace kvd {

// Any thread. Errors: those of Vocabulary::Tokenize.
Result<std::vector<TokenId>> RankTokens(const Vocabulary& vocabulary, std::string_view query,
                                        std::string_view document,
                                        WorkControl& work = Uncontrolled());

}  // namespace kvd
