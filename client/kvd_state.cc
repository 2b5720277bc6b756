// The functions of kvd.h for state files of llama.cpp. On success the kvd_state_ functions return a
// number of bytes; on failure they return 0 and store the error.
#include <string>
#include <vector>

#include "base/whole_file.h"
#include "client/c_api.h"
#include "client/kvd.h"
#include "llama_files/llama_file_sink.h"

namespace kvd {
namespace {

template <class Body>
std::size_t BytesOf(Body body) {
  std::size_t bytes = 0;
  const int code = CallBody([&]() -> Status {
    KVD_TRY(bytes, body());
    return {};
  });
  return code == KVD_OK ? bytes : 0;
}

// The source of an export: one sequence, or all sequences of the client if `sequences` is empty.
struct Source {
  kvd_client* client = nullptr;
  std::vector<SequenceHandle> sequences{};
  LlamaFileOptions options{};
};

Result<Source> SourceOf(kvd_client* client, const kvd_sequence* sequence, std::uint32_t flags) {
  KVD_CHECK_OK(NotNull(client, "client"));
  constexpr std::uint32_t kStreamsShift = 16;
  constexpr std::uint32_t kKnown =
      KVD_STATE_V_TRANSPOSED | KVD_STATE_UNROTATED | KVD_STATE_LAYOUT_2025;
  KVD_TRY(const auto known, FlagsFrom(flags & ((1u << kStreamsShift) - 1), kKnown));
  Source source{.client = client};
  source.options.is_v_transposed = (known & KVD_STATE_V_TRANSPOSED) != 0;
  source.options.is_unrotated = (known & KVD_STATE_UNROTATED) != 0;
  if ((known & KVD_STATE_LAYOUT_2025) != 0) source.options.layout = LlamaFileLayout::k2025;
  if (flags >> kStreamsShift != 0) {
    source.options.streams = static_cast<std::uint16_t>(flags >> kStreamsShift);
  }
  source.options.is_session = sequence == nullptr;
  if (sequence != nullptr) source.sequences.push_back(HandleFrom(*sequence));
  return source;
}

std::size_t GetSize(kvd_client* client, const kvd_sequence* sequence, std::uint32_t flags) {
  return BytesOf([&]() -> Result<std::size_t> {
    KVD_TRY(const Source source, SourceOf(client, sequence, flags));
    return client->client.LlamaBytes(source.sequences, source.options);
  });
}

std::size_t GetData(kvd_client* client, const kvd_sequence* sequence, void* data, std::size_t size,
                    std::uint32_t flags) {
  return BytesOf([&]() -> Result<std::size_t> {
    KVD_CHECK_OK(NotNull(data, "data"));
    KVD_TRY(const Source source, SourceOf(client, sequence, flags));
    LlamaMemorySink sink({static_cast<std::byte*>(data), size});
    return client->client.ExportLlama(source.sequences, source.options, sink);
  });
}

std::size_t SaveFile(kvd_client* client, const kvd_sequence* sequence, const char* path,
                     std::uint32_t flags) {
  return BytesOf([&]() -> Result<std::size_t> {
    KVD_CHECK_OK(NotNull(path, "path"));
    KVD_TRY(const Source source, SourceOf(client, sequence, flags));
    LlamaFileSink sink(path);
    KVD_TRY(const std::size_t bytes,
            client->client.ExportLlama(source.sequences, source.options, sink));
    KVD_CHECK_OK(sink.Commit());
    return bytes;
  });
}

Result<std::vector<ImportedSequence>> Import(kvd_client* client, std::span<const std::byte> file,
                                             std::uint32_t flags, std::int32_t sequence_id) {
  KVD_CHECK_OK(NotNull(client, "client"));
  KVD_TRY(const auto known, FlagsFrom(flags, KVD_STATE_UNROTATED));
  return client->client.ImportLlama(file, {.sequence_id = sequence_id, .is_unrotated = known != 0});
}

Result<std::size_t> SetOne(kvd_client* client, std::span<const std::byte> file, std::uint32_t flags,
                           kvd_sequence* sequence) {
  KVD_CHECK_OK(NotNull(sequence, "sequence"));
  KVD_TRY(const auto made, Import(client, file, flags, LlamaReadOptions::kOnlySequence));
  if (made.size() != 1) return Fail(Code::kCorrupt, "answer: it names no sequence");
  *sequence = static_cast<kvd_sequence>(made[0].handle);
  return file.size();
}

Result<std::size_t> SetAll(kvd_client* client, std::span<const std::byte> file, std::uint32_t flags,
                           kvd_sequence** sequences, std::size_t* sequence_count) {
  KVD_CHECK_OK(NotNull(sequences, "sequences"));
  KVD_CHECK_OK(NotNull(sequence_count, "sequence_count"));
  KVD_TRY(const auto made, Import(client, file, flags, LlamaReadOptions::kEverySequence));
  std::vector<kvd_sequence> handles;
  for (const ImportedSequence& imported : made) {
    handles.push_back(static_cast<kvd_sequence>(imported.handle));
  }
  *sequences = CopyForCaller(handles.data(), handles.size());
  *sequence_count = handles.size();
  return file.size();
}

Result<std::span<const std::byte>> FileFrom(const void* data, std::size_t size) {
  KVD_CHECK_OK(NotNull(data, "data"));
  return std::span(static_cast<const std::byte*>(data), size);
}

}  // namespace
}  // namespace kvd

