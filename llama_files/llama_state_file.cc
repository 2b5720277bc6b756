#include "llama_files/llama_state_file.h"

#include <array>
#include <limits>
#include <utility>

#include "base/text.h"
#include "llama_files/llama_state_cursor.h"
#include "llama_files/llama_state_reading.h"

namespace kvd {

// `Attempt` reads the file field by field according to a reading. ReadLlamaStateFile tries all
// readings and returns the result of the first reading that uses every byte. If no reading uses
// every byte, ReadLlamaStateFile returns the error at the largest offset.

namespace {

// Smallest size of a cell: its position and its count of sequence ids.
constexpr std::uint64_t kCellBytesMin = 8;
// Smallest size of the K or V of a layer: its type and its row bytes.
constexpr std::uint64_t kLayerBytesMin = 12;
// The words before the tokens of a packed list.
constexpr std::size_t kPackedHeadWords = 3;
constexpr std::size_t kNumberUnits = 8;  // units of work (WorkMeter) for one number

class Attempt {
 public:
  Attempt(std::span<const std::byte> file, const LlamaReading& reading, WorkControl& work)
      : cursor_(file), reading_(reading), meter_(work) {}

  Result<LlamaStateFile> Read();
  std::uint64_t offset() const { return cursor_.offset(); }

 private:
  Status ReadHeader();
  // Replaces the words of a packed list by the tokens in it. `offset`: of the list.
  Status UnpackTokens(std::uint64_t offset);
  Status ReadArchitecture();
  Status ReadOutputs();
  Status ReadFloats(const char* count_field, const char* field, LlamaFloats* floats);
  Status ReadStreams(LlamaCacheForm form);
  Status ReadCells(std::uint32_t stream, std::uint32_t cell_count, LlamaCacheForm form);
  Status ReadCell(LlamaCacheForm form, LlamaCells& part);
  Status ReadCoordinates(std::int32_t pos);
  Status ReadSequenceIds(LlamaCacheForm form, LlamaCells& part, LlamaCell& cell);
  Status ReadData(LlamaCacheForm form, LlamaCells& part);
  Status ReadSparseData(LlamaCells& part);
  Result<LlamaRows> ReadRows(const char* type_field, const char* bytes_field, const char* field,
                             std::uint64_t cell_count);
  Result<LlamaRows> ReadTransposedRows(std::uint64_t cell_count);
  Result<kernels::DataType> ReadType(const char* field);

