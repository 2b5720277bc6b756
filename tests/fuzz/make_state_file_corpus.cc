// Writes seeds for state_file_fuzz. Writes saved sequences of each small engine in every
// profile, as files and as their sections, and sections that are refused late.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/sampling/kept_sampler.h"
#include "engine/saved_state/save_sequences.h"
#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/fuzz/small_engines.h"
#include "tests/fuzz/state_file_form.h"

namespace kvd::state_file_corpus {
namespace {

using namespace kvd;
using state_file::SectionEntry;
using state_file::SectionKind;
using test::StateFileForm;

struct Profile {
  const char* name;
  std::size_t count;  // the number of saved sequences
  SaveProfile profile;
};
const Profile kProfiles[] = {
    {"packed", 1, {}},
    {"plain", 1, {.packed = false}},
    {"tokens", 1, {.tokens_only = true}},
    {"q8_0", 1, {.k_type = kernels::DataType::kQ8_0, .v_type = kernels::DataType::kQ8_0}},
    {"several", 3, {}}};

std::vector<std::byte> BytesOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}

// The parts of a file in the kSections form. The file has one sequence, whose header is the first
// section.
class Sections {
 public:
  explicit Sections(std::span<const std::byte> form) {
    std::memcpy(&file_header_, form.data(), sizeof file_header_);
    entries_.resize(file_header_.section_count);
    form = form.subspan(sizeof file_header_);
    std::memcpy(entries_.data(), form.data(), std::as_bytes(std::span(entries_)).size());
    form = form.subspan(std::as_bytes(std::span(entries_)).size());
    for (const SectionEntry& entry : entries_) {
      const auto data = form.first(entry.raw_bytes);
      data_.emplace_back(data.begin(), data.end());
      form = form.subspan(entry.raw_bytes);
    }
    KVD_ASSERT(data_[0].size() == sizeof header);
    std::memcpy(&header, data_[0].data(), sizeof header);
  }

  state_file::SequenceHeader header;

