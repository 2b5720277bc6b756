// The readings of a state file of llama.cpp (llama_files/llama_state_file.h). A reading is
// one interpretation of a file: a layout, a list of caches, and whether cells have extra
// coordinates. Files do not record which one is right.
#pragma once

#include <array>
#include <cstdint>

#include "llama_files/llama_state_file.h"

namespace kvd {

// The form of a cache in the file. kSparse: the cache has rows for only some of the declared
// layers; only the last cache can have this form. kKeyStreams: streams without V.
enum class LlamaCacheForm : std::uint8_t { kNone, kPlain, kStreams, kKeyStreams, kSparse };

inline bool HasStreams(LlamaCacheForm form) {
  return form == LlamaCacheForm::kStreams || form == LlamaCacheForm::kKeyStreams;
}

struct LlamaReading {
  LlamaLayout layout;
  std::array<LlamaCacheForm, 3> caches;
  bool has_coordinates;
};

// All readings, in the order of preference; the order matters only for files without cells.
inline constexpr auto kLlamaReadings = [] {
  using enum LlamaCacheForm;
  return std::to_array<LlamaReading>({
      {LlamaLayout::kFebruary2025, {kPlain, kNone, kNone}, false},
      {LlamaLayout::kFebruary2025, {kPlain, kSparse, kNone}, false},
      {LlamaLayout::kAugust2026, {kStreams, kNone, kNone}, false},
      {LlamaLayout::kAugust2026, {kStreams, kSparse, kNone}, false},
      {LlamaLayout::kAugust2026, {kStreams, kStreams, kNone}, false},
      {LlamaLayout::kAugust2026, {kStreams, kStreams, kSparse}, false},
      {LlamaLayout::kAugust2026, {kPlain, kNone, kNone}, false},
      {LlamaLayout::kAugust2026, {kStreams, kNone, kNone}, true},
      {LlamaLayout::kAugust2026, {kStreams, kSparse, kNone}, true},
      {LlamaLayout::kAugust2026, {kStreams, kStreams, kNone}, true},
      {LlamaLayout::kAugust2026, {kStreams, kStreams, kSparse}, true},
      {LlamaLayout::kAugust2026, {kKeyStreams, kNone, kNone}, false},
      {LlamaLayout::kAugust2026, {kKeyStreams, kNone, kNone}, true},
      {LlamaLayout::kAugust2026, {kKeyStreams, kSparse, kNone}, false},
      {LlamaLayout::kAugust2026, {kKeyStreams, kSparse, kNone}, true},
  });
}();

}  // namespace kvd
