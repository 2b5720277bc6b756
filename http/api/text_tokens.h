// The tokens of texts, and the bytes of tokens.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "http/backend/daemon_session.h"
#include "http/loop/await.h"
#include "text/value.h"

namespace kvd::http {

// The tokens of an input that a client gives as a text, as token ids, or as a mix of both.

// How texts become tokens: the flags of DaemonSession::Tokenize. Of a mix, only a text at the
// beginning gets special tokens added.
struct TextReading {
  bool adds_special = false;
  bool parses_special = false;
};

// Reads a text, a list of texts and token ids ([12, 34, "text"]), or {"prompt_string": ...}. `path`
// names the value in errors. Input and path must live until the coroutine ends. Errors:
// kInvalidArgument: another form, an id outside of the vocabulary; kUnsupported: images or audio
// beside the text; those of the session.
Await<Result<std::vector<TokenId>>> TokensOf(DaemonSession& session, std::uint32_t vocab_size,
                                             const Value& input, const std::string& path,
                                             TextReading reading);

// Reads one input, or a list of inputs. A list with a number in it is one input, as in
// llama-server. Errors: as above; an empty list.
Await<Result<std::vector<std::vector<TokenId>>>> TokenListsOf(DaemonSession& session,
                                                              std::uint32_t vocab_size,
                                                              const Value& input,
                                                              const std::string& path,
                                                              TextReading reading);

// Reads a list of token ids. Errors: kInvalidArgument.
Result<std::vector<TokenId>> TokenIdsOf(const Value& input, std::uint32_t vocab_size,
                                        std::string_view path);

// The bytes that tokens contribute to a text, as llama.cpp's token_to_piece has them.
//
// The daemon's detokenize removes the space that a tokenizer puts in front of a text. These
// functions keep it: the piece of a token is the same wherever the token stands.

// The pieces of a list of tokens, each looked up once. Bytes may be any. Errors: those of the
// session.
Await<Result<std::map<TokenId, std::string>>> PiecesOf(DaemonSession& session,
                                                       std::span<const TokenId> tokens);

// The pieces of all tokens, one after the other. Errors: those of the session.
Await<Result<std::string>> JoinedPieces(DaemonSession& session, std::span<const TokenId> tokens);

}  // namespace kvd::http