  bool Has(SectionKind kind) const {
    return std::ranges::find(entries_, kind, &SectionEntry::kind) != entries_.end();
  }
  // Lengthens the range of every section of a kind by `added` zero elements, or shortens it if
  // `added` is negative.
  void Lengthen(SectionKind kind, std::int64_t added) {
    for (std::size_t at = 0; at < entries_.size(); ++at) {
      SectionEntry& entry = entries_[at];
      if (entry.kind != kind) continue;
      const std::size_t element_bytes = data_[at].size() / (entry.end - entry.begin);
      entry.end += static_cast<std::uint64_t>(added);
      data_[at].resize(element_bytes * (entry.end - entry.begin));
      entry.raw_bytes = static_cast<std::uint32_t>(data_[at].size());
    }
  }
  void Remove(SectionKind kind) {
    for (std::size_t at = entries_.size(); at-- > 0;) {
      if (entries_[at].kind != kind) continue;
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
      data_.erase(data_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    file_header_.section_count = static_cast<std::uint32_t>(entries_.size());
  }
  template <class T>
  void SetInSampler(std::size_t offset, T number) {
    for (std::size_t at = 0; at < entries_.size(); ++at) {
      if (entries_[at].kind != SectionKind::kSampler) continue;
      std::memcpy(data_[at].data() + offset, &number, sizeof number);
    }
  }

  std::vector<std::byte> bytes() const {
    std::vector<std::byte> form;
    const auto add = [&](std::span<const std::byte> bytes) {
      form.insert(form.end(), bytes.begin(), bytes.end());
    };
    add(std::as_bytes(std::span(&file_header_, 1)));
    add(std::as_bytes(std::span(entries_)));
    add(std::as_bytes(std::span(&header, 1)));
    for (std::size_t at = 1; at < data_.size(); ++at) add(data_[at]);
    return form;
  }

 private:
  state_file::FileHeader file_header_;
  std::vector<SectionEntry> entries_;
  std::vector<std::vector<std::byte>> data_;
};

struct Change {
  const char* name;
  SectionKind kind;  // the change is applied to files that have such a section
  void (*make)(Sections& sections);
};

// Offsets in an encoded sampler: four numbers precede the record.
constexpr std::size_t kBiasCount = 4, kBreakerCount = 8, kSamplerRecord = 16;

const Change kChanges[] = {
    {"states_shorter", SectionKind::kState,
     [](Sections& sections) {
       sections.Lengthen(SectionKind::kState, -1);
       sections.header.state_floats -= 1;
     }},
    {"states_unannounced", SectionKind::kState,
     [](Sections& sections) { sections.header.flags &= ~state_file::kHasState; }},
    {"checkpoint_less", SectionKind::kState,
     [](Sections& sections) { sections.header.checkpoint_count -= 1; }},
    {"rows_shorter", SectionKind::kRows,
     [](Sections& sections) { sections.Lengthen(SectionKind::kRows, -1); }},
    {"rows_missing", SectionKind::kRows,
     [](Sections& sections) { sections.Remove(SectionKind::kRows); }},
    {"cells_too_many", SectionKind::kTokens,
     [](Sections& sections) {
       constexpr std::uint32_t kAdded = test::kSmallEngineCells;
       for (const SectionKind kind : {SectionKind::kRows, SectionKind::kState}) {
         sections.Remove(kind);
       }
       for (const SectionKind kind : {SectionKind::kTokens, SectionKind::kPositions}) {
         sections.Lengthen(kind, kAdded);
       }
       sections.header.flags &= ~state_file::kHasState;
       sections.header.checkpoint_count = 0;
       sections.header.cell_count += kAdded;
     }},
    {"sampler_temperature", SectionKind::kSampler,
     [](Sections& sections) {
       sections.SetInSampler(kSamplerRecord + offsetof(layout::SamplerRecord, sampling.temperature),
                             -1.0f);
     }},
    {"sampler_biases", SectionKind::kSampler,
     [](Sections& sections) { sections.SetInSampler(kBiasCount, std::uint32_t{2}); }},
    {"sampler_breakers", SectionKind::kSampler,
     [](Sections& sections) { sections.SetInSampler(kBreakerCount, std::uint32_t{1}); }},
    {"sampler_cells", SectionKind::kSampler,
     [](Sections& sections) {
       sections.SetInSampler(kSamplerRecord + offsetof(layout::SamplerRecord, cell_count),
                             std::uint32_t{1});
     }},
};

void WriteChanged(std::size_t number, std::span<const std::byte> form, const std::string& folder) {
  for (const Change& change : kChanges) {
    Sections sections(form);
    if (!sections.Has(change.kind)) continue;
    change.make(sections);
    test::WriteSeed(folder, test::SmallEngineName(number) + "_" + change.name,
                    test::InputBytes({number, StateFileForm::kSections, 0, sections.bytes()}));
  }
}

Status WriteSeeds(std::size_t number, const std::filesystem::path& scratch,
                  const std::string& folder) {
  Engine& engine = test::SmallEngine(number);
  const UniqueFd directory(::open(scratch.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  KeptSampler sampler;
  sampler.options.biases = {{3, 0.5f}};
  sampler.options.breakers = {"\n", "--"};
  const std::vector<std::byte> sampler_bytes = EncodeSampler(sampler);
  std::vector<SequenceExport> exports;
  for (const std::size_t count : {20, 3, 0}) {
    KVD_TRY(SequenceExport opened, SequenceExport::Open(engine, test::MakeSequence(engine, count)));
    exports.push_back(std::move(opened));
  }
  const SaveItem items[] = {{.sequence = &exports[0], .sampler = sampler_bytes},
                            {.sequence = &exports[1]},
                            {.sequence = &exports[2]}};
  for (const Profile& one : kProfiles) {
    const auto chosen = std::span(items).first(one.count);
    const std::string name = test::SmallEngineName(number) + "_" + one.name;
    KVD_TRY(auto sections, PlanSections(chosen, one.profile));
    KVD_TRY([[maybe_unused]] const SaveReport report,
            SaveSequences(engine, chosen, one.profile, std::move(sections),
                          {.directory = directory.get(), .name = name}, 1));
    const std::vector<std::byte> file = BytesOf(scratch / name);
    KVD_TRY(const std::vector<std::byte> form, test::SectionsForm(file));
    test::WriteSeed(folder, name, test::InputBytes({number, StateFileForm::kAsIs, 0, file}));
    test::WriteSeed(folder, name + "_sums",
                    test::InputBytes({number, StateFileForm::kSums, 0, file}));
    test::WriteSeed(folder, name + "_sections",
                    test::InputBytes({number, StateFileForm::kSections, 0, form}));
    test::WriteSeed(folder, name + "_cut",
                    test::InputBytes({number, StateFileForm::kSections, 7, form}));
    if (&one != &kProfiles[0]) continue;
    WriteChanged(number, form, folder);
    test::WriteSeed(
        folder, name + "_of_another",
        test::InputBytes({(number + 1) % test::kSmallEngines, StateFileForm::kAsIs, 0, file}));
  }
  return {};
}

}  // namespace

int Make(const std::string& folder) {
  std::string scratch = (std::filesystem::temp_directory_path() / "kvd-corpus-XXXXXX").string();
  if (::mkdtemp(scratch.data()) == nullptr) return 1;
  Status status;
  for (std::size_t number = 0; number < test::kSmallEngines && status; ++number) {
    status = WriteSeeds(number, scratch, folder);
  }
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
  if (status) return 0;
  std::fprintf(stderr, "make_corpus state_file: %s\n", status.error().message.c_str());
  return 1;
}

}  // namespace kvd::state_file_corpus
