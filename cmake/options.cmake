# Compiler flags for all targets of this repository, ccache, sanitizers, and the functions that
# declare tests and fuzz targets.
include(cmake/precompiled.cmake)

# glibc's malloc takes huge pages, which shortens optimised builds with clang by 4 to 10 %.
set(KVD_LAUNCHER env GLIBC_TUNABLES=glibc.malloc.hugetlb=1)
find_program(KVD_CCACHE ccache)
if(KVD_CCACHE)
  # ccache reads the compiler's list of included files and does not run the preprocessor itself.
  list(APPEND KVD_LAUNCHER CCACHE_DEPEND=1)
  # Without this setting ccache does not cache files that use precompiled headers.
  if(KVD_PRECOMPILE)
    list(APPEND KVD_LAUNCHER CCACHE_SLOPPINESS=pch_defines,time_macros)
  endif()
  list(APPEND KVD_LAUNCHER ${KVD_CCACHE})
endif()
set(CMAKE_CXX_COMPILER_LAUNCHER ${KVD_LAUNCHER})
set(CMAKE_C_COMPILER_LAUNCHER ${KVD_LAUNCHER})

# Programs that are not installed are linked by lld if it is there: it takes a quarter of the time.
find_program(KVD_LLD ld.lld PATHS /usr/lib/llvm-19/bin NO_DEFAULT_PATH)
if(KVD_LLD)
  cmake_path(GET KVD_LLD PARENT_PATH folder)
  set(KVD_FAST_LINK -fuse-ld=lld $<$<CXX_COMPILER_ID:GNU>:-B${folder}>)
endif()

