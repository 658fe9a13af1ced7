# The front door: every target is one or two calls into tools/, CMake and CTest. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup configure build run test fuzz lint bench receipts clean

nvcc := $(shell command -v nvcc)
# CUDA code is compiled where a GPU is present, and for tests wherever nvcc is.
PRESET ?= $(if $(and $(nvcc),$(wildcard /dev/nvidia0)),cuda,release)
PROMPT ?= The capital of France is
MODEL ?= models/SmolLM2-135M-Instruct.Q4_1.gguf
TOKENS ?= 128
SECONDS_PER_FUZZER ?= 20
JOBS ?= $(shell nproc)

program := build/$(PRESET)/bin/fourfold
# The prompt reaches the program through the environment, so that quotes and dollar signs in it stay text.
unexport PROMPT
export FOURFOLD_PROMPT := $(value PROMPT)

help:
	@echo 'make run PROMPT="..."   install what is needed, build, fetch SmolLM2-135M-Instruct, answer (TOKENS=$(TOKENS) at most)'
	@echo 'make test               install what is needed, build, run every test'
	@echo 'make build              build the program: $(program)'
	@echo 'make fuzz               run each fuzzer for SECONDS_PER_FUZZER=$(SECONDS_PER_FUZZER) seconds (clang)'
	@echo 'make lint               format, file sizes, layers, links, scripts, receipts'
	@echo 'make bench              build the benchmarks and run them'
	@echo 'make receipts           receipts whose sources changed since they were measured'
	@echo 'make clean              remove build/ (models/ stays)'

setup:
	@tools/setup

configure: setup
	@test -f build/$(PRESET)/build.ninja || cmake --preset $(PRESET) >&2

build: configure
	@cmake --build --preset $(PRESET) --target fourfold_cli >&2

run: build
	@tools/fetch-models
	@$(program) run -m $(MODEL) -p "$$FOURFOLD_PROMPT" --temp 0 -n $(TOKENS)

test: PRESET := $(if $(nvcc),cuda,$(PRESET))
test: configure
	@cmake --build --preset $(PRESET)
	@ctest --preset $(PRESET) -j $(JOBS)

fuzz:
	@tools/setup --dev
	@tools/fuzz $(SECONDS_PER_FUZZER)

lint:
	@tools/setup --dev
	@tools/lint

bench: configure
	@cmake --build --preset $(PRESET) --target bench

receipts:
	@tools/receipts --stale

clean:
	@rm -rf build
