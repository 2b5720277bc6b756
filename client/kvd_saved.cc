// The functions of kvd.h for saved states.
#include <algorithm>
#include <cstring>
#include <vector>

#include "client/c_api.h"

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
