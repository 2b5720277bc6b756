// PromptFolder: a prompt cache in a folder of its own, with the entry of one prompt written to it;
// removed with the object.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/saved_state/prompt_store.h"

namespace kvd::test {

class PromptFolder {
 public:
  // The engine outlives it and is one that prompts can be kept of.
  explicit PromptFolder(Engine& engine);
  PromptFolder(const PromptFolder&) = delete;
  PromptFolder& operator=(const PromptFolder&) = delete;
  ~PromptFolder();

  PromptStore& store() { return *store_; }
  // Entries appear as a daemon makes them, by rename, and the store is told.
  void Put(const std::string& name, std::span<const std::byte> bytes);
  void Remove(const std::string& name);
  // The entry's name and bytes; it is not there any more.
  const std::string& entry_name() const { return entry_name_; }
  std::span<const std::byte> entry() const { return entry_; }
  // The namespace that it is of.
  const std::array<std::uint64_t, 2>& name_space() const { return name_space_; }
  // What an entry of these tokens is called.
  std::string NameOf(std::span<const TokenId> tokens) const;

 private:
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

  std::string path_;
  std::unique_ptr<PromptStore> store_;
  std::string entry_name_;
  std::vector<std::byte> entry_;
  std::array<std::uint64_t, 2> name_space_ = {};
};

}  // namespace kvd::test
