// kvd.hpp: kvd.h for C++, in this header alone: objects that end what they hold, texts, and results
// in place of codes. C++17 or later.
//
//   auto client = kvd::api::Client::Connect();
//   if (!client) return Complain(client.error().message);
//   auto sequence = client->NewSequence();
//   auto answer = sequence->Complete("Once upon a time", KVD_ADD_SPECIAL,
//                                    [](std::string_view piece) { std::cout << piece; });
//
// A Result is a std::expected in C++23, and a class with the same members in C++17. What kvd.h says
// of threads, fork(2), lifetimes and errors holds here. A Client is a handle: copies share one
// session, which ends with the last copy and the last Sequence. raw() gives what kvd.h works with,
// for the functions that this header does not wrap.
#ifndef KVD_KVD_HPP_
#define KVD_KVD_HPP_

#include <kvd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_expected)
#include <expected>
#endif

namespace kvd::api {

// A Result differs between C++17 and C++23, so the names of both differ for the linker, and a
// program may have files of both.
#if defined(__cpp_lib_expected)
inline namespace with_std_expected {
#else
inline namespace with_own_result {
#endif

struct CallError {
  int code = KVD_OK;  // kvd_code
  std::string message;
};

#if defined(__cpp_lib_expected)
template <class T>
using Result = std::expected<T, CallError>;
inline std::unexpected<CallError> Unexpected(CallError error) {
  return std::unexpected(std::move(error));
}
#else
struct Unexpected {
  explicit Unexpected(CallError failed) : error(std::move(failed)) {}
  CallError error;
};
// The members of std::expected that this header and its users need.
template <class T>
class Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Unexpected failed) : content_(std::in_place_index<1>, std::move(failed.error)) {}
  bool has_value() const { return content_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  // REQUIRES: has_value().
  T& operator*() & { return *std::get_if<0>(&content_); }
  const T& operator*() const& { return *std::get_if<0>(&content_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&content_)); }
  T* operator->() { return std::get_if<0>(&content_); }
  const T* operator->() const { return std::get_if<0>(&content_); }
  // REQUIRES: !has_value().
  const CallError& error() const { return *std::get_if<1>(&content_); }

 private:
  std::variant<T, CallError> content_;
};
template <>
class Result<void> {
 public:
  Result() = default;
  Result(Unexpected failed) : error_(std::move(failed.error)) {}
  bool has_value() const { return error_.code == KVD_OK; }
  explicit operator bool() const { return has_value(); }
  const CallError& error() const { return error_; }

 private:
  CallError error_;
};
#endif

// The error of the last call of this thread, which has returned `code`.
inline CallError LastError(int code) { return {code, kvd_error_message()}; }

// The parameters of a generation with their defaults.
inline kvd_generate_params DefaultParams() {
  kvd_generate_params params;
  kvd_generate_params_init(&params, sizeof params);
  return params;
}

struct Answer {
  std::string text;
  kvd_generate_result result{};
};

struct Message {
  std::string role;  // "system", "user", "assistant", ...
  std::string content;
};

namespace detail {

struct FreeMemory {
  void operator()(void* memory) const { kvd_free(memory); }
};
template <class T>
using Memory = std::unique_ptr<T, FreeMemory>;

// Takes the pieces of a generation: appends them to the answer and passes them to the caller's
// function, which returns nothing, or false to cancel.
template <class Function>
struct PieceTaker {
  std::string text;
  Function& on_text;

  static int Take(void* user, const kvd_piece* piece) {
    auto& taker = *static_cast<PieceTaker*>(user);
    if (piece->kind != KVD_PIECE_TOKENS) return 0;
    const std::string_view text(piece->text, piece->text_bytes);
    taker.text += text;
    if constexpr (std::is_void_v<std::invoke_result_t<Function&, std::string_view>>) {
      taker.on_text(text);
      return 0;
    } else {
      return taker.on_text(text) ? 0 : 1;
    }
  }
};

struct IgnoreText {
  void operator()(std::string_view) const {}
};

}  // namespace detail

// A sequence, which is dropped with this object unless it is detached. Movable.
class OwnedSequence {
 public:
  OwnedSequence(std::shared_ptr<kvd_client> client, kvd_sequence sequence)
      : client_(std::move(client)), sequence_(sequence) {}
  OwnedSequence(OwnedSequence&& other) noexcept
      : client_(std::move(other.client_)), sequence_(std::exchange(other.sequence_, 0)) {}
  OwnedSequence& operator=(OwnedSequence&& other) noexcept {
    std::swap(client_, other.client_);
    std::swap(sequence_, other.sequence_);
    return *this;
  }
  OwnedSequence(const OwnedSequence&) = delete;
  OwnedSequence& operator=(const OwnedSequence&) = delete;
  ~OwnedSequence() {
    if (sequence_ != 0) kvd_sequence_drop(client_.get(), sequence_, 0, nullptr);
  }

  kvd_sequence raw() const { return sequence_; }
  // The sequence stays until the session ends. Returns its handle.
  kvd_sequence Detach() { return std::exchange(sequence_, 0); }

