#include "engine/saved_state/prompt_store.h"

#include <algorithm>
#include <utility>

#include "engine/memory/prefix_tables.h"
#include "engine/model/model_config.h"
#include "engine/model/model_fingerprint.h"
#include "engine/saved_state/save_sequences.h"
#include "engine/saved_state/state_file.h"

namespace kvd {
namespace {

// Whether the error means that the entry is damaged, so that it is removed.
bool IsDamage(Code code) {
  switch (code) {
    case Code::kNotFound:
    case Code::kNoSpace:
    case Code::kConflict:
    case Code::kCancelled: return false;
    default: return true;
  }
}

// Daemons use the same entries only if their pools have the same cell types and windows, because
// converted cells differ from the cells that the model would compute. Deterministic daemons use
// only entries computed in the same numeric form.
std::uint64_t HashModel(const Engine& engine, const std::array<std::uint64_t, 2>& key) {
  const EngineOptions& options = engine.options();
  const auto& words = engine.fingerprint().words;
  // The number 1 is not used: it marks entries of deterministic daemons that did not record their
  // form.
  const auto form = static_cast<std::uint64_t>(engine.numeric_form());
  return SipHash(key, std::array<std::uint64_t, 9>{words[0], words[1], words[2], words[3],
                                                   state_file::kVersion,
                                                   static_cast<std::uint64_t>(options.k_type),
                                                   static_cast<std::uint64_t>(options.v_type),
                                                   form == 0 ? 0 : form + 1, options.swa_full});
}

bool HasWindows(const Engine& engine) {
  return std::ranges::any_of(engine.cell_layout().groups, [](auto group) { return group != 0; });
}

}  // namespace

PromptStore::PromptStore(Engine& engine, Options options, PromptDirectory directory)
    : engine_(engine),
      options_(std::move(options)),
      directory_(std::move(directory)),
      has_state_(engine.state_bytes() != 0),
      serves_any_depth_(!has_state_ && !HasWindows(engine)),
      model_(HashModel(engine, directory_.key())),
      tokens_by_(kEntriesMax),
      names_(kEntriesMax) {
  for (std::uint32_t index = kEntriesMax; index-- > 0;) free_indices_.push_back(index);
}

Result<std::unique_ptr<PromptStore>> PromptStore::Open(Engine& engine, Options options) {
  if (engine.config().has_cross_attention()) {
    return Fail(Code::kUnsupported,
                "--cache-dir: not supported by this model: its cells depend on the encoded text");
  }
  KVD_TRY(PromptDirectory directory, PromptDirectory::Open(options.path));
  directory.RemoveLeftovers();
  std::unique_ptr<PromptStore> store(
      new PromptStore(engine, std::move(options), std::move(directory)));
  KVD_CHECK_OK(store->Scan());
  return store;
}

// ------------------------------------------------------------------------------------------- names

PromptStore::NameSpace PromptStore::NameSpaceOf(OwnerId owner, std::uint64_t salt) const {
  const auto half = [&](std::uint64_t number) {
    return SipHash(directory_.key(),
                   std::array<std::uint64_t, 3>{number, static_cast<std::uint64_t>(owner), salt});
  };
  // The first word is never 0, because 0 marks a file that is not an entry.
  return {std::max<std::uint64_t>(1, half(1)), half(2)};
}

PrefixSpace PromptStore::SpaceOf(const NameSpace& name_space) {
  return {
      .kind = PrefixSpace::Kind::kPrivate, .owner = OwnerId{name_space[1]}, .salt = name_space[0]};
}

std::uint64_t PromptStore::HashOf(const NameSpace& name_space,
                                  std::span<const TokenId> tokens) const {
  std::vector<std::uint64_t> words(name_space.begin(), name_space.end());
  words.push_back(tokens.size());
  for (const TokenId token : tokens) words.push_back(static_cast<std::uint32_t>(token));
  return SipHash(directory_.key(), words);
}

// ------------------------------------------------------------------------------------------- index

Status PromptStore::Scan() {
  KVD_TRY(const std::vector<PromptFile> files, directory_.List());
  for (const PromptFile& file : files) Notice(file.name);
  // The entries that are in the index but no longer in the directory.
  std::vector<std::string> gone;
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      if (std::ranges::find(files, name, &PromptFile::name) == files.end()) gone.push_back(name);
    }
  }
  for (const std::string& name : gone) Remove(name);
  return {};
}

