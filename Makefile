# Everything is one command; each installs first what is missing (tools/bootstrap).
#
#   make demo [SEED=n] [MODEL=hybrid|file]
#                           build, then watch processes share one context (of the bundled model, of the bundled hybrid
#                           whose layers are partly recurrent, or of a GGUF file made like them)
#   make test               build, then run every test
#   make bench [MODEL=hybrid|file]
#                           build, then run every bench (on the same choice of models; any GGUF file)
#   make check              format, lint, headers, include directions, both sanitizers
#   make build | asan | tsan | fuzz | format | clean
#                           asan and fuzz are one tree (build/asan); these and tsan are clang's
#   make tsan-core          ThreadSanitizer over the tests that have threads: shm, memory, saved states, client, daemon
#
# Builds of one folder wait for each other, so any number of these may run at the same time.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
SEED ?= 1
MODEL ?=
MODEL_FILE = $(if $(filter hybrid,$(MODEL)),models/notebook-1m-hybrid-q8_0.gguf,$(MODEL))
# How much of the random tests' volume the sanitizer builds run; they are 10 to 50 times slower.
SANITIZER_TEST_SCALE ?= 0.05
FUZZ_SECONDS ?= 20
# What several threads share: the tests that have threads, and the daemon's threads over a real engine.
TSAN_CORE_TESTS = shm_test memory_step_test concurrent_defragment_test pool_segment_test prefix_sharing_test saved_state_test workers_test log_test \
  server_sessions_test client_test concurrent_daemon_test
# --strict: a test skipped without need fails the run, where the shared test data is there.
STRICT ?=

.PHONY: build demo test bench check asan tsan tsan-core fuzz format clean bootstrap bootstrap-check
.PHONY: check-format check-includes check-headers check-tidy check-tidy-changed

build: build-release
test: build-release
	tools/check/run_tests $(STRICT) build/release
demo: build-release
	build/release/bin/kvd-demo --seed $(SEED) $(if $(MODEL),--model $(MODEL))
bench: build-release
	tools/check/run_benches build/release $(MODEL_FILE)
asan tsan: %: build-%
	KVD_TEST_SCALE=$(SANITIZER_TEST_SCALE) tools/check/run_tests $(STRICT) build/$*
# The preset builds the scalar kernels alone: the sanitizer sees what they read and write, and the others take long to compile.
tsan-core: bootstrap-check
	@tools/check/build tsan $(JOBS) $(TSAN_CORE_TESTS)
	KVD_TEST_SCALE=$(SANITIZER_TEST_SCALE) tools/check/run_tests $(STRICT) build/tsan \
	  -R "^($$(tr ' ' '|' <<<'$(TSAN_CORE_TESTS)'))$$"
# The fuzz targets are part of the asan tree; alone they need a third of it.
fuzz: build-fuzz
	tools/check/run_fuzz build/asan $(FUZZ_SECONDS) $(JOBS)

check: check-format check-includes check-headers check-tidy asan tsan-core
check-format: bootstrap-check
	tools/check/sources | xargs clang-format-19 --dry-run -Werror
check-includes:
	tools/check/include_directions
check-headers: bootstrap
	tools/check/headers_alone $(JOBS)
check-tidy: build-release bootstrap-check
	tools/check/tidy build/release $(JOBS)
check-tidy-changed: build-release bootstrap-check
	tools/check/tidy build/release $(JOBS) --changed
format: bootstrap-check
	tools/check/sources | xargs clang-format-19 -i
clean:
	rm -rf build

bootstrap:
	@tools/bootstrap
bootstrap-check:
	@tools/bootstrap --check

# These trees are clang's.
build-asan build-tsan build-fuzz: bootstrap-check
.PHONY: build-release build-asan build-tsan build-fuzz
build-release build-asan build-tsan: build-%: bootstrap
	@tools/check/build $* $(JOBS)
build-fuzz:
	@tools/check/build asan $(JOBS) tests/fuzz/all
