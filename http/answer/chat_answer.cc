// A parser that sees special tokens also sees the end token's text, which is not a part of the
// answer. Text that may be an end token is held until the next piece, or the end, says so.
#include "http/answer/chat_answer.h"

#include <string_view>
#include <utility>

#include "http/answer/stream_buffer.h"
#include "shm/wire_messages.h"

namespace kvd::http {
namespace {

// End tokens are written as "</s>", "<|im_end|>", "[EOS]".
bool MayBeEndToken(std::string_view text, std::string_view eos_text) {
  if (text.empty()) return false;
  return text.back() == '>' || text.back() == ']' ||
         (!eos_text.empty() && text.ends_with(eos_text));
}

AnswerOptions Seeded(AnswerOptions options, std::uint64_t seed) {
  options.id_seed = seed;
  return options;
}

// Joins events that continue the same text.
void Append(std::vector<AnswerEvent>& events, AnswerEvent event) {
  using Kind = AnswerEvent::Kind;
  const bool is_text = event.kind == Kind::kContent || event.kind == Kind::kReasoning ||
                       event.kind == Kind::kArguments;
  if (is_text && event.text.empty()) return;
  if (is_text && !events.empty() && events.back().kind == event.kind &&
      events.back().call == event.call) {
    events.back().text += event.text;
  } else {
    events.push_back(std::move(event));
  }
}

AnswerEvent Content(std::string text) {
  return {.kind = AnswerEvent::Kind::kContent, .text = std::move(text), .id = {}};
}

}  // namespace

ChatAnswer::ChatAnswer(std::string eos_text, const ChatPlan& plan, std::unique_ptr<Answer> answer,
                       std::uint64_t id_seed)
    : answer_(std::move(answer)),
      parser_(plan.text.tool_format, Seeded(plan.parser, id_seed)),
      tags_(plan.text.reasoning),
      reasoning_format_(plan.reasoning_format),
      shows_special_(plan.request.shows_special),
      eos_text_(std::move(eos_text)) {
  if (!plan.request.conversation) return;
  messages_ = plan.messages;
  tools_ = plan.parser.tools;
}

Await<Result<std::vector<std::unique_ptr<ChatAnswer>>>> ChatAnswer::Start(TenantSession& tenant,
                                                                          const ChatPlan& plan,
                                                                          std::uint32_t count) {
  std::vector<std::unique_ptr<Answer>> answers;
  AnswerRequest request = plan.request;
  if (count == 1) {
    KVD_CO_TRY(std::unique_ptr<Answer> answer, co_await Answer::Start(tenant, std::move(request)));
    answers.push_back(std::move(answer));
  } else {
    KVD_CO_TRY(answers, co_await Answer::StartMany(tenant, std::move(request), count));
  }
  std::vector<std::unique_ptr<ChatAnswer>> chats;
  for (std::unique_ptr<Answer>& answer : answers) {
    const std::uint64_t id_seed = plan.parser.id_seed + chats.size();
    std::unique_ptr<ChatAnswer> chat(
        new ChatAnswer(tenant.model().eos_text(), plan, std::move(answer), id_seed));
    chats.push_back(std::move(chat));
  }
  co_return chats;
}

void ChatAnswer::Emit(std::vector<AnswerEvent> parsed, std::vector<AnswerEvent>& events) {
  using Kind = AnswerEvent::Kind;
  for (AnswerEvent& event : parsed) {
    if (event.kind != Kind::kReasoning) {
      if (std::exchange(is_in_reasoning_, false)) Append(events, Content(tags_.close));
      Append(events, std::move(event));
      continue;
    }
    if (reasoning_format_ == ReasoningFormat::kNone) {
      Append(events, Content(std::move(event.text)));
      continue;
    }
    if (reasoning_format_ == ReasoningFormat::kDeepseekLegacy) {
      if (!std::exchange(is_in_reasoning_, true)) Append(events, Content(tags_.open));
      Append(events, Content(event.text));
    }
    Append(events, std::move(event));
  }
}

void ChatAnswer::Feed(std::string_view text, std::vector<AnswerEvent>& events) {
  if (text.empty()) return;
  text_ += text;
  std::vector<AnswerEvent> parsed;
  parser_.Feed(text, parsed);
  Emit(std::move(parsed), events);
}

Await<Status> ChatAnswer::RemoveEndToken() {
  const bool ended_by_token = end().stop_type == StopType::kEos && !end().ended_by_grammar;
  if (held_.empty() || !ended_by_token || tokens_.empty()) co_return Status();
  const std::span<const TokenId> last(&tokens_.back(), 1);
  const std::uint16_t flags = wire::kFlagSpecial;
  KVD_CO_TRY(const std::string text, co_await answer_->session()->Detokenize(last, flags));
  if (!text.empty() && held_.ends_with(text)) held_.resize(held_.size() - text.size());
  co_return Status();
}

Await<Result<std::optional<ChatPiece>>> ChatAnswer::Next() {
  std::optional<ChatPiece> next;
  if (is_over_) co_return next;
  KVD_CO_TRY(std::optional<AnswerPiece> piece, co_await answer_->Next());
  next.emplace();
  if (!piece) {
    is_over_ = true;
    KVD_CO_CHECK_OK(co_await RemoveEndToken());
    Feed(std::exchange(held_, std::string()), next->events);
    std::vector<AnswerEvent> parsed;
    parser_.Finish(parsed);
    Emit(std::move(parsed), next->events);
    if (std::exchange(is_in_reasoning_, false)) Append(next->events, Content(tags_.close));
    parsed_.Add(next->events);
    NoteConversation();
    if (next->events.empty()) next.reset();
    co_return next;
  }
  static_cast<AnswerPiece&>(*next) = std::move(*piece);
  if (next->is_progress) co_return next;
  const std::string text = std::exchange(next->text, std::string());
  tokens_.insert(tokens_.end(), next->tokens.begin(), next->tokens.end());
  Feed(std::exchange(held_, std::string()), next->events);
  if (shows_special_ && MayBeEndToken(text, eos_text_)) {
    held_ = text;
  } else {
    Feed(text, next->events);
  }
  parsed_.Add(next->events);
  co_return next;
}

void ChatAnswer::NoteConversation() {
  const AnswerRequest& request = answer_->request();
  if (!request.conversation || request.number != 0) return;
  request.conversation->messages = messages_;
  request.conversation->tools = tools_;
  request.conversation->answer = parsed_;
}

Await<Status> ChatAnswer::Finish() {
  for (;;) {
    KVD_CO_TRY(const std::optional<ChatPiece> piece, co_await Next());
    if (!piece) co_return Status();
  }
}

ChatFinish ChatAnswer::finish() const {
  if (end().stop_type == StopType::kLimit) return ChatFinish::kLength;
  return parsed_.calls.empty() ? ChatFinish::kStop : ChatFinish::kCalls;
}

}  // namespace kvd::http
