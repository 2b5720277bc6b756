// The bytes that tokens contribute to a text, as llama.cpp's token_to_piece has them.
//
// The daemon's detokenize removes the space that a tokenizer puts in front of a text. These
// functions keep it: the piece of a token is the same wherever the token stands.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "http/backend/daemon_session.h"
#include "http/loop/await.h"

namespace kvd::http {

// The pieces of a list of tokens, each looked up once. Bytes may be any. Errors: those of the
// session.
Await<Result<std::map<TokenId, std::string>>> PiecesOf(DaemonSession& session,
                                                       std::span<const TokenId> tokens);

// The pieces of all tokens, one after the other. Errors: those of the session.
Await<Result<std::string>> JoinedPieces(DaemonSession& session, std::span<const TokenId> tokens);

}  // namespace kvd::http
