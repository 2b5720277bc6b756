// KVD_FUSED: compiles a function twice, with and without the instruction for a fused multiply-add.
//
// The program chooses at its start what the machine has. Without the instruction, std::fma is a call
// that computes the same bits. Sanitizer builds have one form, because the choice happens before a
// sanitizer's start.
#pragma once

#include "base/sanitizers.h"

#if KVD_ADDRESS_SANITIZER || KVD_THREAD_SANITIZER || defined(__FMA__)
#define KVD_FUSED
#else
#define KVD_FUSED __attribute__((target_clones("fma", "default")))
#endif
