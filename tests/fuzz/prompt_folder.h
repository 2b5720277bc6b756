// PromptFolder: a prompt cache in a temporary folder, which is removed with the object. The
// constructor writes the entry of one prompt, reads the entry's bytes and removes its file.
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
  // REQUIRES: the engine outlives the object and its model supports prompt caching.
  explicit PromptFolder(Engine& engine);
  PromptFolder(const PromptFolder&) = delete;
  PromptFolder& operator=(const PromptFolder&) = delete;
  ~PromptFolder();

  PromptStore& store() { return *store_; }
  // Writes an entry as a daemon does, by renaming a finished file, and lets the store notice it.
  void Put(const std::string& name, std::span<const std::byte> bytes);
  void Remove(const std::string& name);
  // The name and the bytes of the entry that the constructor has written and removed.
  const std::string& entry_name() const { return entry_name_; }
  std::span<const std::byte> entry() const { return entry_; }
  // The namespace of the entry.
  const std::array<std::uint64_t, 2>& name_space() const { return name_space_; }
  // Returns the name of an entry with these tokens.
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