  LlamaStateCursor cursor_;
  const LlamaReading& reading_;
  WorkMeter meter_;
  // Whether the file has a token id after the position and the sequences of each cell.
  bool has_cell_tokens_ = false;
  LlamaStateFile file_;
};

Result<LlamaStateFile> Attempt::Read() {
  file_.layout = reading_.layout;
  KVD_CHECK_OK(ReadHeader());
  if (file_.kind == LlamaFileKind::kSession) {
    KVD_CHECK_OK(ReadArchitecture());
    if (reading_.layout == LlamaLayout::kFebruary2025) KVD_CHECK_OK(ReadOutputs());
  }
  for (LlamaCacheForm form : reading_.caches) {
    if (form == LlamaCacheForm::kNone) break;
    cursor_.place() = {};
    cursor_.place().cache = file_.cache_count;
    if (HasStreams(form)) {
      KVD_CHECK_OK(ReadStreams(form));
    } else {
      KVD_TRY(const std::uint32_t cells, cursor_.Count<std::uint32_t>("cell_count", kCellBytesMin));
      KVD_CHECK_OK(ReadCells(0, cells, form));
    }
    ++file_.cache_count;
  }
  cursor_.place() = {};
  if (cursor_.remaining() != 0) {
    return cursor_.Refuse(Code::kCorrupt, "end",
                          Concat(cursor_.remaining(), " bytes after the last layer"),
                          cursor_.offset());
  }
  return std::move(file_);
}

Status Attempt::ReadHeader() {
  KVD_TRY(const std::uint32_t magic, cursor_.Number<std::uint32_t>("magic"));
  if (magic != kLlamaSessionMagic && magic != kLlamaSequenceMagic) {
    return cursor_.Refuse(Code::kCorrupt, "magic",
                          Concat(magic, " is neither a session's nor a sequence's"));
  }
  const bool is_session = magic == kLlamaSessionMagic;
  file_.kind = is_session ? LlamaFileKind::kSession : LlamaFileKind::kSequence;
  KVD_TRY(const std::uint32_t version, cursor_.Number<std::uint32_t>("version"));
  const bool is_known =
      is_session ? version == kLlamaSessionVersion
                 : version == kLlamaSequenceVersion || version == kLlamaSequenceVersionNewest;
  if (!is_known) {
    return cursor_.Refuse(Code::kUnsupported, "version",
                          Concat(version, ", and only ", (is_session ? "9 is" : "2 and 3 are"),
                                 " read of a ", LlamaFileKindName(file_.kind)));
  }
  has_cell_tokens_ = !is_session && version == kLlamaSequenceVersionNewest;
  KVD_TRY(const std::uint32_t count, cursor_.Count<std::uint32_t>("token_count", sizeof(TokenId)));
  KVD_TRY(const std::uint64_t at, cursor_.Skip("tokens", count, sizeof(TokenId)));
  file_.tokens.resize(count);
  if (count != 0) {
    std::memcpy(file_.tokens.data(), cursor_.data_at(at), count * sizeof(TokenId));
  }
  const bool is_packed = count != 0 && file_.tokens.front() == kNoToken;
  return is_packed && !is_session ? UnpackTokens(at) : Status();
}

Status Attempt::UnpackTokens(std::uint64_t offset) {
  const std::vector<TokenId> packed = std::move(file_.tokens);
  const auto refuse = [&](Code code, std::size_t word, const std::string& why) {
    return cursor_.Refuse(code, "packed_tokens", why, offset + word * sizeof(TokenId));
  };
  if (packed.size() < kPackedHeadWords + 1) {
    return refuse(Code::kCorrupt, 0, Concat(packed.size(), " words, too few"));
  }
  if (packed[1] != kLlamaPackedVersion) {
    return refuse(Code::kUnsupported, 1, Concat("version ", packed[1], ", and only 1 is read"));
  }
  const auto count = static_cast<std::uint32_t>(packed[2]);
  if (count > packed.size() - kPackedHeadWords - 1) {
    return refuse(Code::kCorrupt, 2, Concat(count, " tokens in ", packed.size(), " words"));
  }
  const std::size_t media = kPackedHeadWords + count;
  if (packed[media] != 0) {
    return refuse(Code::kUnsupported, media, "cells of images are not supported");
  }
  if (packed.size() != media + 1) {
    return refuse(Code::kCorrupt, 2, Concat(count, " tokens in ", packed.size(), " words"));
  }
  file_.tokens.assign(packed.begin() + kPackedHeadWords,
                      packed.begin() + static_cast<std::ptrdiff_t>(media));
  return {};
}

Status Attempt::ReadArchitecture() {
  KVD_TRY(const std::uint32_t bytes, cursor_.Count<std::uint32_t>("architecture_bytes", 1));
  if (bytes > kLlamaArchitectureBytesMax) {
    return cursor_.Refuse(Code::kCorrupt, "architecture_bytes",
                          Concat(bytes, ", limit ", kLlamaArchitectureBytesMax));
  }
  KVD_TRY(const std::uint64_t at, cursor_.Skip("architecture", bytes, 1));
  for (std::uint32_t i = 0; i < bytes; ++i) {
    const auto byte = std::to_integer<unsigned>(*cursor_.data_at(at + i));
    if (byte < 0x20 || byte > 0x7e) {
      return cursor_.Refuse(Code::kCorrupt, "architecture",
                            Concat("byte ", byte, " is not printable"), at + i);
    }
    file_.architecture += static_cast<char>(byte);
  }
  return {};
}

Status Attempt::ReadOutputs() {
  KVD_TRY(const std::uint32_t count,
          cursor_.Count<std::uint32_t>("output_count", sizeof(std::int32_t)));
  file_.output_positions.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    KVD_CHECK_OK(meter_.Spend(kNumberUnits));
    KVD_TRY(const std::int32_t pos, cursor_.Number<std::int32_t>("output_pos"));
    if (pos < 0) {
      return cursor_.Refuse(Code::kCorrupt, "output_pos", Concat(pos, " is negative"));
    }
    file_.output_positions.push_back(pos);
  }
  KVD_CHECK_OK(ReadFloats("logit_count", "logits", &file_.logits));
  return ReadFloats("embedding_count", "embeddings", &file_.embeddings);
}

Status Attempt::ReadFloats(const char* count_field, const char* field, LlamaFloats* floats) {
  KVD_TRY(floats->count, cursor_.Count<std::uint64_t>(count_field, sizeof(float)));
  KVD_TRY(floats->offset, cursor_.Skip(field, floats->count, sizeof(float)));
  return {};
}

Status Attempt::ReadStreams(LlamaCacheForm form) {
  KVD_TRY(const std::uint32_t streams,
          cursor_.Count<std::uint32_t>("stream_count", sizeof(std::uint32_t)));
  if (streams == 0 || streams > kLlamaStreamsMax) {
    return cursor_.Refuse(Code::kCorrupt, "stream_count",
                          Concat(streams, " is not in [1, ", kLlamaStreamsMax, "]"));
  }
  for (std::uint32_t stream = 0; stream < streams; ++stream) {
    cursor_.place().stream = stream;
    KVD_TRY(const std::uint32_t cells, cursor_.Count<std::uint32_t>("cell_count", kCellBytesMin));
    if (cells != 0) KVD_CHECK_OK(ReadCells(stream, cells, form));
  }
  return {};
}

// REQUIRES: the file has at least cell_count * kCellBytesMin more bytes (Count has checked it).
Status Attempt::ReadCells(std::uint32_t stream, std::uint32_t cell_count, LlamaCacheForm form) {
  LlamaCells part;
  part.cache = file_.cache_count;
  part.stream = stream;
  part.cells.reserve(cell_count);
  for (std::uint32_t cell = 0; cell < cell_count; ++cell) {
    cursor_.place().cell = cell;
    KVD_CHECK_OK(meter_.Spend(2 * kNumberUnits));
    KVD_CHECK_OK(ReadCell(form, part));
  }
  cursor_.place().cell.reset();
  KVD_CHECK_OK(ReadData(form, part));
  file_.parts.push_back(std::move(part));
  return {};
}

Status Attempt::ReadCell(LlamaCacheForm form, LlamaCells& part) {
  LlamaCell cell;
  KVD_TRY(cell.pos, cursor_.Number<std::int32_t>("pos"));
  if (cell.pos < 0 || cell.pos == std::numeric_limits<std::int32_t>::max()) {
    return cursor_.Refuse(Code::kCorrupt, "pos", Concat(cell.pos, " is not in [0, 2147483646]"));
  }
  KVD_CHECK_OK(ReadSequenceIds(form, part, cell));
  part.cells.push_back(cell);
  return {};
}

Status Attempt::ReadSequenceIds(LlamaCacheForm form, LlamaCells& part, LlamaCell& cell) {
  KVD_TRY(const std::uint32_t count,
          cursor_.Count<std::uint32_t>("sequence_count", sizeof(std::int32_t)));
  if (file_.kind == LlamaFileKind::kSequence) {
    const std::uint32_t expected = HasStreams(form) ? 1 : 0;
    if (count != expected) {
      return cursor_.Refuse(Code::kCorrupt, "sequence_count",
                            Concat(count, " in a sequence file, expected ", expected));
    }
  } else if (count == 0) {
    return cursor_.Refuse(Code::kCorrupt, "sequence_count", "0: the cell belongs to no sequence");
  } else if (count > kLlamaSequencesMax) {
    return cursor_.Refuse(Code::kCorrupt, "sequence_count",
                          Concat(count, ", a cell belongs to at most ", kLlamaSequencesMax));
  }
  if (HasStreams(form) && reading_.has_coordinates) {
    KVD_CHECK_OK(ReadCoordinates(cell.pos));
  }
  cell.first_id = static_cast<std::uint32_t>(part.sequence_ids.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    KVD_CHECK_OK(meter_.Spend(kNumberUnits));
    KVD_TRY(const std::int32_t id, cursor_.Number<std::int32_t>("seq_id"));
    if (id < 0) {
      return cursor_.Refuse(Code::kCorrupt, "seq_id", Concat(id, " is negative"));
    }
    // The id in a sequence file is ignored, because it is the id that the sequence had in the
    // context that saved the file.
    if (file_.kind == LlamaFileKind::kSequence) continue;
    if (id >= static_cast<std::int32_t>(kLlamaSequencesMax)) {
      return cursor_.Refuse(Code::kUnsupported, "seq_id",
                            Concat(id, ", the highest is ", kLlamaSequencesMax - 1));
    }
    part.sequence_ids.push_back(id);
    ++cell.id_count;
  }
  return {};
}

// Reads and checks a cell's coordinates. For text both coordinates are the cell's position, or 0 if
// llama.cpp had restored the cell from a file before it saved the cell.
Status Attempt::ReadCoordinates(std::int32_t pos) {
  KVD_TRY(const std::int32_t x, cursor_.Number<std::int32_t>("x"));
  KVD_TRY(const std::int32_t y, cursor_.Number<std::int32_t>("y"));
  if (x == y && (x == pos || x == 0)) {
    if (has_cell_tokens_) {
      KVD_TRY([[maybe_unused]] const auto token, cursor_.Number<TokenId>("cell_token"));
    }
    return {};
  }
  return cursor_.Refuse(
      Code::kUnsupported, "y",
      Concat("coordinates (", x, ", ", y, ") at position ", pos, " belong to an image"));
}

Status Attempt::ReadData(LlamaCacheForm form, LlamaCells& part) {
  KVD_TRY(const std::uint32_t transposed, cursor_.Number<std::uint32_t>("v_trans"));
  if (transposed > (form == LlamaCacheForm::kSparse ? 0u : 1u)) {
    return cursor_.Refuse(
        Code::kCorrupt, "v_trans",
        Concat(transposed, (form == LlamaCacheForm::kSparse ? ": states are not transposed"
                                                            : " is neither 0 nor 1")));
  }
  KVD_TRY(part.declared_layers, cursor_.Number<std::uint32_t>("layer_count"));
  if (form == LlamaCacheForm::kSparse) return ReadSparseData(part);
  const std::uint64_t layer_bytes_min =
      form == LlamaCacheForm::kKeyStreams ? kLayerBytesMin : 2 * kLayerBytesMin;
  if (part.declared_layers > cursor_.remaining() / layer_bytes_min) {
    return cursor_.Refuse(
        Code::kCorrupt, "layer_count",
        Concat(part.declared_layers, " layers do not fit into ", cursor_.remaining(), " bytes"));
  }
  const std::size_t cells = part.cells.size();
  part.k.reserve(part.declared_layers);
  for (std::uint32_t layer = 0; layer < part.declared_layers; ++layer) {
    cursor_.place().layer = layer;
    KVD_CHECK_OK(meter_.Spend(2 * kNumberUnits));
    KVD_TRY(const LlamaRows rows, ReadRows("k_type", "k_row_bytes", "K", cells));
    part.k.push_back(rows);
  }
  if (form == LlamaCacheForm::kKeyStreams) {
    cursor_.place().layer.reset();
    return {};
  }
  part.v.reserve(part.declared_layers);
  for (std::uint32_t layer = 0; layer < part.declared_layers; ++layer) {
    cursor_.place().layer = layer;
    KVD_CHECK_OK(meter_.Spend(2 * kNumberUnits));
    KVD_TRY(const LlamaRows rows, transposed != 0 ? ReadTransposedRows(cells)
                                                  : ReadRows("v_type", "v_row_bytes", "V", cells));
    part.v.push_back(rows);
  }
  cursor_.place().layer.reset();
  return {};
}

// Reads up to the end of the file: the convolution states of some layers, then the recurrent states
// of the same layers.
Status Attempt::ReadSparseData(LlamaCells& part) {
  std::vector<LlamaRows> rows;
  while (cursor_.remaining() != 0) {
    cursor_.place().layer = static_cast<std::uint32_t>(rows.size());
    KVD_CHECK_OK(meter_.Spend(2 * kNumberUnits));
    KVD_TRY(const LlamaRows row,
            ReadRows("state_type", "state_row_bytes", "state", part.cells.size()));
    rows.push_back(row);
  }
  cursor_.place().layer.reset();
  const std::size_t layers = rows.size() / 2;
  if (layers == 0 || rows.size() % 2 != 0 || layers > part.declared_layers) {
    return cursor_.Refuse(
        Code::kCorrupt, "layer_count",
        Concat(rows.size(), " rows of states for ", part.declared_layers, " layers"),
        cursor_.offset());
  }
  part.k.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(layers));
  part.v.assign(rows.begin() + static_cast<std::ptrdiff_t>(layers), rows.end());
  return {};
}