# kvd_compile_together(TARGET [AT_ONCE count] [ALONE SOURCES...]): with KVD_UNITY, `count` (24) files
# of the target are compiled at once, because a file takes longer to read its headers than to
# compile. Every file includes all headers that it needs, so builds without KVD_UNITY compile too.
# ALONE: files that have names in their unnamed namespaces which other files have too. A test file of
# this kind has a namespace of its own instead. Files with COMPILE_OPTIONS of their own are compiled
# alone without being named.
function(kvd_compile_together target)
  cmake_parse_arguments(ARG "" "AT_ONCE" "ALONE" ${ARGN})
  if(NOT ARG_AT_ONCE)
    set(ARG_AT_ONCE 24)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${KVD_UNITY}
    UNITY_BUILD_BATCH_SIZE ${ARG_AT_ONCE})
  if(ARG_ALONE)
    list(TRANSFORM ARG_ALONE PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    set_source_files_properties(${ARG_ALONE} TARGET_DIRECTORY ${target} PROPERTIES
      SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

add_library(kvd_flags INTERFACE)
target_include_directories(kvd_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(kvd_flags INTERFACE -Wall -Wextra -Wshadow
  $<$<COMPILE_LANGUAGE:CXX>:-Wconversion> -Werror
  # All files have the same numeric form: a multiply-add is fused only where the source asks for it.
  -ffp-contract=off
  # Flags for clang only. It does not know some warnings that are switched off for GCC.
  # std::stable_sort of GCC 12's library uses a function which that library marks as deprecated. A
  # field that a designated initializer omits is meant to have its default. GCC's -Wconversion for
  # C++ does not cover signs. Clang checks what a mutex guards (base/mutex.h).
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-warning-option;-Wno-deprecated-declarations;-Wno-missing-designated-field-initializers;-Wno-sign-conversion;-Wthread-safety>)
# Hardening: flags that limit the harm of a bug (docs/security.md). Each can be switched off to
# measure its cost (bench/hardening_cost); tests/hardening fails without it. Sanitizer builds leave
# out FORTIFY, STACK_PROTECTOR, STACK_CLASH and CONTROL_FLOW: the sanitizers find more faults and do
# not support fortified calls.
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
else()  # without PIE, engine_rows can be built, but libkvd.so cannot
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
  # For tests: they are compiled without optimisation, and glibc fortifies only optimised code.
  set(KVD_NO_FORTIFY "SHELL:-U_FORTIFY_SOURCE")
  add_compile_options(${KVD_FORTIFY}
    $<IF:$<BOOL:${KVD_HARDEN_STACK_PROTECTOR}>,-fstack-protector-strong,-fno-stack-protector>
    $<IF:$<BOOL:${KVD_HARDEN_STACK_CLASH}>,-fstack-clash-protection,-fno-stack-clash-protection>
    -fcf-protection$<$<NOT:$<BOOL:${KVD_HARDEN_CONTROL_FLOW}>>:=none>)
endif()
if(KVD_SANITIZE)
  add_compile_options(-fsanitize=${KVD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KVD_SANITIZE} ${KVD_FAST_LINK})
  if(KVD_SANITIZE MATCHES undefined)
    # These checks double the compile time, and AddressSanitizer reports a dereferenced null pointer
    # anyway.
    add_compile_options(-fno-sanitize=null,vptr,object-size)
    # The instruction sets' kernels are compiled without the undefined-behaviour checks, with which a
    # single file takes minutes. The scalar kernels implement the same algorithms and keep all checks.
    add_compile_options($<$<STREQUAL:$<TARGET_PROPERTY:NAME>,kvd_kernels_isa>:-fno-sanitize=undefined>)
  endif()
endif()

# kvd_unoptimised_with_sanitizers(TARGET): for code that takes a small part of the tests' time.
# Sanitizer builds compile it without optimisation, which takes half of the time.
function(kvd_unoptimised_with_sanitizers target)
  if(KVD_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# kvd_command_lines(SOURCES...): compiles without optimisation. For files that parse a command line
# with CLI11 and do nothing slow: optimising CLI11's templates takes three times as long as
# compiling them.
function(kvd_command_lines)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "-O0;-U_FORTIFY_SOURCE"
    SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# kvd_test_library(NAME SOURCES... LIBS... [ALONE SOURCES...]): code that several test programs use,
# compiled without optimisation like the tests.
function(kvd_test_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;ALONE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  kvd_compile_together(${name} ALONE ${ARG_ALONE})
  target_link_libraries(${name} PUBLIC kvd_flags ${ARG_LIBS})
  target_compile_options(${name} PRIVATE -O0 ${KVD_NO_FORTIFY})
endfunction()

# kvd_test(NAME SOURCES... LIBS... [ALONE SOURCES...] [TIMEOUT seconds] [OPTIMISED]): a GoogleTest
# binary that runs in the repository's root, where it finds the shared test data. The default timeout
# is 600 seconds. The files of a program are compiled by kvd_compile_together. OPTIMISED: for a
# program that spends most of its time in its own code.
function(kvd_test name)
  cmake_parse_arguments(ARG "OPTIMISED" "TIMEOUT" "SOURCES;LIBS;ALONE" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(LENGTH ARG_SOURCES source_count)
  if(source_count GREATER 1)
    # The largest programs have about 30 files, which are then one unit and not two.
    kvd_compile_together(${name} AT_ONCE 36 ALONE ${ARG_ALONE})
  endif()
  target_link_libraries(${name} PRIVATE kvd_flags ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  # Without optimisation: optimising GoogleTest's macros takes twice as long as compiling them, and
  # the tested code is in the libraries.
  if(ARG_OPTIMISED)
    target_compile_options(${name} PRIVATE -O1)
  else()
    target_compile_options(${name} PRIVATE -O0 ${KVD_NO_FORTIFY})
    kvd_precompile(${name} tests ${KVD_PRECOMPILED_FOR_TESTS})
  endif()
  target_link_options(${name} PRIVATE ${KVD_FAST_LINK})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "KVD_BIN=${CMAKE_BINARY_DIR}/bin")
endfunction()

# kvd_fuzz(NAME SOURCES... LIBS... [PARSES...]): a libFuzzer target X_fuzz.
# kvd_fuzz_library(NAME SOURCES... LIBS... [ALONE SOURCES...]): code that several targets use.
# kvd_fuzz_corpora(make_corpus ...): the program that writes the seeds of every target.
# tools/check/run_fuzz finds targets and program by these names. PARSES: the files that the target
# tests; tools/check/fuzz_long reports their line coverage. The targets and the libraries that they
# test are instrumented to count covered edges; the tests of the same build folder use the same
# libraries. KVD_COVERAGE is for a separate build folder, which counts the lines that a corpus
# reaches and does not fuzz.
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
  set(counted kvd_base kvd_text kvd_shm kvd_state_layout kvd_engine kvd_c_interface kvd_client
    kvd_llama_files kvd_http_serve)
  add_compile_options("$<$<IN_LIST:${name},${counted}>:${KVD_FUZZ_COUNTERS}>")
  # The inputs of http_routes_fuzz are not the texts that the gateway compares, and tracing
  # comparisons takes a seventh of the target's time. Of its executed edges, most are those of Asio.
  set(counted kvd_http_loop kvd_http_backend kvd_http_answer kvd_http_api)
  # The list's path is relative, so that ccache finds the results of other working trees.
  file(RELATIVE_PATH uncounted ${CMAKE_BINARY_DIR}
    ${PROJECT_SOURCE_DIR}/cmake/uncounted_functions.txt)
  set(counters "${KVD_FUZZ_COUNTERS}" -fno-sanitize-coverage=trace-cmp,indirect-calls
    -fsanitize-coverage-ignorelist=${uncounted})
  add_compile_options("$<$<IN_LIST:${name},${counted}>:${counters}>")
endif()
function(kvd_fuzz_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  kvd_compile_together(${name})
  target_link_libraries(${name} PRIVATE kvd_flags ${ARG_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()
function(kvd_fuzz_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;ALONE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  kvd_compile_together(${name} ALONE ${ARG_ALONE})
  target_link_libraries(${name} PUBLIC kvd_flags ${ARG_LIBS})
  target_compile_options(${name} PRIVATE ${KVD_FUZZ_COUNTERS})
  kvd_precompile(${name} libraries)
endfunction()
function(kvd_fuzz_corpora name)
  # A coverage build uses the seeds of the fuzz build, so it needs no seed writers.
  if(NOT KVD_COVERAGE)
    kvd_fuzz_binary(${name} ${ARGN})
    target_compile_options(${name} PRIVATE -O0)
  endif()
endfunction()
function(kvd_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;PARSES" ${ARGN})
  kvd_fuzz_binary(${name} SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS})
  target_compile_options(${name} PRIVATE ${KVD_FUZZ_COUNTERS})
  kvd_precompile(${name} fuzz_targets ${KVD_PRECOMPILED_STANDARD})
  target_link_options(${name} PRIVATE ${KVD_FUZZ_ENGINE})
  string(REPLACE ";" "\n" parsed "${ARG_PARSES}")
  file(WRITE ${CMAKE_BINARY_DIR}/fuzz/${name}.parses "${parsed}\n")
endfunction()

# Libraries of the distribution that several targets use.
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(CLI11 REQUIRED)
find_package(spdlog REQUIRED)
