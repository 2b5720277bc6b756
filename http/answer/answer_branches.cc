// How several answers to one prompt begin: the prompt is computed once, by the first answer, and
// the others continue forks of its sequence.
#include <utility>

#include "http/answer/answer.h"

namespace kvd::http {

std::unique_ptr<Answer> Answer::BranchOf(Tenant& tenant, const AnswerRequest& request,
                                         std::uint32_t index) {
  AnswerRequest own = request;
  own.number += index;
  own.seed += index;
  return std::unique_ptr<Answer>(new Answer(tenant, std::move(own)));
}

Result<std::vector<std::unique_ptr<Answer>>> Answer::BeginManyAgain(Tenant& tenant,
                                                                    const AnswerRequest& request,
                                                                    std::uint32_t count) {
  std::vector<std::unique_ptr<Answer>> answers;
  for (std::uint32_t i = 0; i < count; ++i) {
    answers.push_back(BranchOf(tenant, request, i));
    Answer& answer = *answers.back();
    KVD_CHECK_OK(answer.place_->OpenSession());
    KVD_CHECK_OK(answer.BeginAgain(*request.journal->FindStart(answer.request_.number)));
  }
  return answers;
}

Await<Result<std::unique_ptr<Answer>>> Answer::ComputePrompt(Tenant& tenant,
                                                             AnswerRequest request) {
  request.predict_max = 0;
  request.journal = nullptr;
  request.reasoning_limit.reset();
  request.conversation = nullptr;
  KVD_CO_TRY(std::unique_ptr<Answer> answer, co_await Start(tenant, std::move(request)));
  for (;;) {
    KVD_CO_TRY(const auto piece, co_await answer->Next());
    if (!piece) co_return answer;
  }
}

Await<Result<std::vector<std::unique_ptr<Answer>>>> Answer::StartMany(Tenant& tenant,
                                                                      AnswerRequest request,
                                                                      std::uint32_t count) {
  std::vector<std::unique_ptr<Answer>> answers;
  if (count == 1) {
    KVD_CO_TRY(answers.emplace_back(), co_await Start(tenant, std::move(request)));
    co_return answers;
  }
  if (request.seed == kRandomSeed) request.seed = SeedOf(request);
  if (request.journal) {
    AnswerJournal& journal = *request.journal;
    std::uint32_t begun = 0;
    while (begun < count && journal.FindStart(request.number + begun) != nullptr) ++begun;
    if (begun == count) co_return BeginManyAgain(tenant, request, count);
    // No answer has a piece before all have begun.
    for (std::uint32_t i = 0; i < count; ++i) {
      journal.Forget(request.number + i);
      journal.Claim(request.number + i);
    }
  }
  KVD_CO_TRY(std::unique_ptr<Answer> first, co_await ComputePrompt(tenant, request));
  KVD_CO_TRY(const std::vector<SequenceHandle> forks,
             co_await first->session()->ForkMany(first->sequence(), count - 1));
  // The first answer continues in its slot.
  first->request_ = request;
  first->ResetSources();
  first->count_.end().stop_type = StopType::kNone;
  const auto prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  for (std::uint32_t i = 1; i < count; ++i) {
    std::unique_ptr<Answer> branch = BranchOf(tenant, request, i);
    branch->place_->TakeBranch(first->session(), forks[i - 1]);
    branch->count_.end().cached_tokens = prompt_tokens;
    branch->count_.end().slot = i;
    answers.push_back(std::move(branch));
  }
  answers.insert(answers.begin(), std::move(first));
  for (const auto& answer : answers) {
    KVD_CO_CHECK_OK(answer->Generate(prompt_tokens, wire::kContinue));
  }
  co_return answers;
}

}  // namespace kvd::http