Result<kernels::DataType> Attempt::ReadType(const char* field) {
  KVD_TRY(const std::uint32_t number, cursor_.Number<std::uint32_t>(field));
  if (number > 255 || !IsRowType(static_cast<kernels::DataType>(number))) {
    return cursor_.Refuse(Code::kUnsupported, field,
                          Concat(static_cast<std::int32_t>(number),
                                 " is not one of f32 (0), f16 (1), q4_0 (2), q8_0 (8), bf16 (30)"));
  }
  return static_cast<kernels::DataType>(number);
}

Result<LlamaRows> Attempt::ReadRows(const char* type_field, const char* bytes_field,
                                    const char* field, std::uint64_t cell_count) {
  LlamaRows rows;
  KVD_TRY(rows.type, ReadType(type_field));
  KVD_TRY(rows.row_bytes, cursor_.Number<std::uint64_t>(bytes_field));
  const std::uint64_t block_bytes = kernels::BytesPerBlock(rows.type);
  if (rows.row_bytes % block_bytes != 0) {
    return cursor_.Refuse(Code::kCorrupt, bytes_field,
                          Concat(rows.row_bytes, " is not a multiple of the block of ", block_bytes,
                                 " bytes of ", kernels::DataTypeName(rows.type)));
  }
  const std::uint64_t blocks = rows.row_bytes / block_bytes;
  if (blocks > std::numeric_limits<std::uint32_t>::max()) {
    return cursor_.Refuse(Code::kCorrupt, bytes_field,
                          Concat(rows.row_bytes, " exceeds the limit for a row"));
  }
  rows.elements = blocks * kernels::ElementsPerBlock(rows.type);
  KVD_TRY(rows.offset, cursor_.Skip(field, cell_count, rows.row_bytes));
  return rows;
}