void PromptStore::Refresh() {
  const auto changes = directory_.TakeChanges();
  if (!changes) return (void)Scan();
  for (const std::string& name : *changes) Notice(name);
}

void PromptStore::Notice(const std::string& name) {
  const auto parts = PromptDirectory::ParseName(name);
  if (!parts || parts->model != model_) return;
  bool is_known = false;
  {
    const MutexLock lock(mutex_);
    is_known = entries_.contains(name);
  }
  if (is_known) {
    const Result<UniqueFd> file = directory_.OpenFile(name);
    if (!file && file.error().code == Code::kNotFound) Remove(name);
    return;
  }
  if (const Result<Read> read = ReadEntry(name); read) {
    Add(name, *read);
  } else if (IsDamage(read.error().code)) {
    DropDamaged(name, read.error());
  }
}

Result<PromptStore::Read> PromptStore::ReadEntry(const std::string& name) const {
  KVD_TRY(UniqueFd opened, directory_.OpenFile(name));
  KVD_TRY(const StateFileReader file, StateFileReader::Open(std::move(opened)));
  KVD_CHECK_OK(CheckModel(engine_, file));
  Read read;
  std::ranges::copy(file.header().name_space, read.name_space.begin());
  if (read.name_space[0] == 0 || file.sequences().size() != 1) {
    return Fail(Code::kCorrupt, "is not an entry of a prompt cache");
  }
  KVD_TRY(SavedTokens saved, ReadSavedTokens(engine_, file, 0));
  const state_file::SequenceHeader& header = file.sequences()[0].header;
  if (header.pristine_cells != header.cell_count || header.cell_count == 0) {
    return Fail(Code::kCorrupt, "its cells are not all pristine");
  }
  // The name contains a hash of the tokens. If an entry had a wrong name, two entries could contain
  // the same tokens.
  const auto parts = PromptDirectory::ParseName(name);
  if (!parts || parts->prompt != HashOf(read.name_space, saved.tokens)) {
    return Fail(Code::kCorrupt, "its name does not match its tokens");
  }
  read.tokens = std::move(saved.tokens);
  read.entry.bytes = file.header().file_bytes;
  read.entry.cells = header.cell_count;
  const CellLayout& layout = engine_.cell_layout();
  // The previous section of rows of a layer with a window.
  const state_file::SectionEntry* last = nullptr;
  for (const state_file::SectionEntry& section : file.sections()) {
    if (section.kind == state_file::SectionKind::kState && section.begin == 0) {
      read.points.push_back(section.cells);
    }
    if (section.kind != state_file::SectionKind::kRows || section.layer >= layout.groups.size() ||
        layout.groups[section.layer] == 0) {
      continue;
    }
    // The sections of a plane are ordered by their first cell.
    const bool is_first = last == nullptr || last->kind != section.kind ||
                          last->layer != section.layer || last->side != section.side;
    last = &section;
    if (!is_first || section.begin == 0) continue;
    const std::uint64_t window = engine_.config().window[section.layer];
    read.entry.cells_min =
        std::max(read.entry.cells_min, static_cast<std::uint32_t>(section.begin - 1 + window));
  }
  return read;
}

void PromptStore::Add(const std::string& name, const Read& read) {
  const MutexLock lock(mutex_);
  if (free_indices_.empty() || entries_.contains(name)) return;
  Entry entry = read.entry;
  entry.index = free_indices_.back();
  free_indices_.pop_back();
  tokens_by_.Add(entry.index, SpaceOf(read.name_space));
  tokens_by_.Append(entry.index, read.tokens);
  if (has_state_) tokens_by_.SetPoints(entry.index, read.points);
  names_[entry.index] = name;
  entry_bytes_ += entry.bytes;
  entries_.emplace(name, entry);
}

void PromptStore::Remove(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  tokens_by_.Remove(found->second.index);
  names_[found->second.index].clear();
  free_indices_.push_back(found->second.index);
  entry_bytes_ -= found->second.bytes;
  entries_.erase(found);
}

