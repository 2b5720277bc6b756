#include "daemon/requests/grammar_worker.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace kvd {
namespace {

// An estimate of the bytes that compiling one byte of grammar takes, charged until it is known.
constexpr std::uint64_t kBytesPerTextByte = 64;

}  // namespace

GrammarWorker::GrammarWorker(const Vocabulary& vocabulary, std::uint32_t row_size, Post post,
                             std::function<void()> wake)
    : vocabulary_(vocabulary),
      row_size_(row_size),
      post_(std::move(post)),
      wake_(std::move(wake)) {}

std::shared_ptr<GrammarJob> GrammarWorker::Begin(GrammarWanted wanted) {
  const OwnerId owner = wanted.owner;
  auto job = std::make_shared<GrammarJob>(std::move(wanted));
  {
    const MutexLock lock(mutex_);
    auto queue = std::ranges::find(waiting_, owner, [](const auto& one) { return one.first; });
    if (queue == waiting_.end()) {
      waiting_.emplace_back(owner, std::deque<std::shared_ptr<GrammarJob>>());
      queue = std::prev(waiting_.end());
    }
    queue->second.push_back(job);
  }
  post_([this] { RunNext(); });
  return job;
}

void GrammarWorker::PrepareMask(const GrammarMatcher& matcher) {
  if (matcher.has_cached_mask()) return;
  post_([matcher]() mutable { (void)matcher.Mask(); });
}

void GrammarWorker::RunNext() {
  std::shared_ptr<GrammarJob> job;
  {
    const MutexLock lock(mutex_);
    if (waiting_.empty()) return;
    auto& queue = waiting_.front().second;
    job = std::move(queue.front());
    queue.pop_front();
    // The owner's next turn comes after those of the other owners.
    if (queue.empty()) {
      waiting_.pop_front();
    } else {
      waiting_.splice(waiting_.end(), waiting_, waiting_.begin());
    }
  }
  job->result_.emplace(Do(*job));
  job->is_done_.store(true, std::memory_order_release);
  wake_();
}

Result<AnswerGrammar> GrammarWorker::Do(GrammarJob& job) {
  FlaggedWork work(&job.is_cancelled_);
  KVD_CHECK_OK(work.Continue());
  KVD_TRY(std::shared_ptr<Grammar> grammar, FindOrCompile(job));
  AnswerGrammar answer(std::move(grammar), std::move(job.wanted_.triggers), vocabulary_);
  WorkMeter meter(work);
  constexpr std::size_t kUnitsPerToken = 64;
  const std::vector<TokenId>& past = job.wanted_.past;
  for (std::size_t i = 0; i < past.size(); ++i) {
    KVD_CHECK_OK(meter.Spend(kUnitsPerToken));
    if (const Status read = answer.Accept(past[i]); !read) {
      return Fail(Code::kConflict, "grammar: token ", i, " of the ", past.size(),
                  " that it has to read again: ", read.error().message);
    }
  }
  return answer;
}

Result<std::shared_ptr<Grammar>> GrammarWorker::FindOrCompile(GrammarJob& job) {
  const OwnerId owner = job.wanted_.owner;
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    if (kept->owner != owner || kept->hash != job.wanted_.hash) continue;
    kept_.splice(kept_.end(), kept_, kept);
    return std::shared_ptr<Grammar>(kept->held, kept->held->grammar.get());
  }
  if (!grammar_vocabulary_) {
    KVD_TRY(grammar_vocabulary_, GrammarVocabulary::Create(vocabulary_, row_size_));
  }
  const std::string& text = job.wanted_.text;
  KVD_TRY(Share share, TakeBytes(job.wanted_, kCacheBytes + kBytesPerTextByte * text.size()));
  FlaggedWork work(&job.is_cancelled_);
  KVD_TRY(auto grammar,
          Grammar::Compile(text, grammar_vocabulary_, {.cache_bytes = kCacheBytes}, work));
  const std::uint64_t bytes = kCacheBytes + grammar->held_bytes();
  if (bytes < share.amount()) share.Shrink(share.amount() - bytes);
  if (bytes > share.amount()) KVD_CHECK_OK(share.Grow(bytes - share.amount()));
  auto held = std::make_shared<HeldGrammar>(
      HeldGrammar{.grammar = std::move(grammar), .share = std::move(share)});
  Keep({.owner = owner, .hash = job.wanted_.hash, .held = held});
  return std::shared_ptr<Grammar>(held, held->grammar.get());
}

Result<Share> GrammarWorker::TakeBytes(const GrammarWanted& wanted, std::uint64_t bytes) {
  Share share(wanted.account, Resource::kHeldBytes);
  Status taken = share.Grow(bytes);
  while (!taken && DropOne(wanted.owner)) taken = share.Grow(bytes);
  if (!taken) return Fail(taken.error().code, "grammar: ", taken.error().message);
  return share;
}

bool GrammarWorker::DropOne(OwnerId owner) {
  const auto idle = std::ranges::find_if(
      kept_, [&](const Kept& kept) { return kept.owner == owner && kept.held.use_count() == 1; });
  if (idle == kept_.end()) return false;
  kept_.erase(idle);
  return true;
}

void GrammarWorker::Keep(Kept kept) {
  const auto of_owner = std::ranges::count(kept_, kept.owner, &Kept::owner);
  if (static_cast<std::size_t>(of_owner) >= kKeptPerOwner) {
    kept_.erase(std::ranges::find(kept_, kept.owner, &Kept::owner));
  } else if (kept_.size() >= kKeptMax) {
    kept_.pop_front();
  }
  kept_.push_back(std::move(kept));
}

}  // namespace kvd
