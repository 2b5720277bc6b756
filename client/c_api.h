// Internal functions that are shared by the translation units that implement kvd.h.
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

#include "base/mutex.h"
#include "client/chat_templates.h"
#include "client/client.h"
#include "client/kvd.h"

// A KvdFinisher is called with the answer of a submitted request and writes the outputs that the
// caller of the verb's function named.
using KvdFinisher =
    std::function<kvd::Status(const kvd::wire::Completion&, std::vector<std::byte>& output)>;

// A submitted request has an entry in `generations` or `finishers` until the request ends. An entry
// of `generations` holds the last returned piece; an entry of `finishers` knows the addresses of
// the caller's outputs.
struct kvd_client {
  explicit kvd_client(kvd::Client connected) : client(std::move(connected)) {}

  kvd::Client client;
  kvd::Mutex requests_mutex;
  std::map<kvd_request, std::shared_ptr<kvd::Generation>> generations
      KVD_GUARDED_BY(requests_mutex);
  std::map<kvd_request, KvdFinisher> finishers KVD_GUARDED_BY(requests_mutex);

  // The formatter of the last chat, which the next chat uses if the daemon's texts are the same.
  kvd::Mutex chat_mutex;
  kvd::LastFormatter last_formatter KVD_GUARDED_BY(chat_mutex);
};

namespace kvd {

// Stores `error`, whose message kvd_error_message then returns in this thread; returns the error's
// code.
int KeepError(Error error);

inline Status NotNull(const void* pointer, const char* what) {
  if (pointer != nullptr) return {};
  return Fail(Code::kInvalidArgument, what, ": a null pointer");
}

// Runs the body of one function of the C interface, catches all exceptions, and stores the
// function's error with KeepError.
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

// Runs the body of a verb's function as CallBody does. If `later` is not null, *later is 0 unless
// the body sets it.
template <class Body>
int CallBody(kvd_request* later, Body body) {
  if (later != nullptr) *later = 0;
  return CallBody(body);
}

// Requests a verb and passes its reply to `give`, which writes the caller's outputs. If `later` is
// null, Ask waits for the reply. If `later` is not null, Ask sets *later to the request's id and
// returns, and kvd_finish calls `give`. The payload is not used after Ask has returned.
template <wire::VerbArguments Args, class Give>
Status Ask(kvd_client* client, kvd_request* later, const Args& args, const Payload& payload,
           std::uint16_t flags, const Give& give) {
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
// The `give` argument of Ask for verbs whose replies have no content.
inline constexpr auto kGiveNothing = [](const auto&) -> Status { return {}; };

// Copies a caller's struct with a size member over `ours`, which holds the defaults. A caller that
// was compiled with an older kvd.h passes a shorter struct. Extra members of a newer caller's
// struct must be zero, because unknown options are not ignored.
template <class T>
Status ReadSized(const T& theirs, T& ours) {
  if (theirs.size < sizeof(T::size)) {
    return Fail(Code::kInvalidArgument, "size: ", theirs.size, " bytes");
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

// Copies as many bytes of `ours` to the caller's struct as the caller's `size` has room for.
template <class T>
Status WriteSized(T ours, T* theirs) {
  const std::size_t room = theirs->size;
  if (room < sizeof(T::size)) {
    return Fail(Code::kInvalidArgument, "size: ", room, " bytes");
  }
  ours.size = room;
  std::memcpy(static_cast<void*>(theirs), &ours, std::min(room, sizeof(T)));
  return {};
}

// Returns a malloc'd copy followed by one zero element; the caller frees it with kvd_free. Throws
// bad_alloc.
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

// Writes a list or text that the caller frees with kvd_free. Throws bad_alloc.
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

// Converts flags of the C interface, which have the values of wire::SubmissionFlags. A flag that is
// not in `allowed` is an error.
Result<std::uint16_t> FlagsFrom(std::uint32_t flags, std::uint32_t allowed);

// The values of a kvd_sequence_options, in the form of the protocol.
struct NewSequenceOptions {
  std::uint16_t flags = 0;
  std::uint32_t ttl_seconds = 0;
};
// Converts the caller's options; null: the defaults. Errors: kInvalidArgument (a flag that is not
// in `allowed`, ttl_seconds).
Result<NewSequenceOptions> NewSequenceFrom(const kvd_sequence_options* theirs,
                                           std::uint32_t allowed);
Status CheckTtl(std::uint32_t ttl_seconds);

}  // namespace kvd
