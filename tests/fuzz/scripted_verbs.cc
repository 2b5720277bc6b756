// The verbs of the scripted daemon, without generations.
#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "shm/payload_codec.h"
#include "tests/fuzz/scripted_daemon.h"
#include "tests/fuzz/scripted_state.h"
#include "tests/fuzz/scripted_vocabulary.h"

namespace kvd::test {
namespace {

constexpr std::size_t kWidth = 4;  // of an embedding

template <std::size_t kBytes>
void Put(std::string_view text, char (&into)[kBytes]) {
  text.copy(into, kBytes - 1);
}

// The first value is 0 for an empty text, and negative for some texts.
float ValueOf(std::size_t seed, std::size_t index) {
  return static_cast<float>(static_cast<int>((seed * 7 + index * 3) % 11) - 5) * 0.25f;
}

}  // namespace

Result<wire::OneReply<wire::InfoReply>> ScriptedDaemon::Do(const Request& request,
                                                           const wire::InfoArgs&) {
  const ScriptedModel& model = ModelOf(request);
  wire::OneReply<wire::InfoReply> reply;
  wire::InfoReply& info = reply.record;
  Put(model.name, info.model_name);
  Put("0", info.version);
  info.weight_bytes = 1000;
  info.pool_cells = std::uint64_t{model.context} * 4;
  info.cell_bytes = 64;
  info.vocab_size = kScriptedVocabulary;
  info.context_trained = model.context;
  info.layer_count = 1;
  info.embedding_size = kWidth;
  info.pid = 1;
  info.has_tokenizer = 1;
  info.bos_token = model.has_bos ? kScriptedBos : -1;
  info.eos_token = kScriptedEos;
  info.adds_bos = model.has_bos ? 1 : 0;
  info.state_bytes = model.state_bytes;
  return reply;
}

Result<wire::ChatTemplatesReply> ScriptedDaemon::Do(const Request& request,
                                                    const wire::ChatTemplatesArgs&) {
  const ScriptedModel& model = ModelOf(request);
  std::vector<wire::ChatTextView> texts;
  for (const auto& [name, text] : model.templates) {
    texts.push_back({wire::ChatTextKind::kTemplate, name, text});
  }
  const auto add = [&](std::string_view name, std::string_view text) {
    texts.push_back({wire::ChatTextKind::kToken, name, text});
  };
  if (model.has_bos) add("bos", ScriptedTokenText(kScriptedBos));
  add("eos", ScriptedTokenText(kScriptedEos));
  add("#vocabulary_kind", "2");
  std::vector<std::string> numbers;
  for (TokenId i = 0; i < 5; ++i) numbers.push_back(std::to_string(kScriptedInfill + i));
  constexpr std::string_view kNames[] = {"#fim_pre", "#fim_suf", "#fim_mid", "#fim_rep",
                                         "#fim_sep"};
  for (std::size_t i = 0; model.has_infill && i < numbers.size(); ++i) add(kNames[i], numbers[i]);
  wire::ChatTemplatesReply reply{.records = std::vector<std::byte>(wire::ChatTextsBytes(texts))};
  wire::EncodeChatTexts(texts, reply.records);
  return reply;
}

Result<wire::TokenizeReply> ScriptedDaemon::Do(const Request& request, const wire::TokenizeArgs&) {
  KVD_TRY(const std::string_view text, wire::ParseText(request.payload));
  const bool parses = (request.submission.flags & wire::kFlagParseSpecial) != 0;
  const bool adds = (request.submission.flags & wire::kFlagAddSpecial) != 0;
  wire::TokenizeReply reply{.tokens = ScriptedTokens(text, parses)};
  if (adds && ModelOf(request).has_bos) reply.tokens.insert(reply.tokens.begin(), kScriptedBos);
  reply.count = reply.tokens.size();
  return reply;
}

Result<wire::TextReply> ScriptedDaemon::Do(const Request& request, const wire::DetokenizeArgs&) {
  KVD_TRY(const auto tokens, wire::ParseTokens(request.payload, kScriptedVocabulary));
  const std::string text =
      ScriptedText(tokens, (request.submission.flags & wire::kFlagSpecial) != 0);
  const auto bytes = std::as_bytes(std::span(text));
  return wire::TextReply{.text = {bytes.begin(), bytes.end()}};
}

Result<wire::CreateReply> ScriptedDaemon::Do(const Request& request, const wire::CreateArgs&) {
  return wire::CreateReply{.sequence = state_.sequences.Create(request.session)};
}

Result<wire::ForkReply> ScriptedDaemon::Do(const Request& request, const wire::ForkArgs& args) {
  KVD_TRY(std::vector<SequenceHandle> handles, state_.sequences.Fork(request.session, args));
  wire::ForkReply reply{.first = handles.front()};
  reply.handles = std::move(handles);
  return reply;
}

Result<wire::NoReply> ScriptedDaemon::Do(const Request& request, const wire::DropArgs& args) {
  KVD_CHECK_OK(state_.sequences.Drop(request.session, args.sequence));
  return wire::NoReply{};
}

Result<wire::RetainReply> ScriptedDaemon::Do(const Request& request, const wire::RetainArgs& args) {
  KVD_CHECK_OK(state_.sequences.Retain(request.session, args.sequence));
  return wire::RetainReply{.sequence = args.sequence, .stays = true};
}

Result<wire::EditReply> ScriptedDaemon::Do(const Request& request,
                                           const wire::RemoveRangeArgs& args) {
  KVD_TRY(const std::uint64_t cells, state_.sequences.RemoveRange(request.session, args));
  return wire::EditReply{.cells = cells};
}

Result<wire::NoReply> ScriptedDaemon::Do(const Request& request, const wire::AddArgs& args) {
  KVD_CHECK_OK(state_.sequences.Shift(request.session, args));
  return wire::NoReply{};
}

Result<wire::QueryReply> ScriptedDaemon::Do(const Request& request, const wire::QueryArgs& args) {
  KVD_TRY(const wire::SequenceEntry entry, state_.sequences.Query(request.session, args.sequence));
  return wire::QueryReply{.sequence = args.sequence, .entry = entry};
}

Result<wire::ReadTokensReply> ScriptedDaemon::Do(const Request& request,
                                                 const wire::ReadTokensArgs& args) {
  KVD_TRY(const ScriptedSequence* const sequence,
          state_.sequences.Find(request.session, args.sequence));
  const std::size_t first =
      std::min(static_cast<std::size_t>(std::max(args.first_cell, 0)), sequence->cells.size());
  const std::size_t left = sequence->cells.size() - first;
  const std::size_t count = args.count ? std::min<std::size_t>(*args.count, left) : left;
  const auto begin = sequence->cells.begin() + static_cast<std::ptrdiff_t>(first);
  wire::ReadTokensReply reply{.sequence = args.sequence, .count = count};
  reply.cells.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  return reply;
}

Result<wire::ListReply<wire::SequenceEntry>> ScriptedDaemon::Do(const Request&,
                                                                const wire::ListArgs&) {
  return wire::ListReply<wire::SequenceEntry>{.entries = state_.sequences.List()};
}

Result<wire::PublishReply> ScriptedDaemon::Do(const Request& request,
                                              const wire::PublishArgs& args) {
  KVD_TRY(const std::string name, wire::ParseName(request.payload));
  const bool replaces = (request.submission.flags & wire::kFlagForce) != 0;
  KVD_TRY(const SequenceHandle made,
          state_.sequences.Publish(request.session, args.sequence, name, replaces));
  return wire::PublishReply{.sequence = made};
}

Result<wire::NoReply> ScriptedDaemon::Do(const Request& request, const wire::UnpublishArgs&) {
  KVD_TRY(const std::string name, wire::ParseName(request.payload));
  KVD_CHECK_OK(state_.sequences.Unpublish(name));
  return wire::NoReply{};
}

Result<wire::ForkedReply> ScriptedDaemon::Do(const Request& request, const wire::AttachArgs&) {
  KVD_TRY(const std::string name, wire::ParseName(request.payload));
  KVD_TRY(const SequenceHandle fork, state_.sequences.Attach(request.session, name));
  return wire::ForkedReply{.sequence = fork};
}

Result<wire::ListReply<wire::SnapshotEntry>> ScriptedDaemon::Do(const Request&,
                                                                const wire::SnapshotsArgs&) {
  return wire::ListReply<wire::SnapshotEntry>{.entries = state_.sequences.Snapshots()};
}

Result<wire::OneReply<wire::WhyRecord>> ScriptedDaemon::Do(const Request& request,
                                                           const wire::WhyArgs&) {
  KVD_TRY(const auto tokens, wire::ParseTokens(request.payload, kScriptedVocabulary));
  wire::OneReply<wire::WhyRecord> reply;
  wire::WhyRecord& why = reply.record;
  why.prompt_tokens = static_cast<std::uint32_t>(tokens.size());
  why.reused = static_cast<std::uint32_t>(state_.sequences.SharedPrefix(tokens));
  why.common = why.reused;
  why.limit = static_cast<std::uint8_t>(PrefixLimit::kTooShort);
  Put("a\xc3\xa9", why.prompt_text);
  Put("b", why.cached_text);
  return reply;
}

Result<wire::EmbedReply> ScriptedDaemon::Do(const Request& request, const wire::EmbedArgs& args) {
  if (!ModelOf(request).embeds)
    return Fail(Code::kUnsupported, "embed: not supported by this model");
  KVD_TRY(const auto lists, wire::ParseTokenLists(request.payload, kScriptedVocabulary));
  const wire::PoolingChoice pooling = args.pooling.value_or(wire::PoolingChoice::kMean);
  wire::EmbedReply reply;
  reply.width = pooling == wire::PoolingChoice::kRank ? 1 : kWidth;
  for (const auto& list : lists) {
    const std::size_t rows = pooling == wire::PoolingChoice::kNone ? list.size() : 1;
    reply.rows += rows;
    for (std::size_t i = 0; i < rows * reply.width; ++i) {
      reply.values.push_back(ValueOf(static_cast<std::size_t>(list.front()), i));
    }
  }
  return reply;
}

Result<wire::RankReply> ScriptedDaemon::Do(const Request& request, const wire::RankArgs&) {
  if (!ModelOf(request).embeds)
    return Fail(Code::kUnsupported, "rank: not supported by this model");
  KVD_TRY(const auto texts, wire::ParseTexts(request.payload));
  wire::RankReply reply{.tokens = request.payload.size()};
  for (std::size_t i = 1; i < texts.size(); ++i) {
    reply.scores.push_back(ValueOf(texts[i].size(), i));
  }
  return reply;
}

Result<wire::CancelReply> ScriptedDaemon::Do(const Request& request, const wire::CancelArgs& args) {
  const auto number = static_cast<std::uint64_t>(args.request);
  return wire::CancelReply{.was_found = Cancel(request.session, number)};
}

Result<wire::NoReply> ScriptedDaemon::Do(const Request& request, const wire::SetLifeArgs& args) {
  KVD_CHECK_OK(state_.sequences.Find(request.session, args.sequence));
  return wire::NoReply{};
}

Result<wire::ExportStateReply> ScriptedDaemon::Do(const Request& request,
                                                  const wire::ExportStateArgs&) {
  wire::ExportStateParams params{};
  std::memcpy(&params, request.payload.data(), sizeof params);
  if ((params.flags & wire::kStateModel) != 0) {
    return wire::ExportStateReply{.state = EncodeStateModel(ScriptedStateModel())};
  }
  SequenceHandle handle{};
  std::memcpy(&handle, request.payload.data() + sizeof params, sizeof handle);
  KVD_TRY(const ScriptedSequence* const sequence, state_.sequences.Find(request.session, handle));
  wire::ExportStateReply reply{.state = ScriptedState(sequence->cells)};
  reply.whole_bytes = reply.state.size();
  return reply;
}

Result<wire::UploadStateReply> ScriptedDaemon::Do(const Request& request,
                                                  const wire::UploadStateArgs& args) {
  if (args.offset == 0) upload_.clear();
  if (args.offset != upload_.size()) return Fail(Code::kConflict, "offset: another upload");
  upload_.insert(upload_.end(), request.payload.begin(), request.payload.end());
  return wire::UploadStateReply{.bytes = upload_.size()};
}

Result<wire::LoadReply> ScriptedDaemon::Do(const Request& request, const wire::ImportStateArgs&) {
  KVD_TRY(const auto sequences, ReadScriptedState(upload_));
  wire::LoadReply reply{.count = static_cast<std::int64_t>(sequences.size())};
  for (const auto& cells : sequences) {
    const SequenceHandle made = state_.sequences.Create(request.session);
    if (reply.first == SequenceHandle::kNone) reply.first = made;
    KVD_TRY(ScriptedSequence* const sequence, state_.sequences.Find(request.session, made));
    sequence->cells = cells;
    sequence->next_pos = cells.empty() ? 0 : cells.back().pos + 1;
    const wire::LoadedEntry entry{.handle = static_cast<std::uint64_t>(made),
                                  .cell_count = static_cast<std::uint32_t>(cells.size())};
    const auto bytes = std::as_bytes(std::span(&entry, 1));
    reply.entries.insert(reply.entries.end(), bytes.begin(), bytes.end());
  }
  return reply;
}

}  // namespace kvd::test
