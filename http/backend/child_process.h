// Starts other programs: the daemon, and kvd's commands that print something.
//
// A child has none of the parent's descriptors but those that are passed to it, an empty standard
// input, no blocked signals, and a process group of its own, so that Ctrl-C in the parent's
// terminal does not reach it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace kvd::http {

// Starts `program` (a path) and returns its pid; the caller waits for it. `output`, `error`: the
// descriptors of its standard output and standard error. Errors: kIo, kNotFound.
Result<pid_t> StartProgram(const std::string& program, const std::vector<std::string>& arguments,
                           int output, int error);

// Runs a program to its end and returns its standard output, at most 64 KiB. Blocks. Errors: those
// of StartProgram; kInvalidArgument: the program has failed; the message is what it wrote on
// standard error.
Result<std::string> RunProgram(const std::string& program,
                               const std::vector<std::string>& arguments);

// Returns the path of the program kvd: the file beside this program's own file, else the first one
// in PATH. Errors: kNotFound.
Result<std::string> FindDaemonProgram();

}  // namespace kvd::http
