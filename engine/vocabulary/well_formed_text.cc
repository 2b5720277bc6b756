#include "engine/vocabulary/well_formed_text.h"

#include <algorithm>

#include "base/utf8.h"

namespace kvd {
WellFormedText::WellFormedText(std::string_view text) : view_(text) {
  std::size_t offset = 0;
  std::size_t copied = 0;
  while (offset < text.size()) {
    std::size_t bytes = WellFormedBytes(text.substr(offset, 4));
    if (bytes > 0) {
      offset += bytes;
      continue;
    }
    storage_.append(text.substr(copied, offset - copied));
    replacements_.push_back(storage_.size());
    storage_.append(kReplacementCharacter);
    copied = ++offset;
  }
  if (replacements_.empty()) return;
  storage_.append(text.substr(copied));
  view_ = storage_;
}

std::size_t WellFormedText::OriginalOffset(std::size_t offset) const {
  auto before = std::lower_bound(replacements_.begin(), replacements_.end(), offset);
  auto replaced = static_cast<std::size_t>(before - replacements_.begin());
  return offset - replaced * (kReplacementCharacter.size() - 1);
}

}  // namespace kvd