Result<LlamaRows> Attempt::ReadTransposedRows(std::uint64_t cell_count) {
  LlamaRows rows;
  rows.is_transposed = true;
  KVD_TRY(rows.type, ReadType("v_type"));
  if (kernels::ElementsPerBlock(rows.type) != 1) {
    return cursor_.Refuse(Code::kUnsupported, "v_type",
                          std::string(kernels::DataTypeName(rows.type)) +
                              " cannot be transposed: its elements share a scale");
  }
  KVD_TRY(const std::uint32_t element_bytes, cursor_.Number<std::uint32_t>("v_element_bytes"));
  if (element_bytes != kernels::BytesPerBlock(rows.type)) {
    return cursor_.Refuse(Code::kCorrupt, "v_element_bytes",
                          Concat(element_bytes, ", but ", kernels::DataTypeName(rows.type), " has ",
                                 kernels::BytesPerBlock(rows.type)));
  }
  KVD_TRY(rows.elements, cursor_.Number<std::uint32_t>("v_elements"));
  rows.row_bytes = rows.elements * element_bytes;
  KVD_TRY(rows.offset, cursor_.Skip("V", cell_count, rows.row_bytes));
  return rows;
}

}  // namespace

const char* LlamaFileKindName(LlamaFileKind kind) {
  return kind == LlamaFileKind::kSession ? "session" : "sequence";
}

const char* LlamaLayoutName(LlamaLayout layout) {
  return layout == LlamaLayout::kFebruary2025 ? "February-2025" : "August-2026";
}

Result<LlamaStateFile> ReadLlamaStateFile(std::span<const std::byte> file, WorkControl& work) {
  Error farthest;
  std::uint64_t farthest_offset = 0;
  for (const LlamaReading& reading : kLlamaReadings) {
    KVD_CHECK_OK(work.Continue());
    Attempt attempt(file, reading, work);
    Result<LlamaStateFile> read = attempt.Read();
    if (read || read.error().code == Code::kCancelled) return read;
    if (farthest.message.empty() || attempt.offset() > farthest_offset) {
      farthest_offset = attempt.offset();
      farthest = std::move(read).error();
    }
  }
  return std::unexpected(std::move(farthest));
}

}  // namespace kvd
