// ForkContext: a context that several answers of one request continue (fork_from). Its cells are
// computed at most once, or are those of a snapshot; each answer continues a fork of them.
//
//   KVD_CO_TRY(auto context, co_await ForkContext::OfSnapshot(tenant, "tale"));
//   request.fork = context;
//   request.prompt = context->tokens() + the tokens of the suffix
//
// The answers share the context through AnswerRequest::fork. Its sequence is dropped with the last
// of them. At most kBranchesMax answers are computed at a time; the others wait for a permit.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "http/answer/answer_request.h"
#include "http/answer/cache_report.h"
#include "http/answer/tenant_session.h"
#include "http/backend/daemon_session.h"
#include "http/loop/await.h"

namespace kvd::http {

class Answer;

class ForkContext : public std::enable_shared_from_this<ForkContext> {
 public:
  static constexpr std::uint32_t kBranchesMax = 64;

  // The cells and tokens of a snapshot. Errors: kNotFound; those of the session.
  static Await<Result<std::shared_ptr<ForkContext>>> OfSnapshot(TenantSession& tenant,
                                                                std::string name);
  // Tokens, whose cells the first answer computes as the prompt of `request` (its slot,
  // caches_prompt); cached ones are not computed. REQUIRES: at least one token.
  static std::shared_ptr<ForkContext> OfTokens(TenantSession& tenant, std::vector<TokenId> tokens,
                                               const AnswerRequest& request);
  ~ForkContext();
  ForkContext(const ForkContext&) = delete;
  ForkContext& operator=(const ForkContext&) = delete;

  const std::vector<TokenId>& tokens() const { return tokens_; }

  // The permit of one answer, until the object is destroyed.
  class Permit {
   public:
    Permit() = default;
    explicit Permit(std::shared_ptr<ForkContext> context) : context_(std::move(context)) {}
    Permit(Permit&&) = default;
    Permit& operator=(Permit&& other) noexcept;
    ~Permit() { End(); }
    void End();

   private:
    std::shared_ptr<ForkContext> context_;
  };

  // A fork of the context for one answer, which owns the sequence.
  struct Branch {
    std::shared_ptr<DaemonSession> session;
    SequenceHandle sequence = SequenceHandle::kNone;
    // Of the context's tokens: those that the daemon did not compute for this answer. The first
    // answer is charged with the computation.
    std::uint32_t cached_tokens = 0;
    std::chrono::nanoseconds prompt_time{0};
    CacheReport cache;
    Permit permit;
  };
  // Waits for a permit, and for the cells. Errors: kCancelled after Cancel; those of Answer::Start
  // and of the session.
  Await<Result<Branch>> Take();

  // Ends the computation of the cells: Take fails.
  void Cancel();

 private:
  ForkContext(TenantSession& tenant, std::vector<TokenId> tokens)
      : tenant_(tenant), tokens_(std::move(tokens)), changed_(tenant.loop()) {}
  Await<Status> Compute();

  enum class State : std::uint8_t { kNew, kComputing, kReady, kFailed };

  TenantSession& tenant_;
  std::vector<TokenId> tokens_;
  AnswerRequest request_;  // of the computation
  State state_ = State::kNew;
  Error error_{};             // with kFailed
  Answer* answer_ = nullptr;  // that computes the cells
  bool is_cancelled_ = false;
  std::shared_ptr<DaemonSession> session_;
  SequenceHandle sequence_ = SequenceHandle::kNone;  // its cells are the context's
  CacheReport cache_;
  // What the first answer is charged with.
  std::uint32_t first_cached_ = 0;
  std::chrono::nanoseconds first_time_{0};
  CacheReport first_cache_;
  bool has_charged_ = false;
  std::uint32_t branches_ = 0;  // that have a permit
  Signal changed_;
};

}  // namespace kvd::http
