// AnalyseProgram: completes a parsed program: rules that may be empty, ranks, classes of bytes.
#pragma once

#include "base/error.h"
#include "base/work_control.h"
#include "engine/grammar/grammar_program.h"

namespace kvd {

// Sets may_be_empty and rank of every rule, rule_of_rank, byte_class and class_count, and lowers
// the minimum of a repetition whose body may be empty to 0. Errors: kInvalidArgument: a rule is
// left recursive (by its name); kCancelled.
Status AnalyseProgram(GrammarProgram& program, WorkControl& work);

}  // namespace kvd
