# Precompiles headers of the standard library and of GoogleTest if KVD_PRECOMPILE is on, because
# parsing them takes half of the compile time. Every file still includes all headers that it needs,
# so builds without KVD_PRECOMPILE compile too.

set(KVD_PRECOMPILED_STANDARD
  <algorithm> <array> <atomic> <bit> <cerrno> <chrono> <cmath> <cstddef> <cstdint> <cstring>
  <functional> <limits> <map>
  <memory> <optional> <span> <string> <string_view> <utility> <vector>)
set(KVD_PRECOMPILED_FOR_TESTS ${KVD_PRECOMPILED_STANDARD} <filesystem> <fstream> <random> <thread>
  <gmock/gmock.h> <gtest/gtest.h>)

# kvd_precompile(TARGET GROUP HEADERS...): the targets of a group have the same flags and share the
# precompiled headers of the first one. With GCC only tests use them: in optimised builds GCC 12
# forgets that precompiled headers are system headers and warns about their code.
function(kvd_precompile target group)
  if(NOT KVD_PRECOMPILE OR (CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT group STREQUAL tests))
    return()
  endif()
  get_property(owner GLOBAL PROPERTY KVD_PRECOMPILED_${group})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
    set_property(GLOBAL PROPERTY KVD_PRECOMPILED_${group} ${target})
  endif()
endfunction()
