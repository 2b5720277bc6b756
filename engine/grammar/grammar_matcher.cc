#include "engine/grammar/grammar_matcher.h"

#include <algorithm>
#include <utility>

namespace kvd {
namespace {

// The mutex of the grammar is held for at most this many bytes at once.
constexpr std::size_t kSliceBytes = 1u << 12;

}  // namespace

GrammarMatcher::GrammarMatcher(std::shared_ptr<Grammar> grammar)
    : grammar_(std::move(grammar)), slot_(grammar_->AddSlot()) {}

GrammarMatcher::GrammarMatcher(const GrammarMatcher& other)
    : grammar_(other.grammar_),
      slot_(grammar_->CopySlot(other.slot_)),
      byte_count_(other.byte_count_) {}

GrammarMatcher& GrammarMatcher::operator=(const GrammarMatcher& other) {
  if (this != &other) *this = GrammarMatcher(other);
  return *this;
}

GrammarMatcher::GrammarMatcher(GrammarMatcher&& other) noexcept
    : grammar_(std::move(other.grammar_)), slot_(other.slot_), byte_count_(other.byte_count_) {}

GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&& other) noexcept {
  std::swap(grammar_, other.grammar_);
  std::swap(slot_, other.slot_);
  std::swap(byte_count_, other.byte_count_);
  return *this;
}

GrammarMatcher::~GrammarMatcher() {
  if (grammar_ != nullptr) grammar_->FreeSlot(slot_);
}

Status GrammarMatcher::Accept(TokenId token) {
  KVD_CHECK_OK(grammar_->Accept(slot_, token, byte_count_));
  byte_count_ += grammar_->vocabulary().Text(token).size();
  return {};
}

Status GrammarMatcher::AcceptText(std::string_view text) {
  GrammarMatcher after(*this);
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), kSliceBytes))) {
    const std::string_view slice = text.substr(0, kSliceBytes);
    KVD_CHECK_OK(grammar_->AcceptBytes(after.slot_, slice, after.byte_count_));
    after.byte_count_ += slice.size();
  }
  *this = std::move(after);
  return {};
}

}  // namespace kvd
