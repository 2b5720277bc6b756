// Entries are added to, and found again in, the recent half. When it is full, it becomes the older
// half, and the entries of the former older half, which were not used meanwhile, are dropped.
#include "http/backend/text_cache.h"

#include <utility>

namespace kvd::http {

std::string TextCache::KeyOf(wire::Verb verb, std::uint16_t flags,
                             std::span<const std::byte> payload) {
  if (payload.size() > kQuestionBytesMax) return {};
  std::string key = {static_cast<char>(verb), static_cast<char>(flags),
                     static_cast<char>(flags >> 8)};
  key.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  return key;
}

const std::vector<std::byte>* TextCache::Insert(const std::string& key,
                                                std::vector<std::byte> answer) {
  if (recent_.size() == kEntriesOfHalf) older_ = std::exchange(recent_, {});
  return &recent_.insert_or_assign(key, std::move(answer)).first->second;
}

const std::vector<std::byte>* TextCache::Find(const std::string& key) {
  if (key.empty()) return nullptr;
  if (const auto found = recent_.find(key); found != recent_.end()) return &found->second;
  const auto found = older_.find(key);
  if (found == older_.end()) return nullptr;
  std::vector<std::byte> answer = std::move(found->second);
  older_.erase(found);
  return Insert(key, std::move(answer));
}

void TextCache::Put(const std::string& key, std::span<const std::byte> answer) {
  if (key.empty() || answer.size() > kAnswerBytesMax) return;
  (void)Insert(key, {answer.begin(), answer.end()});
}

}  // namespace kvd::http