  // Appends a text without an answer. flags: KVD_ADD_SPECIAL, KVD_PARSE_SPECIAL.
  Result<kvd_generate_result> Prompt(const std::string& text, std::uint32_t flags = 0) {
    kvd_generate_result result{};
    const int code = kvd_prompt(client_.get(), sequence_, text.c_str(), flags, &result);
    if (code != KVD_OK) return Unexpected(LastError(code));
    return result;
  }
  // Appends a text and continues it. on_text(std::string_view) is called for each piece of the
  // answer; it may return false, which cancels the generation (KVD_CANCELLED).
  template <class Function = detail::IgnoreText>
  Result<Answer> Complete(const std::string& text, std::uint32_t flags = 0,
                          Function on_text = Function(),
                          const kvd_generate_params& params = DefaultParams()) {
    detail::PieceTaker<Function> taker{{}, on_text};
    Answer answer;
    const int code = kvd_generate_text(client_.get(), sequence_, text.c_str(), flags, &params,
                                       &detail::PieceTaker<Function>::Take, &taker, &answer.result);
    if (code != KVD_OK) return Unexpected(LastError(code));
    answer.text = std::move(taker.text);
    return answer;
  }
  // Creates forks with all cells of this sequence; no cell is copied.
  Result<std::vector<OwnedSequence>> Fork(std::uint32_t count) const {
    std::vector<kvd_sequence> handles(count);
    const int code = kvd_sequence_fork(client_.get(), sequence_, -1, count, nullptr, handles.data(),
                                       nullptr, nullptr);
    if (code != KVD_OK) return Unexpected(LastError(code));
    std::vector<OwnedSequence> forks;
    forks.reserve(handles.size());
    for (const kvd_sequence handle : handles) forks.emplace_back(client_, handle);
    return forks;
  }
  Result<kvd_sequence> Publish(const std::string& name, std::uint32_t flags = 0) const {
    kvd_sequence_options options{};
    options.size = sizeof options;
    options.flags = flags;
    kvd_sequence snapshot = 0;
    const int code =
        kvd_publish(client_.get(), sequence_, name.c_str(), &options, &snapshot, nullptr);
    if (code != KVD_OK) return Unexpected(LastError(code));
    return snapshot;
  }
  // flags: KVD_SPECIAL.
  Result<std::string> Text(std::uint32_t flags = 0) const {
    char* text = nullptr;
    std::size_t bytes = 0;
    const int code = kvd_read_text(client_.get(), sequence_, flags, &text, &bytes, nullptr);
    const detail::Memory<char> owned(text);
    if (code != KVD_OK) return Unexpected(LastError(code));
    return std::string(text, bytes);
  }

 private:
  std::shared_ptr<kvd_client> client_;
  kvd_sequence sequence_ = 0;
};

class Client {
 public:
  // `options`: zero members have their defaults; `size` is set here.
  static Result<Client> Connect(kvd_connect_options options = {}) {
    options.size = sizeof options;
    kvd_client* client = nullptr;
    const int code = kvd_connect(&options, &client);
    if (code != KVD_OK) return Unexpected(LastError(code));
    return Client(client);
  }
  // Connects to the daemon of this name.
  static Result<Client> ConnectTo(const std::string& daemon_name) {
    kvd_connect_options options{};
    options.daemon_name = daemon_name.c_str();
    return Connect(options);
  }

  kvd_client* raw() const { return client_.get(); }

  Result<OwnedSequence> NewSequence() const {
    kvd_sequence sequence = 0;
    const int code = kvd_sequence_create(raw(), nullptr, &sequence, nullptr);
    if (code != KVD_OK) return Unexpected(LastError(code));
    return OwnedSequence(client_, sequence);
  }
  // Forks a snapshot.
  Result<OwnedSequence> Attach(const std::string& name) const {
    kvd_sequence sequence = 0;
    const int code = kvd_attach(raw(), name.c_str(), &sequence, nullptr, nullptr);
    if (code != KVD_OK) return Unexpected(LastError(code));
    return OwnedSequence(client_, sequence);
  }
  Result<void> Unpublish(const std::string& name) const {
    const int code = kvd_unpublish(raw(), name.c_str(), 0, nullptr);
    if (code != KVD_OK) return Unexpected(LastError(code));
    return {};
  }
  // flags: KVD_ADD_SPECIAL, KVD_PARSE_SPECIAL.
  Result<std::vector<kvd_token>> Tokenize(std::string_view text, std::uint32_t flags = 0) const {
    kvd_token* tokens = nullptr;
    std::size_t count = 0;
    const int code = kvd_tokenize(raw(), text.data(), text.size(), flags, &tokens, &count, nullptr);
    const detail::Memory<kvd_token> owned(tokens);
    if (code != KVD_OK) return Unexpected(LastError(code));
    return std::vector<kvd_token>(tokens, tokens + count);
  }
  // The text that the model's chat template makes of the messages. flags: KVD_ADD_ASSISTANT.
  Result<std::string> Chat(const std::vector<Message>& messages,
                           std::uint32_t flags = KVD_ADD_ASSISTANT) const {
    std::vector<kvd_chat_message> views;
    views.reserve(messages.size());
    for (const Message& message : messages) {
      views.push_back({message.role.c_str(), message.content.c_str()});
    }
    char* text = nullptr;
    std::size_t bytes = 0;
    const int code = kvd_chat(raw(), views.data(), views.size(), flags, &text, &bytes, nullptr);
    const detail::Memory<char> owned(text);
    if (code != KVD_OK) return Unexpected(LastError(code));
    return std::string(text, bytes);
  }

 private:
  explicit Client(kvd_client* client) : client_(client, &kvd_close) {}
  std::shared_ptr<kvd_client> client_;
};

}  // inline namespace
}  // namespace kvd::api

#endif  // KVD_KVD_HPP_
