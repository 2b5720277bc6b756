// The default places of the states of daemons, and the file in a state's directory that says whose
// state it is: the rules that daemon and kvctl share.
//
// The state of the daemon NAME is in the directory NAME of a place. The places, in the order of
// preference:
//
//   $XDG_RUNTIME_DIR/kvd-state       if that variable holds an absolute path; else /run/kvd-state
//                                    for root
//   /dev/shm/kvd-UID
//   ${TMPDIR:-/tmp}/kvd-UID-state    need not be a tmpfs
//
// The socket of a daemon depends on the runtime directory, so its state does, too: with another one
// than /run/user/UID, ".MARK" follows UID or "state", a number of the runtime directory's path in
// hexadecimal digits.
//
// If another user has created the directory of a place, a suffix follows (shm/own_directory.h).
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kvd {

// Mode bits that a directory of a state must not have.
inline constexpr mode_t kStateForbiddenMode = 077;

// The directory ROOT/STEM, or ROOT/STEM-SUFFIX.
struct StatePlace {
  std::string root;
  std::string stem;
};
std::vector<StatePlace> StatePlaces();
// The places without the mark of a runtime directory, where an earlier kvd has kept its states;
// none if StatePlaces() are these. A state there that has no kStateNoteFile is of an earlier kvd.
std::vector<StatePlace> EarlierStatePlaces();

// What the file kStateNoteFile says: for people and for kvctl daemons, not for the daemon.
struct StateNote {
  std::string daemon;       // its name
  std::string model;        // the model's name
  std::string folder = {};  // of the model's state; empty: the directory itself has the state
};
inline constexpr const char* kStateNoteFile = "about";

// Returns the text with spaces in place of its control characters, which a terminal would obey.
std::string OneLine(std::string_view text);

// Writes the file in a state's directory. Errors: kIo, kNoSpace.
Status WriteStateNote(int directory, const StateNote& note);
// Returns what the file says; empty members: it does not say so, or cannot be read.
StateNote ReadStateNote(int directory);

}  // namespace kvd
