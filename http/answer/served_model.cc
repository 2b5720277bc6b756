#include "http/answer/served_model.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace kvd::http {
namespace {

// Parsed templates that are kept; requests may bring templates of their own.
constexpr std::size_t kReadingsMax = 32;

std::string TokenText(const ChatTexts& texts, std::string_view name) {
  const std::string* const text = texts.FindToken(name);
  return text == nullptr ? std::string() : *text;
}

// The cells of one slot: those of the settings, at most those that the model was trained for and
// that the pool has.
std::uint32_t SlotCells(const Settings& settings, std::uint32_t slot_count,
                        const wire::InfoReply& info) {
  const std::uint64_t trained = info.context_trained != 0 ? info.context_trained : info.pool_cells;
  std::uint64_t cells = trained;
  if (settings.context_cells != 0) {
    cells = settings.is_unified ? settings.context_cells : settings.context_cells / slot_count;
  }
  return static_cast<std::uint32_t>(std::min({cells, trained, info.pool_cells}));
}

}  // namespace

Await<Result<std::unique_ptr<ServedModel>>> ServedModel::Create(DaemonSession& session,
                                                                const Settings& settings,
                                                                std::vector<std::string> names) {
  std::unique_ptr<ServedModel> model(new ServedModel(settings, std::move(names)));
  KVD_CO_TRY(model->info_, co_await session.Info());
  KVD_CO_TRY(model->texts_, co_await session.ChatTemplates());
  model->path_ = settings.model_path;
  model->created_unix_s_ = static_cast<std::int64_t>(std::time(nullptr));
  model->slot_count_ = settings.slot_count != 0 ? settings.slot_count : kSlotsDefault;
  model->slot_cells_ = SlotCells(settings, model->slot_count_, model->info_);
  const std::string own_template;
  KVD_CO_TRY([[maybe_unused]] const auto reading,
             co_await model->ReadTemplate(session, own_template, false));
  co_return model;
}

std::string ServedModel::bos_text() const { return TokenText(texts_, "bos"); }
std::string ServedModel::eos_text() const { return TokenText(texts_, "eos"); }

Await<Result<std::shared_ptr<const TemplateReading>>> ServedModel::ReadTemplate(
    DaemonSession& session, const std::string& choice, bool has_tools) {
  const std::string& chosen = choice.empty() ? settings_.chat_template : choice;
  std::string key = (has_tools ? "tools:" : "plain:") + chosen;
  if (const auto found = readings_.find(key); found != readings_.end()) co_return found->second;
  auto formatter = ChatFormatter::Create(texts_, chosen, has_tools);
  // The command line may give any text as a template, a request only a name or a program.
  if (!formatter && choice.empty() && formatter.error().code == Code::kNotFound) {
    formatter = ChatFormatter::FromProgram(texts_, chosen);
  }
  if (!formatter) co_return std::unexpected(std::move(formatter).error());
  auto reading = std::make_shared<TemplateReading>(
      TemplateReading{.formatter = std::move(*formatter), .reasoning = {}, .markers = {}});
  const std::string& source = reading->formatter.source();
  reading->tool_format = DetectToolFormat(source);
  if (!settings_.tool_format.empty()) {
    KVD_CO_TRY(reading->tool_format, ToolFormatOf(settings_.tool_format));
  }
  reading->reasoning = DetectReasoningTags(source);
  for (const std::string& marker : GrammarMarkers(reading->tool_format, reading->reasoning)) {
    KVD_CO_TRY(const std::vector<TokenId> tokens,
               co_await session.Tokenize(marker, wire::kFlagParseSpecial));
    if (tokens.size() == 1) reading->markers.push_back({.text = marker, .token = tokens.front()});
  }
  if (readings_.size() == kReadingsMax) readings_.erase(readings_.begin());
  readings_.emplace(std::move(key), reading);
  co_return reading;
}

}  // namespace kvd::http
