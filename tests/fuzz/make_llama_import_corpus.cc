// Writes the seeds of llama_import_fuzz into a directory: for each engine, files of every kind that
// it can export, and files that can be read but not imported.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "llama_files/llama_state_file.h"
#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/llama_engines.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/fuzz/small_engines.h"
#include "tests/support/llama_conversion.h"

namespace kvd::llama_import_corpus {
namespace {

using namespace kvd;
using kernels::DataType;

// Values of the first byte of an input; llama_import_fuzz.cc defines their meaning.
constexpr std::uint8_t kEvery = 0, kOnlyOne = 2, kUnrotated = 3, kSecond = 6;

void Write(const std::string& folder, const std::string& name, std::span<const std::byte> file,
           std::uint8_t choice) {
  std::vector<std::byte> seed = {static_cast<std::byte>(choice)};
  seed.insert(seed.end(), file.begin(), file.end());
  test::WriteSeed(folder, name, seed);
}

// Returns the exported file. Empty: the engine cannot export with these options.
std::vector<std::byte> Exported(Engine& engine, const std::vector<SequenceHandle>& handles,
                                const LlamaExportOptions& options) {
  auto file = test::ExportLlama(engine, handles, options);
  KVD_ASSERT(file.has_value() || file.error().code != Code::kNumerical);
  return file ? std::move(*file) : std::vector<std::byte>();
}

// A file of which single numbers can be changed. Each cell of the file has one sequence id or none.
class ChangedFile {
 public:
  ChangedFile(const Engine& engine, std::vector<std::byte> bytes)
      : has_states_(engine.state_bytes() != 0), bytes_(std::move(bytes)) {
    auto read = ReadLlamaStateFile(bytes_);
    KVD_ASSERT(read.has_value() && !read->parts.empty());
    read_ = std::move(*read);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  // Replaces the tokens by `count` zero tokens. Called after all other changes, because the offsets
  // in read_ are wrong afterwards.
  ChangedFile& Tokens(std::uint32_t count) {
    const std::size_t begin = 12;
    std::vector<std::byte> tokens(std::size_t{count} * sizeof(TokenId));
    const auto at = bytes_.begin() + begin;
    bytes_.erase(at, at + static_cast<std::ptrdiff_t>(read_.tokens.size() * sizeof(TokenId)));
    bytes_.insert(bytes_.begin() + begin, tokens.begin(), tokens.end());
    Set(begin - 4, count);
    return *this;
  }
  ChangedFile& LastPositions(std::int32_t added) {
    for (const LlamaCells& part : read_.parts) Position(part, part.cells.size() - 1, added);
    return *this;
  }
  ChangedFile& PositionInLastPart(std::size_t cell, std::int32_t added) {
    Position(read_.parts.back(), cell, added);
    return *this;
  }
  ChangedFile& IdsOfLastPart(std::uint32_t id) {
    const LlamaCells& part = read_.parts.back();
    for (std::size_t cell = 0; cell < part.cells.size(); ++cell) Set(CellAt(part, cell) + 8, id);
    return *this;
  }
  // Removes the last layer of the last cache.
  ChangedFile& OneLayerLess() {
    const LlamaCells& part = read_.parts.back();
    for (const LlamaRows* rows : {&part.v.back(), &part.k.back()}) {
      Erase(rows->offset - kRowsHeader, kRowsHeader + rows->row_bytes * part.cells.size());
    }
    Set(part.k[0].offset - kRowsHeader - 4, static_cast<std::uint32_t>(part.k.size() - 1));
    return *this;
  }
  // Declares the keys of the last cache's last layer, which are f32, as f16 and removes half of
  // their bytes.
  ChangedFile& HalfRows() {
    const LlamaCells& part = read_.parts.back();
    const LlamaRows& rows = part.k.back();
    Erase(rows.offset, rows.row_bytes / 2 * part.cells.size());
    Set(rows.offset - kRowsHeader, static_cast<std::uint32_t>(DataType::kF16));
    Set(rows.offset - 8, static_cast<std::uint32_t>(rows.row_bytes / 2));
    return *this;
  }

 private:
  static constexpr std::size_t kRowsHeader = 12;

  void Set(std::size_t offset, std::uint32_t number) {
    std::memcpy(bytes_.data() + offset, &number, sizeof number);
  }
  void Erase(std::size_t offset, std::size_t count) {
    const auto at = bytes_.begin() + static_cast<std::ptrdiff_t>(offset);
    bytes_.erase(at, at + static_cast<std::ptrdiff_t>(count));
  }
  // Returns the offset of a cell. The cells of a cache end before the fields v_trans and
  // layer_count, which precede the first layer. In a file of a single sequence, a cell
  // has a sequence id only if its cache is divided into streams (n_stream of llama.cpp).
  std::size_t CellAt(const LlamaCells& part, std::size_t cell) const {
    const bool has_id =
        read_.kind == LlamaFileKind::kSession || (read_.layout == LlamaLayout::kAugust2026 &&
                                                  !(has_states_ && &part == &read_.parts.back()));
    const std::size_t cell_bytes = has_id ? 12 : 8;
    return part.k[0].offset - kRowsHeader - 8 - (part.cells.size() - cell) * cell_bytes;
  }
  void Position(const LlamaCells& part, std::size_t cell, std::int32_t added) {
    Set(CellAt(part, cell), static_cast<std::uint32_t>(part.cells[cell].pos + added));
  }

  const bool has_states_;  // the last cache holds recurrent states
  std::vector<std::byte> bytes_;
  LlamaStateFile read_;
};

struct Sequences {
  std::vector<SequenceHandle> short_one, long_one, two;
};

void WriteFiles(const std::string& folder, const std::string& model, Engine& engine,
                const Sequences& sequences, LlamaLayout layout) {
  const std::string of = model + (layout == LlamaLayout::kAugust2026 ? "_2026_" : "_2025_");
  const auto write = [&](const std::string& name, const std::vector<SequenceHandle>& handles,
                         const LlamaExportOptions& options, std::uint8_t choice) {
    const auto file = Exported(engine, handles, options);
    if (!file.empty()) Write(folder, of + name, file, choice);
    return !file.empty();
  };
  KVD_ASSERT(write("sequence", sequences.short_one, {.layout = layout}, kOnlyOne));
  KVD_ASSERT(write("long", sequences.long_one, {.layout = layout}, kOnlyOne));
  LlamaExportOptions options{.kind = LlamaFileKind::kSession, .layout = layout};
  KVD_ASSERT(write("session", sequences.short_one, options, kOnlyOne));
  KVD_ASSERT(write("no_second", sequences.short_one, options, kSecond));
  KVD_ASSERT(write("sessions", sequences.two, options, kEvery));
  KVD_ASSERT(write("second", sequences.two, options, kSecond));
  KVD_ASSERT(write("unnamed", sequences.two, options, kOnlyOne));
  for (const DataType type : {DataType::kF32, DataType::kF16, DataType::kBF16, DataType::kQ8_0}) {
    options = {.layout = layout, .k_type = type, .v_type = type};
    const std::string name = kernels::DataTypeName(type);
    (void)write(name, sequences.short_one, options, kOnlyOne);
    options.is_v_transposed = true;
    (void)write(name + "_transposed", sequences.short_one, options, kOnlyOne);
  }
}

void WriteRefused(const std::string& folder, const std::string& model, Engine& engine,
                  const Sequences& sequences, LlamaLayout layout) {
  const std::string of = model + (layout == LlamaLayout::kAugust2026 ? "_2026_" : "_2025_");
  const auto write = [&](const std::string& name, const ChangedFile& file, std::uint8_t choice) {
    Write(folder, of + name, file.bytes(), choice);
  };
  const ChangedFile one(engine, Exported(engine, sequences.long_one, {.layout = layout}));
  for (const std::uint32_t tokens : {0u, 10u, 25u}) {
    write("tokens" + std::to_string(tokens), ChangedFile(one).Tokens(tokens), kOnlyOne);
  }
  write("holes", ChangedFile(one).LastPositions(5).Tokens(19), kOnlyOne);
  write("position", ChangedFile(one).PositionInLastPart(0, -1), kOnlyOne);
  write("twice", ChangedFile(one).PositionInLastPart(0, 1), kOnlyOne);
  write("one_layer_less", ChangedFile(one).OneLayerLess(), kOnlyOne);
  write("half_rows", ChangedFile(one).HalfRows(), kOnlyOne);
  const ChangedFile two(
      engine, Exported(engine, sequences.two, {.kind = LlamaFileKind::kSession, .layout = layout}));
  write("tokens_of_first", ChangedFile(two).Tokens(5), kEvery);
  write("tokens_of_second", ChangedFile(two).Tokens(5), kSecond);
  write("others", ChangedFile(two).IdsOfLastPart(9), kEvery);
  write("same", ChangedFile(two).IdsOfLastPart(0), kEvery);
}

void WriteFilesOf(const std::string& folder, std::size_t number) {
  Engine& engine = test::LlamaEngine(number);
  const std::string model = test::LlamaEngineName(number);
  Sequences sequences{.short_one = {test::MakeSequence(engine, 3, 1)},
                      .long_one = {test::MakeSequence(engine, 20, 2)},
                      .two = {}};
  sequences.two = {sequences.short_one[0], sequences.long_one[0]};
  for (const LlamaLayout layout : {LlamaLayout::kFebruary2025, LlamaLayout::kAugust2026}) {
    WriteFiles(folder, model, engine, sequences, layout);
    WriteRefused(folder, model, engine, sequences, layout);
  }
  const auto unrotated =
      Exported(engine, sequences.short_one,
               {.k_type = DataType::kQ8_0, .v_type = DataType::kQ8_0, .is_unrotated = true});
  if (!unrotated.empty()) Write(folder, model + "_2026_unrotated", unrotated, kUnrotated);
  const auto streams =
      Exported(engine, sequences.two, {.kind = LlamaFileKind::kSession, .streams = 3});
  KVD_ASSERT(!streams.empty());
  Write(folder, model + "_2026_streams", streams, kEvery);
  Write(folder, model + "_2026_two_streams", ChangedFile(engine, streams).IdsOfLastPart(0).bytes(),
        kEvery);
}

}  // namespace

int Make(const std::string& folder) {
  for (std::size_t number = 0; number < test::kLlamaEngines; ++number) {
    WriteFilesOf(folder, number);
  }
  return 0;
}

}  // namespace kvd::llama_import_corpus
