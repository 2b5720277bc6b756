#include "http/answer/fork_context.h"

#include <utility>

#include "http/answer/answer.h"

namespace kvd::http {
namespace {

// The request that computes the cells and predicts nothing.
AnswerRequest ContextRequest(const std::vector<TokenId>& tokens, const AnswerRequest& request) {
  AnswerRequest context;
  context.prompt = tokens;
  context.predict_max = 0;
  context.slot = request.slot;
  context.caches_prompt = request.caches_prompt;
  return context;
}

}  // namespace

ForkContext::Permit& ForkContext::Permit::operator=(Permit&& other) noexcept {
  End();
  context_ = std::move(other.context_);
  return *this;
}

void ForkContext::Permit::End() {
  if (!context_) return;
  --context_->branches_;
  context_->changed_.Notify();
  context_.reset();
}

Await<Result<std::shared_ptr<ForkContext>>> ForkContext::OfSnapshot(TenantSession& tenant,
                                                                    std::string name) {
  KVD_CO_TRY(const std::shared_ptr<DaemonSession> session, tenant.session());
  KVD_CO_TRY(const SequenceHandle sequence, co_await session->Attach(name));
  std::shared_ptr<ForkContext> context(new ForkContext(tenant, {}));
  context->session_ = session;
  context->sequence_ = sequence;
  KVD_CO_TRY(context->tokens_, co_await session->ReadTokens(sequence, 0, -1));
  context->state_ = State::kReady;
  context->has_charged_ = true;
  context->cache_.source = "snapshot";
  co_return context;
}

std::shared_ptr<ForkContext> ForkContext::OfTokens(TenantSession& tenant,
                                                   std::vector<TokenId> tokens,
                                                   const AnswerRequest& request) {
  std::shared_ptr<ForkContext> context(new ForkContext(tenant, std::move(tokens)));
  context->request_ = ContextRequest(context->tokens_, request);
  context->cache_.source = "fork";
  return context;
}

ForkContext::~ForkContext() {
  if (session_ && sequence_ != SequenceHandle::kNone) session_->DropLater(sequence_);
}

void ForkContext::Cancel() {
  is_cancelled_ = true;
  if (answer_ != nullptr) answer_->Cancel();
  changed_.Notify();
}

Await<Status> ForkContext::Compute() {
  KVD_CO_TRY(const std::unique_ptr<Answer> answer,
             co_await Answer::Start(tenant_, std::move(request_)));
  answer_ = answer.get();
  if (is_cancelled_) answer->Cancel();
  Status computed;
  for (;;) {
    const auto piece = co_await answer->Next();
    if (!piece) computed = std::unexpected(piece.error());
    if (!piece || !*piece) break;
  }
  answer_ = nullptr;
  KVD_CO_CHECK_OK(computed);
  first_cached_ = answer->end().cached_tokens;
  first_time_ = answer->end().prompt_time;
  first_cache_ = answer->end().cache;
  // The answer's own sequence stays in its slot.
  session_ = answer->session();
  KVD_CO_TRY(const auto forks, co_await session_->ForkMany(answer->sequence(), 1));
  sequence_ = forks.front();
  co_return Status();
}

Await<Result<ForkContext::Branch>> ForkContext::Take() {
  const std::shared_ptr<ForkContext> self = shared_from_this();
  while (branches_ == kBranchesMax && !is_cancelled_) co_await changed_.Wait();
  ++branches_;
  Branch branch;
  branch.permit = Permit(self);
  if (state_ == State::kNew) {
    state_ = State::kComputing;
    Status computed = co_await Compute();
    state_ = computed ? State::kReady : State::kFailed;
    if (!computed) error_ = std::move(computed).error();
    changed_.Notify();
  }
  while (state_ == State::kComputing) co_await changed_.Wait();
  if (state_ == State::kFailed) co_return std::unexpected(error_);
  if (is_cancelled_) co_return Fail(Code::kCancelled, "the answer was cancelled");
  branch.session = session_;
  branch.cached_tokens = static_cast<std::uint32_t>(tokens_.size());
  branch.cache = cache_;
  if (!std::exchange(has_charged_, true)) {
    branch.cached_tokens = first_cached_;
    branch.prompt_time = first_time_;
    branch.cache = first_cache_;
  }
  KVD_CO_TRY(const auto forks, co_await session_->ForkMany(sequence_, 1));
  branch.sequence = forks.front();
  co_return branch;
}

}  // namespace kvd::http
