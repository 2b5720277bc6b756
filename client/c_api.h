// What the translation units of the C interface share. Internal to kvd.h's implementation.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/kvd.h"
#include "shm/mutex.h"

// Takes the answer of a request that was submitted: writes the outputs that its call named.
using KvdFinisher =
    std::function<kvd::Status(const kvd::wire::Completion&, std::vector<std::byte>& output)>;

// Requests started by kvd_..._submit live here until their end: generations hold the piece that was
// handed out last, the others know where their outputs go.
struct kvd_client {
  explicit kvd_client(kvd::Client connected) : client(std::move(connected)) {}

  kvd::Client client;
  kvd::Mutex requests_mutex;
  std::map<kvd_request, std::shared_ptr<kvd::Generation>> generations
      KVD_GUARDED_BY(requests_mutex);
  std::map<kvd_request, KvdFinisher> finishers KVD_GUARDED_BY(requests_mutex);
};

namespace kvd {

// Keeps the error for kvd_error_message of this thread; its code.
int KeepError(Error error);

inline Status NotNull(const void* pointer, const char* what) {
  if (pointer != nullptr) return {};
  return Fail(Code::kInvalidArgument, std::string(what) + ": a null pointer");
}

// Runs one call of the C interface: no exception and no unkept error leaves it.
template <class Body>
int CallBody(Body body) {
  try {
    Status status = body();
    return status ? KVD_OK : KeepError(std::move(status).error());
  } catch (const std::bad_alloc&) {
    return KeepError({Code::kNoSpace, "out of memory"});
  } catch (const std::exception& exception) {
    return KeepError({Code::kInternal, exception.what()});
  }
}

// The same of a kvd_..._submit, whose body takes the request.
template <class Body>
int SubmitBody(kvd_request* request, Body body) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(request, "request"));
    return body();
  });
}

// Asks for a verb and gives its reply to `give`, which writes the caller's outputs: at once, or with
// `later` not null by kvd_finish. What the payload views is not used after this.
template <wire::VerbArguments Args, class Give>
Status Ask(kvd_client* client, kvd_request* later, const Args& args, const Payload& payload,
           std::uint16_t flags, Give give) {
  KVD_CHECK_OK(NotNull(client, "client"));
  if (later == nullptr) {
    KVD_TRY(wire::ReplyOf<Args> reply, client->client.Call(args, payload, flags));
    return give(reply);
  }
  const MutexLock lock(client->requests_mutex);
  KVD_TRY(Started<Args> started, client->client.Start(args, payload, flags));
  const auto id = static_cast<kvd_request>(started.request());
  client->finishers.emplace(
      id, [give](const wire::Completion& completion, std::vector<std::byte>& output) -> Status {
        KVD_TRY(wire::ReplyOf<Args> reply,
                wire::ReadReply<wire::ReplyOf<Args>>(wire::kRowOf<Args>.name, completion, output));
        return give(reply);
      });
  (void)started.Detach();
  *later = id;
  return {};
}
// For verbs whose reply says only that it was done.
inline constexpr auto kGiveNothing = [](const auto&) -> Status { return {}; };

// A caller's struct with a size member, over our defaults: an older one is shorter, a newer one's
// extra members must be zero (what we do not know, we do not ignore).
template <class T>
Status ReadSized(const T& theirs, T& ours) {
  if (theirs.size < sizeof(T::size)) {
    return Fail(Code::kInvalidArgument, "size: " + std::to_string(theirs.size) + " bytes");
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(&theirs);
  for (std::size_t i = sizeof(T); i < theirs.size; ++i) {
    if (bytes[i] != std::byte{0}) {
      return Fail(Code::kInvalidArgument, "size: a member that this library does not know is set");
    }
  }
  std::memcpy(static_cast<void*>(&ours), bytes, std::min(theirs.size, sizeof(T)));
  return {};
}

// The other way: as much of ours as the caller's struct has room for.
template <class T>
Status WriteSized(T ours, T* theirs) {
  const std::size_t room = theirs->size;
  if (room < sizeof(T::size)) {
    return Fail(Code::kInvalidArgument, "size: " + std::to_string(room) + " bytes");
  }
  ours.size = room;
  std::memcpy(static_cast<void*>(theirs), &ours, std::min(room, sizeof(T)));
  return {};
}

// malloc'd copy with a zero byte behind it, for kvd_free. Throws bad_alloc.
template <class T>
T* CopyForCaller(const T* source, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::size_t byte_count = count * sizeof(T);
  void* copy = std::malloc(byte_count + sizeof(T));
  if (copy == nullptr) throw std::bad_alloc();
  if (byte_count != 0) std::memcpy(copy, source, byte_count);
  std::memset(static_cast<std::byte*>(copy) + byte_count, 0, sizeof(T));
  return static_cast<T*>(copy);
}

inline SequenceHandle HandleFrom(kvd_sequence sequence) {
  return static_cast<SequenceHandle>(sequence);
}

inline std::span<const std::byte> BytesFrom(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Writes a list or text for kvd_free. Throws bad_alloc.
template <class T>
Status GiveList(const std::vector<T>& found, T** list, std::size_t* count) {
  *list = CopyForCaller(found.data(), found.size());
  *count = found.size();
  return {};
}
inline Status GiveText(const std::vector<std::byte>& found, char** text, std::size_t* text_bytes) {
  *text = CopyForCaller(reinterpret_cast<const char*>(found.data()), found.size());
  *text_bytes = found.size();
  return {};
}

// Flags of the C interface are the wire's; any other bit is refused.
Result<std::uint16_t> FlagsFrom(std::uint32_t flags, std::uint32_t allowed);

}  // namespace kvd
