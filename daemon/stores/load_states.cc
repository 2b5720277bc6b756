#include "daemon/stores/load_states.h"

#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "engine/model/model_config.h"

namespace kvd {

Status StateUpload::Append(std::vector<std::byte> piece) {
  KVD_CHECK_OK(share_.Grow(piece.size()));
  byte_count_ += piece.size();
  const bool joins = !pieces_.empty() && pieces_.back().size() + piece.size() <= kPieceBytes;
  if (joins) {
    pieces_.back().insert(pieces_.back().end(), piece.begin(), piece.end());
  } else {
    pieces_.push_back(std::move(piece));
  }
  return {};
}

Result<std::vector<std::byte>> StateUpload::Join(WorkControl& work) {
  std::vector<std::byte> file;
  if (pieces_.size() == 1) {
    file = std::move(pieces_.front());
  } else {
    file.reserve(byte_count_);
    for (std::vector<std::byte>& piece : pieces_) {
      KVD_CHECK_OK(work.Continue());
      file.insert(file.end(), piece.begin(), piece.end());
      piece = {};
    }
  }
  pieces_.clear();
  return file;
}

namespace {

// The number of threads of one load; it is small, so that loads leave processor cores for steps.
constexpr unsigned kLoadThreads = 2;

class Loading {
 public:
  Loading(const StateLoading& loading, const StateFileReader& file, WorkControl& work)
      : loading_(loading), file_(file), work_(work) {
    entries_.reserve(file.sequences().size());
  }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
  // If the load is not complete, the destructor drops the sequences that the load has created.
  ~Loading();

  Result<wire::LoadReply> Run();

 private:
  Status LoadAll();
  Status LoadOne(std::size_t number, wire::LoadedEntry* entry);
  Status RestoreSampler(std::span<const std::byte> sampler, wire::LoadedEntry* entry) const;

  const StateLoading& loading_;
  const StateFileReader& file_;
  WorkControl& work_;
  std::vector<wire::LoadedEntry> entries_;
  std::vector<TokenId> tokens_;
  bool is_complete_ = false;
};

Loading::~Loading() {
  if (is_complete_) return;
  for (const wire::LoadedEntry& entry : entries_) {
    (void)loading_.engine.memory().sequences().Drop(static_cast<SequenceHandle>(entry.handle));
  }
}

Status Loading::RestoreSampler(std::span<const std::byte> sampler, wire::LoadedEntry* entry) const {
  if (sampler.empty()) return {};
  KVD_TRY(KeptSampler kept, DecodeSampler(sampler, loading_.engine.config().vocab_size));
  if (loading_.samplers == nullptr) return {};
  KVD_CHECK_OK(
      loading_.samplers->PutLoaded(static_cast<SequenceHandle>(entry->handle), std::move(kept)));
  entry->flags |= wire::kLoadedSampler;
  return {};
}

Status Loading::LoadOne(std::size_t number, wire::LoadedEntry* entry) {
  const auto handle = static_cast<SequenceHandle>(entry->handle);
  const state_file::SequenceHeader& header = file_.sequences()[number].header;
  if ((header.flags & state_file::kHasRows) == 0) {
    KVD_CHECK_OK(CheckModel(loading_.engine, file_));
    KVD_TRY(const SavedTokens saved, ReadSavedTokens(loading_.engine, file_, number));
    if (!saved.cross_tokens.empty()) {
      return Fail(Code::kUnsupported,
                  "a state that was saved as tokens only and has an encoded text cannot be loaded");
    }
    entry->token_count = static_cast<std::uint32_t>(saved.tokens.size());
    tokens_.insert(tokens_.end(), saved.tokens.begin(), saved.tokens.end());
    return RestoreSampler(saved.sampler, entry);
  }
  KVD_TRY(const LoadReport report, LoadSequence(loading_.engine, file_, number, handle,
                                                kLoadThreads, work_, {.origin = loading_.origin}));
  entry->cell_count = report.cell_count;
  entry->flags = report.is_converted ? static_cast<std::uint32_t>(wire::kLoadedConverted) : 0u;
  CopyText(kernels::DataTypeName(report.k_type), entry->k_type);
  CopyText(kernels::DataTypeName(report.v_type), entry->v_type);
  entry->raw_bytes = report.raw_bytes;
  return RestoreSampler(report.sampler, entry);
}

Status Loading::LoadAll() {
  for (std::size_t number = 0; number < file_.sequences().size(); ++number) {
    KVD_CHECK_OK(work_.Continue());
    KVD_TRY(const SequenceHandle handle,
            loading_.engine.memory().sequences().Create(loading_.owner, loading_.part));
    entries_.push_back({});
    entries_.back().handle = static_cast<std::uint64_t>(handle);
    KVD_CHECK_OK(LoadOne(number, &entries_.back()));
  }
  return loading_.complete();
}

Result<wire::LoadReply> Loading::Run() {
  KVD_CHECK_OK(LoadAll());
  wire::LoadReply reply{.first = static_cast<SequenceHandle>(entries_.front().handle),
                        .count = std::ssize(entries_)};
  for (const auto bytes : {std::as_bytes(std::span(entries_)), std::as_bytes(std::span(tokens_))}) {
    reply.entries.insert(reply.entries.end(), bytes.begin(), bytes.end());
  }
  is_complete_ = true;
  return reply;
}

}  // namespace

Result<wire::LoadReply> LoadStates(const StateLoading& loading, const StateFileReader& file,
                                   WorkControl& work) {
  return Loading(loading, file, work).Run();
}

}  // namespace kvd