void PromptStore::DropDamaged(const std::string& name, const Error& why) {
  Remove(name);
  (void)directory_.Remove(name);
  {
    const MutexLock lock(mutex_);
    ++dropped_;
  }
  if (options_.on_damaged) options_.on_damaged(name, why.message);
}

std::optional<StoredPrefix> PromptStore::Find(OwnerId owner, std::uint64_t salt,
                                              std::span<const TokenId> prompt,
                                              std::uint32_t held) const {
  if (prompt.size() <= held + 1) return std::nullopt;
  const PrefixSpace space = SpaceOf(NameSpaceOf(owner, salt));
  const auto serves = has_state_ ? PrefixIndex::Serves::kPoints : PrefixIndex::Serves::kAnyDepth;
  const MutexLock lock(mutex_);
  PrefixIndex::Match match;
  tokens_by_.Find(space, prompt.first(prompt.size() - 1), serves, &match);
  const Entry* best = nullptr;
  std::uint32_t cells = std::max(held, PrefixCache::kCellsMin - 1);
  for (const PrefixIndex::Candidate& candidate : match.candidates) {
    const Entry& entry = entries_.at(names_[candidate.sequence]);
    if (candidate.depth <= cells || candidate.depth < entry.cells_min) continue;
    cells = candidate.depth;
    best = &entry;
  }
  if (best == nullptr) return std::nullopt;
  const std::uint32_t read = serves_any_depth_ ? cells : best->cells;
  return StoredPrefix{.name = names_[best->index],
                      .cells = cells,
                      .cells_read = read,
                      .bytes_read = best->bytes * read / best->cells};
}

PromptStoreCounts PromptStore::counts() const {
  const MutexLock lock(mutex_);
  return {.entries = entries_.size(),
          .entry_bytes = entry_bytes_,
          .entries_dropped = dropped_,
          .entries_removed = removed_};
}

// ----------------------------------------------------------------------------------------- writing

Result<std::uint64_t> PromptStore::Write(SequenceExport& from, const std::atomic<bool>* cancelled) {
  const SequenceInfo& info = from.info();
  if (info.pristine_cells != info.cell_count || info.cell_count == 0 || info.cross_cells != 0) {
    return Fail(Code::kUnsupported, "only pristine cells without an encoded text can be stored");
  }
  Read read;
  read.name_space = NameSpaceOf(info.owner.id, info.owner.namespace_salt);
  read.tokens.assign(from.tokens().begin(), from.tokens().end());
  const OwnerId owner = info.owner.id;
  PromptName parts{.model = model_, .prompt = HashOf(read.name_space, read.tokens), .owner = {}};
  const std::string name_without_owner = PromptDirectory::NameOf(parts);
  parts.owner = owner;
  const std::string name = PromptDirectory::NameOf(parts);
  std::string covering;
  {
    const MutexLock lock(mutex_);
    if (entries_.contains(name)) {
      covering = name;
    } else if (entries_.contains(name_without_owner)) {
      covering = name_without_owner;
    } else if (serves_any_depth_) {
      PrefixIndex::Match match;
      tokens_by_.Find(SpaceOf(read.name_space), read.tokens, PrefixIndex::Serves::kAnyDepth,
                      &match);
      if (match.depth == read.tokens.size()) covering = names_[match.candidates.front().sequence];
    }
  }
  if (!covering.empty()) {
    directory_.Touch(covering);
    return 0;
  }
  KVD_TRY(const auto lock, directory_.Lock(name));
  if (!lock) return 0;
  const SaveProfile profile{.with_logits = false};
  const SaveItem item{.sequence = &from};
  KVD_CHECK_OK(from.Resume());
  Result<std::vector<state_file::SectionEntry>> sections = PlanSections({&item, 1}, profile);
  from.Pause();
  if (!sections) return std::unexpected(sections.error());
  const std::uint64_t wanted = UnpackedFileBytes(*sections);
  KVD_CHECK_OK(MakeRoom(owner, wanted));
  FlaggedWork work(cancelled);
  const auto report = SaveBriefly(
      engine_, from, profile, std::move(*sections),
      {.directory = directory_.descriptor(), .name = name, .name_space = read.name_space}, work);
  // kExists: another daemon has written the same entry in the meantime.
  const bool is_there = !report && report.error().code == Code::kExists;
  if (!report && !is_there) return std::unexpected(report.error());
  KVD_TRY(const Read written, ReadEntry(name));
  Add(name, written);
  if (serves_any_depth_) RemoveCovered(name, written);
  return report ? report->file_bytes : 0;
}

