// BlankSeparated is the tokenizer of tokenizer.ggml.model "whitespace": white space only ends
// words, and each word is tokenized by another tokenizer, in lower case if the vocabulary says so.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/vocabulary/text_tokenizer.h"

namespace kvd {

class BlankSeparated final : public TextTokenizer {
 public:
  BlankSeparated(std::unique_ptr<const TextTokenizer> words, bool lowercase)
      : words_(std::move(words)), lowercase_(lowercase) {}

  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  const std::unique_ptr<const TextTokenizer> words_;
  const bool lowercase_;
};

}  // namespace kvd
