# Each target first installs the Debian packages that it needs and that are missing
# (tools/bootstrap).
#
#   make demo [SEED=n] [MODEL=hybrid|file]
#                           build kvd and the demo, then run it: processes that share one context.
#                           MODEL: default, the bundled model; hybrid, the bundled model with some
#                           recurrent layers; or a GGUF file made like them
#   make programs           build kvd, kvctl, kvd-http and libkvd
#   make install [PREFIX=/usr/local]
#                           build the programs and install them with the C library, its header,
#                           systemd units, the pages and the examples
#   make test               build, then run every test
#   make bench [MODEL=hybrid|file]
#                           build, then run every bench. MODEL: as for demo, or any GGUF file
#   make long               the checks that take longer than .ci/run may, and need root and Debian's
#                           mirror: long-fresh-root (README.md and make test in a new Debian 12),
#                           long-fuzz [FUZZ_RUNS=n] [FUZZ_CPU_SECONDS=n] [FUZZ_TARGETS="name ..."]
#                           (each fuzz target until the first of both). Each can be called alone
#   make check              format, lint, headers, include directions, names of types, both
#                           sanitizers
#   make build | asan | tsan | fuzz | format | clean
#                           asan and fuzz share one build folder (build/asan); asan, tsan and
#                           fuzz build with clang
#   make tsan-core          ThreadSanitizer over the tests that use threads: shm, memory, saved
#                           states, client, daemon
#
# Builds in the same build folder run one after the other, so several of these commands may run at
# the same time.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
SEED ?= 1
MODEL ?=
MODEL_FILE = $(if $(filter hybrid,$(MODEL)),models/notebook-1m-hybrid-q8_0.gguf,$(MODEL))
# The part of the random tests' rounds that sanitizer builds run, because they are 10 to 50 times
# slower.
SANITIZER_TEST_SCALE ?= 0.05
FUZZ_SECONDS ?= 20
# Of make long-fuzz, for each target.
FUZZ_RUNS ?= 20000000
FUZZ_CPU_SECONDS ?= 1800
FUZZ_TARGETS ?=
# The tests that use several threads, including the test of the daemon's threads over a real engine.
TSAN_CORE_TESTS = base_test shm_test memory_threads_test grammar_test saved_state_test client_test \
  daemon_threads_test
# Left out there: saved states of all kinds of models but two, which pass through the same threads.
TSAN_CORE_FILTER = -Kinds/*/gemma*:Kinds/*/lfm2:Kinds/*/qwen*:Kinds/*/deepseek*:Kinds/*/gpt*:Kinds/*/nemotron*:Kinds/*/kimi*:All/PromptStoreKindsTest.*
# STRICT: flags of tools/check/run_tests. --strict: the run fails if a test is skipped without a
# permitted reason.
STRICT ?=
PREFIX ?= /usr/local

.PHONY: build demo programs test bench install check asan tsan tsan-core fuzz format clean bootstrap bootstrap-check bootstrap-programs bootstrap-web
.PHONY: long long-fresh-root long-fuzz bootstrap-long
.PHONY: check-format check-includes check-types check-words check-headers check-tidy check-tidy-changed

build: build-release
test: build-release
	tools/check/run_tests $(STRICT) build/release
demo: build-demo
	build/release/bin/kvd-demo --seed $(SEED) $(if $(MODEL),--model $(MODEL))
programs: build-programs
# DESTDIR and PREFIX (/usr/local) as usual: the unit and kvd.pc name PREFIX.
install: build-programs
	cmake --install build/release --prefix $(abspath $(PREFIX))
bench: build-release
	tools/check/run_benches build/release $(MODEL_FILE)
asan tsan: %: build-%
	KVD_TEST_SCALE=$(SANITIZER_TEST_SCALE) tools/check/run_tests $(STRICT) build/$*
# The preset builds only the scalar kernels: the sanitizer can check their memory accesses, and the
# other kernels take long to compile.
tsan-core: bootstrap-check
	@tools/check/build tsan $(JOBS) $(TSAN_CORE_TESTS)
	KVD_TEST_SCALE=$(SANITIZER_TEST_SCALE) GTEST_FILTER='$(TSAN_CORE_FILTER)' \
	  tools/check/run_tests $(STRICT) build/tsan \
	  -R "^($$(tr ' ' '|' <<<'$(TSAN_CORE_TESTS)'))$$"
# The fuzz targets are part of the asan build. Building them alone takes a third of its time.
fuzz: build-fuzz
	tools/check/run_fuzz build/asan $(FUZZ_SECONDS) $(JOBS)

long: long-fresh-root long-fuzz
long-fresh-root: bootstrap-long
	tools/check/fresh_root build/fresh_root
long-fuzz: build-fuzz
	tools/check/fuzz_long -r $(FUZZ_RUNS) -t $(FUZZ_CPU_SECONDS) build/asan $(FUZZ_TARGETS)

check: check-format check-includes check-types check-words check-headers check-tidy asan tsan-core
check-format: bootstrap-check
	tools/check/sources | xargs clang-format-19 --dry-run -Werror
check-includes:
	tools/check/include_directions
check-types: bootstrap-check
	tools/check/type_names
check-words:
	tools/check/words
check-headers: bootstrap
	tools/check/headers_alone $(JOBS)
# clang-tidy needs the compile command of each file alone, and no build.
check-tidy check-tidy-changed: bootstrap-check
	@mkdir -p build
	cmake --preset tidy --log-level=ERROR >build/tidy.log
	tools/check/tidy build/tidy $(JOBS) $(if $(filter %-changed,$@),--changed)
format: bootstrap-check
	tools/check/sources | xargs clang-format-19 -i
clean:
	rm -rf build

bootstrap:
	@tools/bootstrap
bootstrap-programs:
	@tools/bootstrap --programs
bootstrap-check:
	@tools/bootstrap --check
bootstrap-web:
	@tools/bootstrap --web
bootstrap-long:
	@tools/bootstrap --long

# These builds use clang.
build-asan build-tsan build-fuzz: bootstrap-check
.PHONY: build-release build-asan build-tsan build-fuzz build-programs build-demo
build-programs: bootstrap-programs
	@KVD_BUILD_FOR=programs tools/check/build release $(JOBS) kvd kvctl kvd-http kvd-demo kvd_client_shared
build-demo: bootstrap-programs
	@KVD_BUILD_FOR=demo tools/check/build release $(JOBS) kvd kvd-demo
build-release build-asan build-tsan: build-%: bootstrap
	@tools/check/build $* $(JOBS)
build-fuzz:
	@tools/check/build asan $(JOBS) tests/fuzz/all
