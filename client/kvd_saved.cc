// Saved states of the C interface.
#include <algorithm>
#include <cstring>
#include <vector>

#include "client/c_api.h"

using namespace kvd;

namespace {

Result<SaveOptions> SaveOptionsFrom(std::uint32_t flags) {
  constexpr std::uint32_t kKnown = KVD_SAVE_NO_LOGITS | KVD_SAVE_TOKENS_ONLY | KVD_SAVE_UNPACKED |
                                   KVD_SAVE_Q8_ROWS | KVD_SAVE_REPLACE;
  if ((flags & ~kKnown) != 0) {
    return Fail(Code::kInvalidArgument, "flags: " + std::to_string(flags) + ", of which " +
                                            std::to_string(flags & ~kKnown) +
                                            " mean nothing to this call");
  }
  return SaveOptions{.with_logits = (flags & KVD_SAVE_NO_LOGITS) == 0,
                     .tokens_only = (flags & KVD_SAVE_TOKENS_ONLY) != 0,
                     .is_packed = (flags & KVD_SAVE_UNPACKED) == 0,
                     .q8_rows = (flags & KVD_SAVE_Q8_ROWS) != 0,
                     .replaces = (flags & KVD_SAVE_REPLACE) != 0};
}

void Give(const SaveInfo& found, kvd_save_info* info) {
  if (info != nullptr) *info = {found.file_bytes, found.unpacked_bytes, found.cell_count};
}

// Both zero terminated.
template <std::size_t kBytes>
void CopyText(const std::string& text, char (&destination)[kBytes]) {
  text.copy(destination, kBytes - 1);
}

}  // namespace

int kvd_save(kvd_client* client, kvd_sequence sequence, const char* name, uint32_t flags,
             kvd_save_info* info) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_TRY(const SaveOptions options, SaveOptionsFrom(flags));
    KVD_TRY(const SaveInfo saved,
            client->client.Save(static_cast<SequenceHandle>(sequence), name, options));
    Give(saved, info);
    return {};
  });
}

int kvd_save_all(kvd_client* client, const char* name, uint32_t flags, kvd_save_info* info) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_TRY(const SaveOptions options, SaveOptionsFrom(flags));
    KVD_TRY(const SaveInfo saved, client->client.SaveAll(name, options));
    Give(saved, info);
    return {};
  });
}

int kvd_save_size(kvd_client* client, kvd_sequence sequence, uint32_t flags, kvd_save_info* info) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_TRY(const SaveOptions options, SaveOptionsFrom(flags));
    KVD_TRY(const SaveInfo size,
            client->client.SaveSize(static_cast<SequenceHandle>(sequence), options));
    Give(size, info);
    return {};
  });
}

int kvd_load(kvd_client* client, const char* name, kvd_loaded_sequence** list, size_t* count) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_CHECK_OK(NotNull(list, "list"));
    KVD_CHECK_OK(NotNull(count, "count"));
    KVD_TRY(const auto loaded, client->client.Load(name));
    std::vector<kvd_loaded_sequence> found;
    for (const LoadedSequence& sequence : loaded) {
      kvd_loaded_sequence entry{};
      entry.sequence = static_cast<kvd_sequence>(sequence.handle);
      entry.cell_count = sequence.cell_count;
      entry.is_converted = sequence.is_converted ? 1 : 0;
      entry.is_computed = sequence.is_computed ? 1 : 0;
      entry.has_sampler = sequence.has_sampler ? 1 : 0;
      CopyText(sequence.k_type, entry.k_type);
      CopyText(sequence.v_type, entry.v_type);
      found.push_back(entry);
    }
    *list = CopyForCaller(found.data(), found.size());
    *count = found.size();
    return {};
  });
}

int kvd_saved(kvd_client* client, kvd_saved_info** list, size_t* count) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(list, "list"));
    KVD_CHECK_OK(NotNull(count, "count"));
    KVD_TRY(const auto entries, client->client.Saved());
    std::vector<kvd_saved_info> found;
    for (const wire::SavedEntry& entry : entries) {
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
    *list = CopyForCaller(found.data(), found.size());
    *count = found.size();
    return {};
  });
}

int kvd_remove_saved(kvd_client* client, const char* name) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(name, "name"));
    return client->client.RemoveSaved(name);
  });
}
