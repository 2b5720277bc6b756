# Flags for all of our own code, ccache, sanitizers and the helper that declares a test.
include(cmake/precompiled.cmake)

find_program(KVD_CCACHE ccache)
if(KVD_CCACHE)
  if(KVD_PRECOMPILE)  # ccache serves what uses precompiled headers only if told so
    set(KVD_CCACHE env CCACHE_SLOPPINESS=pch_defines,time_macros ${KVD_CCACHE})
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KVD_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${KVD_CCACHE})
endif()

add_library(kvd_flags INTERFACE)
target_include_directories(kvd_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(kvd_flags INTERFACE -Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wconversion> -Werror
  # One numeric form everywhere: a multiply-add is fused only where the source says so.
  -ffp-contract=off
  # Clang need not know the warnings that are switched off for GCC; std::stable_sort of GCC 12's library uses what that
  # library itself calls deprecated; a field that a designated initializer leaves out is meant to be its default; and GCC's
  # -Wconversion for C++ leaves signs out. What a mutex guards is clang's to check (shm/thread_annotations.h).
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-warning-option;-Wno-deprecated-declarations;-Wno-missing-designated-field-initializers;-Wno-sign-conversion;-Wthread-safety>)
# What bounds the harm of a fault that got past everything else (docs/security.md). Each can be left out, to measure what it costs
# (bench/hardening_cost); tests/hardening fails without it. The sanitizers find more, and do not get along with fortified calls.
foreach(part ASSERTIONS RELRO PIE FORTIFY STACK_PROTECTOR STACK_CLASH CONTROL_FLOW)
  option(KVD_HARDEN_${part} "Harden every binary with this (bench/README.md)" ON)
  mark_as_advanced(KVD_HARDEN_${part})
endforeach()
if(KVD_HARDEN_ASSERTIONS)
  add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
endif()
if(KVD_HARDEN_PIE)
  include(CheckPIESupported)
  check_pie_supported()
else()  # engine_rows can be built then; libkvd.so cannot
  set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
  add_compile_options(-fno-pie)
  add_link_options(-no-pie)
endif()
if(KVD_HARDEN_RELRO)
  add_link_options(-Wl,-z,relro,-z,now)
else()
  add_link_options(-Wl,-z,norelro,-z,lazy)
endif()
if(NOT KVD_SANITIZE)
  if(KVD_HARDEN_FORTIFY)
    set(KVD_FORTIFY -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  endif()
  set(KVD_NO_FORTIFY "SHELL:-U_FORTIFY_SOURCE")  # for tests, which are not optimised: glibc does not fortify them
  add_compile_options(${KVD_FORTIFY}
    $<IF:$<BOOL:${KVD_HARDEN_STACK_PROTECTOR}>,-fstack-protector-strong,-fno-stack-protector>
    $<IF:$<BOOL:${KVD_HARDEN_STACK_CLASH}>,-fstack-clash-protection,-fno-stack-clash-protection>
    -fcf-protection$<$<NOT:$<BOOL:${KVD_HARDEN_CONTROL_FLOW}>>:=none>)
endif()
if(KVD_SANITIZE)
  add_compile_options(-fsanitize=${KVD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KVD_SANITIZE})
  if(KVD_SANITIZE MATCHES undefined)
    # These double the time to compile, and a null pointer that is followed ends in AddressSanitizer's report anyway.
    add_compile_options(-fno-sanitize=null,vptr,object-size)
    # One file of the instruction sets' kernels would take five minutes. The scalar ones, which are the same algorithms, keep
    # all checks; here AddressSanitizer's are calls instead of code.
    set(name $<TARGET_PROPERTY:NAME>)
    set(isa_kernels $<STREQUAL:${name},kvd_kernels_isa>)
    add_compile_options($<${isa_kernels}:-fno-sanitize=undefined>)
    add_compile_options("$<$<AND:${isa_kernels},$<CXX_COMPILER_ID:GNU>>:SHELL:--param asan-instrumentation-with-call-threshold=0>"
      "$<$<AND:${isa_kernels},$<CXX_COMPILER_ID:Clang>>:SHELL:-mllvm -asan-instrumentation-with-call-threshold=0>")
  endif()
endif()

# kvd_command_lines(SOURCES...): files that parse a command line with CLI11 and do nothing that takes time. Its templates take
# three times as long to optimise as to compile.
function(kvd_command_lines)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "-O0;-U_FORTIFY_SOURCE" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# kvd_test(NAME SOURCES... LIBS...): a GoogleTest binary run from the project's root, so that ../shared is found.
function(kvd_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE kvd_flags ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  # GoogleTest's macros take twice as long to optimise as to compile, and what is tested is in the libraries.
  target_compile_options(${name} PRIVATE -O0 ${KVD_NO_FORTIFY})
  kvd_precompile(${name} tests ${KVD_PRECOMPILED_FOR_TESTS})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "KVD_BIN=${CMAKE_BINARY_DIR}/bin")
endfunction()

# kvd_fuzz(NAME SOURCES... LIBS... [PARSES...]): a libFuzzer target X_fuzz, and kvd_fuzz_corpus(make_X_corpus ...): what writes its
# seeds. tools/check/run_fuzz finds both by these names. PARSES: the files that the target is about, whose line coverage
# tools/check/fuzz_long tells. The targets and the libraries that they are about count the edges that a run covers; the tests of
# the same tree use the same libraries. KVD_COVERAGE is a tree of its own, which counts the lines of a corpus and fuzzes nothing.
option(KVD_COVERAGE "Count the lines that the fuzz targets reach (clang only)" OFF)
set(KVD_FUZZ_ENGINE -fsanitize=fuzzer)
set(KVD_FUZZ_COUNTERS -fsanitize=fuzzer-no-link)
if(KVD_COVERAGE)
  list(APPEND KVD_FUZZ_ENGINE -fprofile-instr-generate)
  list(APPEND KVD_FUZZ_COUNTERS -fprofile-instr-generate -fcoverage-mapping)
  add_link_options(-fprofile-instr-generate)
endif()
if(KVD_BUILD_FUZZ)
  set(name $<TARGET_PROPERTY:NAME>)
  set(counted kvd_shm kvd_state_form kvd_engine kvd_client)
  add_compile_options("$<$<IN_LIST:${name},${counted}>:${KVD_FUZZ_COUNTERS}>")
endif()
function(kvd_fuzz_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE kvd_flags ${ARG_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()
function(kvd_fuzz_corpus name)
  # Those of the tree that fuzzes write the seeds.
  if(NOT KVD_COVERAGE)
    kvd_fuzz_binary(${name} ${ARGN})
  endif()
endfunction()
function(kvd_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;PARSES" ${ARGN})
  kvd_fuzz_binary(${name} SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS})
  target_compile_options(${name} PRIVATE ${KVD_FUZZ_COUNTERS})
  target_link_options(${name} PRIVATE ${KVD_FUZZ_ENGINE})
  string(REPLACE ";" "\n" parsed "${ARG_PARSES}")
  file(WRITE ${CMAKE_BINARY_DIR}/fuzz/${name}.parses "${parsed}\n")
endfunction()

# Libraries from the distribution, found once for everyone.
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(CLI11 REQUIRED)
find_package(spdlog REQUIRED)
