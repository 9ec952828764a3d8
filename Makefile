.DEFAULT_GOAL := help
.PHONY: help up test test-all test-long check ci proto accuracy bench chaos fuzz lives swaps damaged clean

help:  ## print these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

up:  ## start the platform on this machine (Ctrl-C drains)
	@./run up

test:  ## run the fast tests (two minutes)
	@./run test

test-all:  ## run all tests but the long ones
	@./run test --all

test-long:  ## run the long tests
	@./run test --long

check:  ## lint, types, import contracts
	@./run check

ci:  ## all that the pull-request check runs
	@.ci/run

proto:  ## regenerate the protobuf modules
	@.venv/bin/python scripts/generate_proto.py

accuracy:  ## agreement of rewards with public labels (needs ../shared/data)
	@.venv/bin/python -m benchmarks.verdicts.accuracy

bench:  ## throughput and latency, side by side with the alternatives
	@.venv/bin/python -m benchmarks.service.throughput

chaos:  ## 10,000 requests under kill -9 of workers, API and store
	@.venv/bin/python -m benchmarks.service.chaos

fuzz:  ## candidates of known reward, hostile and honest, in every pipeline (SEED=, MINUTES=)
	@.venv/bin/python -m tests.fuzz.verdicts --seed $(or $(SEED),1) --minutes $(or $(MINUTES),5)

lives:  ## 10,000 runtimes closed beside calls, under ThreadSanitizer and AddressSanitizer (LIVES=)
	@ASSAY_LIVES=$(or $(LIVES),10000) .venv/bin/python -m pytest -q --timeout=0 -s \
		tests/rollout/test_sanitizers.py -k closed_beside_calls

swaps:  ## 10,000 random swaps of weights, tokens and cached KV against fresh engines (SWAPS=)
	@ASSAY_SWAPS=$(or $(SWAPS),10000) .venv/bin/python -m pytest -q --timeout=0 -s \
		tests/rollout/test_weight_slots.py tests/rollout/test_runtime.py -k over_random_swaps

damaged:  ## damaged model files of every form; every error names the file (FILES= of each form)
	@ASSAY_DAMAGED_FILES=$(or $(FILES),350) .venv/bin/python -m pytest -q --timeout=0 -s \
		tests/rollout/engine/test_loaders.py tests/rollout/test_adapter_files.py -k damaged

clean:  ## remove caches and the virtual environment
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
