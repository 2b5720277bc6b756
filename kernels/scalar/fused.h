// KVD_FUSED: compiles a function twice, with and without the instruction for a fused multiply-add.
//
// The program chooses at its start what the machine has. Without the instruction, std::fma is a
// call that computes the same bits. With clang, which compiles the sanitizer builds, there is one
// form: a sanitizer is not ready when the choice is made.
#pragma once

#if defined(__clang__) || defined(__FMA__)
#define KVD_FUSED
#else
#define KVD_FUSED __attribute__((target_clones("fma", "default")))
#endif