Status PromptStore::MakeRoom(OwnerId owner, std::uint64_t bytes) {
  KVD_TRY(const std::vector<PromptFile> files, directory_.List());
  const PromptLimits limits{.all = {.bytes = options_.bytes_max, .entries = kEntriesMax},
                            .part_of = options_.part_of,
                            .main_owner = options_.main_owner};
  return MakePromptRoom(files, limits, owner, bytes, [this](const std::string& name) {
    if (!directory_.Remove(name)) return false;
    Remove(name);
    const MutexLock lock(mutex_);
    ++removed_;
    return true;
  });
}

void PromptStore::RemoveCovered(const std::string& name, const Read& read) {
  std::vector<std::string> covered;
  {
    const MutexLock lock(mutex_);
    PrefixIndex::Match match;
    tokens_by_.Find(SpaceOf(read.name_space), read.tokens, PrefixIndex::Serves::kAnyDepth, &match);
    for (const PrefixIndex::Candidate& candidate : match.candidates) {
      const std::string& other = names_[candidate.sequence];
      if (other != name && entries_.at(other).cells == candidate.depth) covered.push_back(other);
    }
    removed_ += covered.size();
  }
  for (const std::string& other : covered) {
    Remove(other);
    (void)directory_.Remove(other);
  }
}

// ----------------------------------------------------------------------------------------- loading

Result<SequenceHandle> PromptStore::Load(const StoredPrefix& prefix, const SequenceOwner& owner,
                                         std::span<const TokenId> prompt,
                                         const std::atomic<bool>* cancelled) {
  const auto load = [&]() -> Result<SequenceHandle> {
    KVD_TRY(UniqueFd opened, directory_.OpenFile(prefix.name));
    KVD_TRY(const StateFileReader file, StateFileReader::Open(std::move(opened)));
    return LoadOpen(file, prefix, owner, prompt, cancelled);
  };
  Result<SequenceHandle> loaded = load();
  if (loaded) {
    directory_.Touch(prefix.name);
  } else if (loaded.error().code == Code::kNotFound) {
    Remove(prefix.name);
  } else if (IsDamage(loaded.error().code)) {
    DropDamaged(prefix.name, loaded.error());
    return Fail(Code::kCorrupt, prefix.name, ": ", loaded.error().message);
  }
  return loaded;
}

Result<SequenceHandle> PromptStore::LoadOpen(const StateFileReader& file,
                                             const StoredPrefix& prefix, const SequenceOwner& owner,
                                             std::span<const TokenId> prompt,
                                             const std::atomic<bool>* cancelled) {
  const NameSpace expected = NameSpaceOf(owner.id, owner.namespace_salt);
  if (!std::ranges::equal(file.header().name_space, expected) || file.sequences().size() != 1) {
    return Fail(Code::kCorrupt, "belongs to another namespace");
  }
  KVD_CHECK_OK(CheckModel(engine_, file));
  KVD_TRY(const SavedTokens saved, ReadSavedTokens(engine_, file, 0));
  if (saved.tokens.size() < prefix.cells ||
      !std::ranges::equal(std::span(saved.tokens).first(prefix.cells),
                          prompt.first(prefix.cells))) {
    return Fail(Code::kCorrupt, "its tokens have changed since it was indexed");
  }
  KVD_TRY(const SequenceHandle handle, engine_.memory().sequences().Create(owner));
  constexpr unsigned kThreads = 2;
  FlaggedWork work(cancelled);
  const Result<LoadReport> report =
      LoadSequence(engine_, file, 0, handle, kThreads, work, {.cells = prefix.cells_read});
  if (report) return handle;
  (void)engine_.memory().sequences().Drop(handle);
  return std::unexpected(report.error());
}

}  // namespace kvd
