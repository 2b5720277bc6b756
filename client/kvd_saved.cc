// The functions of kvd.h that save and load: saved states, and state files of llama.cpp.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/whole_file.h"
#include "client/c_api.h"
#include "client/kvd.h"
#include "llama_files/llama_file_sink.h"

// The functions of kvd.h for saved states.

using namespace kvd;

namespace {

static_assert(KVD_SAVE_NO_LOGITS == static_cast<int>(wire::kSaveNoLogits) &&
              KVD_SAVE_TOKENS_ONLY == static_cast<int>(wire::kSaveTokensOnly) &&
              KVD_SAVE_UNPACKED == static_cast<int>(wire::kSaveUnpacked) &&
              KVD_SAVE_Q8_ROWS == static_cast<int>(wire::kSaveQ8Rows));

struct SaveFlags {
  std::int64_t bits = 0;  // wire::SaveBits
  std::uint16_t flags = 0;
};

Result<SaveFlags> SaveFlagsFrom(std::uint32_t flags) {
  constexpr std::uint32_t kBits =
      KVD_SAVE_NO_LOGITS | KVD_SAVE_TOKENS_ONLY | KVD_SAVE_UNPACKED | KVD_SAVE_Q8_ROWS;
  KVD_TRY([[maybe_unused]] const auto known, FlagsFrom(flags, kBits | KVD_SAVE_REPLACE));
  return SaveFlags{.bits = flags & kBits,
                   .flags = FlagIf((flags & KVD_SAVE_REPLACE) != 0, wire::kFlagForce)};
}

auto GiveInfo(kvd_save_info* info) {
  return [=](const wire::SaveReply& reply) -> Status {
    if (info != nullptr) *info = {reply.file_bytes, reply.unpacked_bytes, reply.cells};
    return {};
  };
}

// Copies a text with a terminating zero, and truncates the text if `destination` is too small.
template <std::size_t kBytes>
void CopyText(const std::string& text, char (&destination)[kBytes]) {
  text.copy(destination, kBytes - 1);
}

kvd_loaded_sequence LoadedFrom(const LoadedSequence& sequence) {
  kvd_loaded_sequence entry{};
  entry.sequence = static_cast<kvd_sequence>(sequence.handle);
  entry.cell_count = sequence.cell_count;
  entry.is_converted = sequence.is_converted ? 1 : 0;
  entry.is_tokens_only = sequence.is_computed ? 1 : 0;
  entry.has_sampler = sequence.has_sampler ? 1 : 0;
  CopyText(sequence.k_type, entry.k_type);
  CopyText(sequence.v_type, entry.v_type);
  return entry;
}

Status GiveLoaded(const std::vector<LoadedSequence>& loaded, kvd_loaded_sequence** list,
                  std::size_t* count) {
  std::vector<kvd_loaded_sequence> found;
  for (const LoadedSequence& sequence : loaded) found.push_back(LoadedFrom(sequence));
  return GiveList(found, list, count);
}

}  // namespace

int kvd_load(kvd_client* client, const char* name, kvd_loaded_sequence** list, size_t* count,
             kvd_token** tokens, size_t* token_count, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_CHECK_OK(NotNull(list, "list"));
    KVD_CHECK_OK(NotNull(count, "count"));
    if (later == nullptr) {
      KVD_TRY(const auto loaded, client->client.Load(name));
      if (tokens != nullptr) *tokens = nullptr;
      if (token_count != nullptr) *token_count = 0;
      return GiveLoaded(loaded, list, count);
    }
    KVD_CHECK_OK(NotNull(tokens, "tokens"));
    KVD_CHECK_OK(NotNull(token_count, "token_count"));
    const auto payload = BytesFrom(name);
    return Ask(client, later, wire::LoadArgs{}, PayloadOf(payload), 0,
               [=](const wire::LoadReply& reply) -> Status {
                 KVD_TRY(const LoadedFile loaded, ReadLoaded(reply));
                 std::vector<kvd_token> all;
                 for (const auto& part : loaded.tokens) {
                   all.insert(all.end(), part.begin(), part.end());
                 }
                 KVD_CHECK_OK(GiveList(all, tokens, token_count));
                 return GiveLoaded(loaded.sequences, list, count);
               });
  });
}

int kvd_save(kvd_client* client, kvd_sequence sequence, const char* name, uint32_t flags,
             kvd_save_info* info, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_TRY(const SaveFlags save, SaveFlagsFrom(flags));
    const auto payload = BytesFrom(name);
    return Ask(client, later, wire::SaveArgs{HandleFrom(sequence), save.bits}, PayloadOf(payload),
               save.flags, GiveInfo(info));
  });
}

int kvd_save_all(kvd_client* client, const char* name, uint32_t flags, kvd_save_info* info,
                 kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_TRY(const SaveFlags save, SaveFlagsFrom(flags));
    const auto payload = BytesFrom(name);
    return Ask(client, later, wire::SaveAllArgs{save.bits}, PayloadOf(payload), save.flags,
               GiveInfo(info));
  });
}

int kvd_save_size(kvd_client* client, kvd_sequence sequence, uint32_t flags, kvd_save_info* info,
                  kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_TRY(const SaveFlags save, SaveFlagsFrom(flags));
    return Ask(client, later, wire::SaveArgs{HandleFrom(sequence), save.bits | wire::kSaveSizeOnly},
               {}, save.flags, GiveInfo(info));
  });
}

int kvd_saved(kvd_client* client, kvd_saved_info** list, size_t* count, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(list, "list"));
    KVD_CHECK_OK(NotNull(count, "count"));
    return Ask(client, later, wire::SavedArgs{}, {}, 0, [=](const auto& reply) -> Status {
      std::vector<kvd_saved_info> found;
      for (const wire::SavedEntry& entry : reply.entries) {
        kvd_saved_info info{};
        std::memcpy(info.name, entry.name, sizeof entry.name);
        info.file_bytes = entry.file_bytes;
        info.raw_bytes = entry.raw_bytes;
        info.cell_count = entry.cell_count;
        info.age_ms = entry.age_ms;
        info.sequence_count = entry.sequence_count;
        info.flags = entry.flags;
        std::memcpy(info.k_type, entry.k_type, sizeof entry.k_type - 1);
        std::memcpy(info.v_type, entry.v_type, sizeof entry.v_type - 1);
        std::memcpy(info.architecture, entry.architecture, sizeof entry.architecture - 1);
        found.push_back(info);
      }
      return GiveList(found, list, count);
    });
  });
}

int kvd_remove_saved(kvd_client* client, const char* name, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(name, "name"));
    const auto payload = BytesFrom(name);
    return Ask(client, later, wire::RemoveSavedArgs{}, PayloadOf(payload), 0, kGiveNothing);
  });
}

// The functions of kvd.h for state files of llama.cpp. On success the kvd_state_ functions return a
// number of bytes; on failure they return 0 and store the error.

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