using namespace kvd;

size_t kvd_state_seq_get_size(kvd_client* client, kvd_sequence sequence, uint32_t flags) {
  return GetSize(client, &sequence, flags);
}

size_t kvd_state_seq_get_data(kvd_client* client, kvd_sequence sequence, void* data, size_t size,
                              uint32_t flags) {
  return GetData(client, &sequence, data, size, flags);
}

size_t kvd_state_seq_set_data(kvd_client* client, const void* data, size_t size, uint32_t flags,
                              kvd_sequence* sequence) {
  return BytesOf([&]() -> Result<std::size_t> {
    KVD_TRY(const auto file, FileFrom(data, size));
    return SetOne(client, file, flags, sequence);
  });
}

size_t kvd_state_seq_save_file(kvd_client* client, kvd_sequence sequence, const char* path,
                               uint32_t flags) {
  return SaveFile(client, &sequence, path, flags);
}

size_t kvd_state_seq_load_file(kvd_client* client, const char* path, uint32_t flags,
                               kvd_sequence* sequence) {
  return BytesOf([&]() -> Result<std::size_t> {
    KVD_CHECK_OK(NotNull(path, "path"));
    KVD_TRY(const auto file, ReadWholeFile(path));
    return SetOne(client, file, flags, sequence);
  });
}

size_t kvd_state_get_size(kvd_client* client, uint32_t flags) {
  return GetSize(client, nullptr, flags);
}

size_t kvd_state_get_data(kvd_client* client, void* data, size_t size, uint32_t flags) {
  return GetData(client, nullptr, data, size, flags);
}

size_t kvd_state_set_data(kvd_client* client, const void* data, size_t size, uint32_t flags,
                          kvd_sequence** sequences, size_t* sequence_count) {
  return BytesOf([&]() -> Result<std::size_t> {
    KVD_TRY(const auto file, FileFrom(data, size));
    return SetAll(client, file, flags, sequences, sequence_count);
  });
}

size_t kvd_state_save_file(kvd_client* client, const char* path, uint32_t flags) {
  return SaveFile(client, nullptr, path, flags);
}

size_t kvd_state_load_file(kvd_client* client, const char* path, uint32_t flags,
                           kvd_sequence** sequences, size_t* sequence_count) {
  return BytesOf([&]() -> Result<std::size_t> {
    KVD_CHECK_OK(NotNull(path, "path"));
    KVD_TRY(const auto file, ReadWholeFile(path));
    return SetAll(client, file, flags, sequences, sequence_count);
  });
}
