#include "tests/fuzz/prompt_folder.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/check.h"
#include "engine/memory/prefix_tables.h"
#include "state_layout/state_layout.h"
#include "tests/fuzz/small_engines.h"

namespace kvd::test {
namespace {

// The key of the prompt cache is fixed, so that an input has the same effect in every run.
constexpr std::array<std::uint64_t, 2> kKey = {0x0123456789abcdef, 0xfedcba9876543210};
constexpr std::size_t kTokens = 40;

}  // namespace

PromptFolder::PromptFolder(Engine& engine) {
  path_ = (std::filesystem::temp_directory_path() / "kvd-fuzz-XXXXXX").string();
  KVD_ASSERT(::mkdtemp(path_.data()) != nullptr);
  std::ofstream(PathOf(".key"), std::ios::binary)
      .write(reinterpret_cast<const char*>(kKey.data()), sizeof kKey);
  auto store = PromptStore::Open(engine, {.path = path_, .bytes_max = 1u << 30, .on_damaged = {}});
  KVD_ASSERT(store.has_value());
  store_ = std::move(*store);
  const SequenceHandle handle = MakeSequence(engine, kTokens);
  KVD_ASSERT(*engine.memory().prefixes().Retain(handle));
  {
    auto opened = SequenceExport::OpenPaused(engine, handle);
    KVD_ASSERT(opened.has_value() && store_->Write(*opened, nullptr).value_or(0) != 0);
  }
  KVD_ASSERT(engine.memory().sequences().Drop(handle).has_value());
  for (const auto& file : std::filesystem::directory_iterator(path_)) {
    if (PromptDirectory::ParseName(file.path().filename().string())) {
      entry_name_ = file.path().filename().string();
    }
  }
  KVD_ASSERT(!entry_name_.empty());
  std::ifstream file(PathOf(entry_name_), std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  entry_.resize(bytes.size());
  std::memcpy(entry_.data(), bytes.data(), bytes.size());
  state_file::FileHeader header;
  std::memcpy(&header, entry_.data(), sizeof header);
  name_space_ = {header.name_space[0], header.name_space[1]};
  Remove(entry_name_);
  KVD_ASSERT(store_->counts().entries == 0);
}

PromptFolder::~PromptFolder() {
  store_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void PromptFolder::Put(const std::string& name, std::span<const std::byte> bytes) {
  const std::string temporary = PathOf(".fuzz");
  std::FILE* const file = std::fopen(temporary.c_str(), "wb");
  KVD_ASSERT(file != nullptr);
  KVD_ASSERT(std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
  KVD_ASSERT(std::fclose(file) == 0);
  KVD_ASSERT(std::rename(temporary.c_str(), PathOf(name).c_str()) == 0);
  store_->Refresh();
}

void PromptFolder::Remove(const std::string& name) {
  (void)::unlink(PathOf(name).c_str());
  store_->Refresh();
}

std::string PromptFolder::NameOf(std::span<const TokenId> tokens) const {
  std::vector<std::uint64_t> words = {name_space_[0], name_space_[1], tokens.size()};
  for (const TokenId token : tokens) words.push_back(static_cast<std::uint32_t>(token));
  PromptName parts = *PromptDirectory::ParseName(entry_name_);
  parts.prompt = SipHash(kKey, words);
  return PromptDirectory::NameOf(parts);
}

}  // namespace kvd::test
