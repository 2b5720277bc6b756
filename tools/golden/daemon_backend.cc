// A Backend with a private daemon, used through the client library.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "client/client.h"
#include "tools/daemon_process/daemon_process.h"
#include "tools/golden/backend.h"

namespace kvd::golden {
namespace {

std::optional<wire::PoolingChoice> PoolingOf(const Step& step) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "mean", "cls", "last", "rank"};
  const auto at = std::ranges::find(kNames, step.pooling);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<wire::PoolingChoice>(at - kNames.begin());
}

Status Collect(Decoding decoding, std::vector<float>* logits) {
  for (;;) {
    KVD_TRY(const Logits piece, decoding.Next());
    logits->insert(logits->end(), piece.values().begin(), piece.values().end());
    if (!piece.has_more()) return {};
  }
}

class DaemonBackend : public Backend {
 public:
  DaemonBackend(DaemonProcess daemon, Client client)
      : daemon_(std::move(daemon)), client_(std::move(client)) {}

  Status Reset() override {
    sequences_.clear();
    return {};
  }

  Status Decode(const Step& step, std::vector<float>* logits) override {
    KVD_TRY(const Sequence* sequence, Named(step.sequence));
    KVD_TRY(Decoding decoding, sequence->StartDecode(step.tokens, Pos{step.pos},
                                                     step.all_rows ? wire::LogitsWanted::kAll
                                                                   : wire::LogitsWanted::kLast));
    return Collect(std::move(decoding), logits);
  }

  // All requests are in flight together, so the daemon puts them into one batch.
  Status DecodeBatch(const Step& step, std::vector<float>* logits) override {
    std::vector<Decoding> decodings;
    for (const BatchRow& row : step.rows) {
      KVD_TRY(const Sequence* sequence, Named(row.sequence));
      KVD_TRY(Decoding decoding,
              sequence->StartDecode({&row.token, 1}, Pos{row.pos}, wire::LogitsWanted::kLast));
      decodings.push_back(std::move(decoding));
    }
    for (Decoding& decoding : decodings) KVD_CHECK_OK(Collect(std::move(decoding), logits));
    return {};
  }

  Status Embed(const Step& step, std::vector<float>* rows) override {
    const std::span<const TokenId> text = step.tokens;
    KVD_TRY(const auto embeddings, client_.Embed({&text, 1}, PoolingOf(step)));
    const std::vector<float>& values = embeddings.front().values;
    rows->insert(rows->end(), values.begin(), values.end());
    return {};
  }

  Status Encode(const Step& step) override {
    KVD_TRY(const Sequence* sequence, Named(step.sequence));
    KVD_TRY([[maybe_unused]] const EncodedText text, sequence->Encode(step.tokens));
    return {};
  }

  Status Edit(const Step& step) override {
    switch (step.op) {
      case Op::kCopy: {
        KVD_TRY(const Sequence* source, Named(step.sequence));
        if (step.p0 < 0 && step.p1 < 0 && !sequences_.contains(step.destination)) {
          KVD_TRY(Sequence fork, source->Fork());
          sequences_.emplace(step.destination, std::move(fork));
          return {};
        }
        KVD_TRY(const Sequence* destination, Named(step.destination));
        KVD_TRY([[maybe_unused]] const auto cells,
                source->CopyRangeTo(*destination, RangeOf(step)));
        return {};
      }
      case Op::kRemove: {
        KVD_TRY(const Sequence* sequence, Named(step.sequence));
        KVD_TRY([[maybe_unused]] const auto cells, sequence->RemoveRange(RangeOf(step)));
        return {};
      }
      case Op::kKeep: {
        KVD_TRY(const Sequence* kept, Named(step.sequence));
        KVD_CHECK_OK(kept->Keep());
        for (auto& [name, sequence] : sequences_) {
          // Keep has made the daemon drop the sequence, so the Sequence must not drop it again.
          if (name != step.sequence) (void)sequence.Detach();
        }
        std::erase_if(sequences_, [&](const auto& entry) { return entry.first != step.sequence; });
        return {};
      }
      case Op::kAdd: {
        KVD_TRY(const Sequence* sequence, Named(step.sequence));
        return sequence->Add(RangeOf(step), step.number);
      }
      case Op::kDivide: {
        KVD_TRY(const Sequence* sequence, Named(step.sequence));
        KVD_TRY([[maybe_unused]] const auto cells, sequence->Divide(RangeOf(step), step.number));
        return {};
      }
      default: return Fail(Code::kUnsupported, "this model has no such operation yet");
    }
  }

 private:
  Result<const Sequence*> Named(std::int64_t name) {
    if (const auto found = sequences_.find(name); found != sequences_.end()) return &found->second;
    KVD_TRY(Sequence sequence, client_.NewSequence());
    return &sequences_.emplace(name, std::move(sequence)).first->second;
  }

  DaemonProcess daemon_;
  Client client_;
  std::map<std::int64_t, Sequence> sequences_;
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeDaemonBackend(const std::string& kvd_path,
                                                   const BackendOptions& options) {
  DaemonProcess::Options start{.kvd_path = kvd_path,
                               .arguments = {"-m", options.model_path, "-c", "4096", "-ctk",
                                             options.k_type, "-ctv", options.v_type, "--swa-full"}};
  if (options.llama_shifts) start.arguments.emplace_back("--llama-shifts");
  if (options.deterministic) start.arguments.emplace_back("--deterministic");
  KVD_TRY(DaemonProcess daemon, DaemonProcess::Start(start));
  KVD_TRY(Client client,
          Client::Connect({.socket_path = daemon.socket_path(), .client_name = "kvd-golden"}));
  return std::make_unique<DaemonBackend>(std::move(daemon), std::move(client));
}

}  // namespace kvd::golden
