// How an answer ends: why, and what its slot and its conversation keep of it.
#include <algorithm>
#include <utility>

#include "http/answer/answer.h"
#include "http/answer/conversation.h"

namespace kvd::http {

Await<void> Answer::FindStopType(std::uint32_t finish) {
  AnswerEnd& end = count_.end();
  switch (finish) {
    case wire::kFinishEnd: end.stop_type = StopType::kEos; break;
    case wire::kFinishGrammar:
      end.stop_type = StopType::kEos;
      end.ended_by_grammar = true;
      break;
    case wire::kFinishStop:
      end.stop_type = StopType::kWord;
      end.stopping_word = co_await FindStop();
      break;
    default: end.stop_type = StopType::kLimit;
  }
}

Await<void> Answer::Complete() {
  co_await FindStopType(daemon_.result().finish);
  if (request_.conversation && request_.number == 0 && !place_->is_shifted()) {
    Conversation& conversation = *request_.conversation;
    const std::vector<TokenId>& answered = delivered_.tokens();
    conversation.model = tenant_.model().id();
    conversation.tokens = request_.prompt;
    conversation.tokens.insert(conversation.tokens.end(), answered.begin(), answered.end());
  }
  place_->Finish(daemon_.result().skipped != 0);
  if (request_.journal && !delivered_.has_started_over()) {
    request_.journal->PutEnd(request_.number);
  }
}

Await<std::string> Answer::FindStop() {
  if (request_.stops.size() == 1) co_return request_.stops.front();
  const std::uint16_t flags = FlagIf(request_.shows_special, wire::kFlagSpecial);
  const auto text = co_await session()->Detokenize(delivered_.tokens(), flags);
  if (!text) co_return std::string();
  // The daemon has cut the answer where the stop text begins.
  const std::string* found = nullptr;
  std::size_t found_at = std::string::npos;
  for (const std::string& stop : request_.stops) {
    const std::size_t least = std::min(delivered_.text_bytes(), text->size());
    const std::size_t at = text->find(stop, least > 0 ? least - 1 : 0);
    if (at != std::string::npos && (found == nullptr || at < found_at)) {
      found = &stop;
      found_at = at;
    }
  }
  co_return found == nullptr ? std::string() : *found;
}

}  // namespace kvd::http
