// StateFolder: a temporary folder for state files, with the calls that tests of state files share.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "engine/saved_state/load_sequence.h"
#include "engine/saved_state/save_sequences.h"

namespace kvd::test {

class StateFolder {
 public:
  StateFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvd-state-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
    descriptor_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  ~StateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  int descriptor() const { return descriptor_.get(); }
  std::string PathOf(const std::string& name) const { return (path_ / name).string(); }
  std::size_t FileCount() const {
    const std::filesystem::directory_iterator all(path_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  std::vector<char> Bytes(const std::string& name) const {
    std::ifstream file(PathOf(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void Write(const std::string& name, const std::vector<char>& bytes) const {
    std::ofstream(PathOf(name), std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  Result<StateFileReader> Open(const std::string& name) const {
    return StateFileReader::Open(UniqueFd(::open(PathOf(name).c_str(), O_RDONLY | O_CLOEXEC)));
  }

  Result<SaveReport> Save(Engine& engine, std::span<const SequenceHandle> handles,
                          const std::string& name, const SaveProfile& profile = {},
                          unsigned threads = 2) const {
    std::vector<SequenceExport> exports;
    for (const SequenceHandle handle : handles) {
      KVD_TRY(SequenceExport opened, SequenceExport::Open(engine, handle));
      exports.push_back(std::move(opened));
    }
    std::vector<SaveItem> items;
    for (const SequenceExport& opened : exports) items.push_back({.sequence = &opened});
    KVD_TRY(std::vector<state_file::SectionEntry> sections, PlanSections(items, profile));
    return SaveSequences(engine, items, profile, std::move(sections),
                         {.directory = descriptor(), .name = name, .replace = true}, threads);
  }
  Result<SaveReport> Save(Engine& engine, SequenceHandle handle, const std::string& name,
                          const SaveProfile& profile = {}, unsigned threads = 2) const {
    return Save(engine, std::span(&handle, 1), name, profile, threads);
  }
  // Loads the file into a new sequence. If the load fails, expects the new sequence to be empty and
  // drops it.
  Result<SequenceHandle> Load(Engine& engine, const std::string& name, std::size_t number = 0,
                              LoadReport* report = nullptr) const {
    return Load(engine, Open(name), number, report);
  }
  static Result<SequenceHandle> Load(Engine& engine, Result<StateFileReader> opened,
                                     std::size_t number = 0, LoadReport* report = nullptr) {
    KVD_TRY(const StateFileReader file, std::move(opened));
    KVD_TRY(const SequenceHandle handle, engine.memory().sequences().Create({}));
    Result<LoadReport> loaded = LoadSequence(engine, file, number, handle, 2);
    if (loaded) {
      if (report != nullptr) *report = *loaded;
      return handle;
    }
    EXPECT_EQ(engine.memory().sequences().Query(handle)->cell_count, 0u);
    EXPECT_TRUE(engine.memory().sequences().Drop(handle));
    return std::unexpected(loaded.error());
  }

 private:
  std::filesystem::path path_;
  UniqueFd descriptor_;
};

// The bytes of a state file, with access to its fields. SumUp and SumUpHeader correct the checksums
// after a change.
struct StateBytes {
  explicit StateBytes(std::vector<char> of) : bytes(std::move(of)) {}
  state_file::FileHeader& header() {
    return *reinterpret_cast<state_file::FileHeader*>(bytes.data());
  }
  state_file::SectionEntry& section(std::size_t number) {
    return reinterpret_cast<state_file::SectionEntry*>(bytes.data() + sizeof header())[number];
  }
  char* content(std::size_t number) { return bytes.data() + section(number).offset; }
  void SumUp() {
    for (std::size_t at = 0; at < header().section_count; ++at) {
      state_file::SectionEntry& entry = section(at);
      if (entry.offset > bytes.size() || entry.stored_bytes > bytes.size() - entry.offset) continue;
      entry.crc = Crc32c(0, std::as_bytes(std::span(content(at), entry.stored_bytes)));
    }
    header().table_crc = Crc32c(0, std::as_bytes(std::span(&section(0), header().section_count)));
    SumUpHeader();
  }
  void SumUpHeader() {
    header().header_crc = Crc32c(
        0,
        std::as_bytes(std::span(&header(), 1)).first(offsetof(state_file::FileHeader, header_crc)));
  }

  std::vector<char> bytes;
};

}  // namespace kvd::test
