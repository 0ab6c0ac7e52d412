# `make` lists the targets. `make demo` and `make test` set up what they need in .venv first.
SHELL := /bin/bash
.DEFAULT_GOAL := help
ARGS ?=

.PHONY: help setup setup-dev demo dist images dist-trial cluster-demo chaos simulate soak soak-connectors bench check test test-all test-share newest-clients spark-versions brokers brokers-stop lint format stubs console jar proto-baseline constraints docs clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Create .venv with everything that Headrace needs to run
	@scripts/setup.sh

setup-dev: ## Create .venv with everything that the tests need too
	@scripts/setup.sh --dev

demo: setup ## Run a complete job on real flight data (ARGS=--chaos also kills its processes)
	@.venv/bin/headrace demo $(ARGS)

cluster-demo: setup ## Run it on a Spark cluster of three workers, one of which is killed (ARGS=--json for programs)
	@.venv/bin/headrace demo cluster $(ARGS)

chaos: setup-dev ## Fuzz the protocol, then kill -9 in all cases (hours; ARGS='--shard 1/8' for a share of the pairs) and at random
	.venv/bin/python -m pytest tests/gateway/test_fuzz.py --fuzz-seconds 600 -s
	.venv/bin/python -m pytest tests/exactly_once tests/sdk/languages tests/faults/test_kills.py tests/faults/test_many_kills.py tests/cluster --every-pair $(ARGS)
	.venv/bin/headrace chaos --minutes 10

soak: setup ## Run at a steady rate for half an hour, and check whether any process's memory grows (ARGS='--minutes 60')
	@.venv/bin/headrace soak $(ARGS)

soak-connectors: setup-dev ## Run all connectors for half an hour while brokers restart and networks fail (ARGS='--minutes 60 --seed 7')
	@.venv/bin/python -m tests.broker_crashes.soak $(ARGS)

simulate: setup ## Run schedules with faults in a deterministic simulation (ARGS='--seeds 1000', ARGS='--seed 7 --trace')
	@.venv/bin/python -m headrace.simulation $(ARGS)

bench: setup ## Measure the core on this machine (ARGS=--json for programs)
	@.venv/bin/headrace prepare --if-missing
	@.venv/bin/headrace bench core $(ARGS)

check: setup-dev ## Lint, and run the tests that need neither Spark nor brokers, within 45 s
	@scripts/check.sh $(ARGS)

test: setup-dev ## Lint, and run the tests: of the heavy ones a sample (SEED=1a2b3c4d for the same again), of ARGS='-k gateway' all
	@scripts/test.sh $(if $(SEED),--seed $(SEED)) $(ARGS)

test-all: setup-dev ## Lint, and run all tests
	@scripts/test.sh --all $(if $(SEED),--seed $(SEED))

test-share: setup-dev ## Run a share of the heavy tests that the sample of a seed leaves out (SHARE=3/8 SEED=1a2b3c4d)
	@scripts/test.sh --share $(SHARE) $(if $(SEED),--seed $(SEED))

newest-clients: setup-dev ## Test with the newest permitted clients of Kafka and NATS (ARGS='-k source' for a selection)
	@scripts/newest_clients.sh $(ARGS)

spark-versions: setup-dev ## Run a fixed set of tests with each supported Spark, and write the table of docs/start/install.md (ARGS=4.2 for one)
	@.venv/bin/python -m scripts.spark_versions $(ARGS)

brokers: setup-dev ## Install and start RabbitMQ, NATS, Kafka and PostgreSQL on this machine (ARGS=nats for one of them)
	@.venv/bin/python -m scripts.brokers install $(ARGS)
	@.venv/bin/python -m scripts.brokers start $(ARGS)

brokers-stop: ## Stop the brokers; their data stays in .build/brokers
	@.venv/bin/python -m scripts.brokers stop $(ARGS)

lint: setup-dev ## Check format, types, stubs, protos and prose, without changing anything
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/python -m scripts.generate_stubs --check
	scripts/lint_protos.sh
	scripts/lint_sources.sh
	.venv/bin/python -m scripts.prose
	.venv/bin/python -m scripts.participles

format: setup-dev ## Format the code, and apply automatic fixes
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .
	scripts/lint_sources.sh --write

stubs: setup-dev ## Generate the stubs from proto/
	.venv/bin/python -m scripts.generate_stubs

console: setup-dev ## Build the pages of the console and the types of its documents (needs Node.js 20.19 or newer)
	@.venv/bin/python scripts/build_console.py
	@.venv/bin/python -m scripts.generate_console_types

jar: setup-dev ## Build the engine's Java classes against the Spark in .venv (needs a JDK 17 and Maven)
	cd engine/java && mvn --batch-mode --no-transfer-progress --quiet package -Dpyspark.jars="$$(../../.venv/bin/python -c \
	  'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).with_name("jars"))')"

dist: setup-dev ## Build and check what a release publishes, for all registries, in dist/ (ARGS='python --twice' for a part, and again)
	@.venv/bin/python -m scripts.dist $(ARGS)

images: setup-dev ## Assemble and build images of containers in dist/images (ARGS='gateway sdk' for some; as root, with mmdebstrap and buildah)
	@.venv/bin/python -m scripts.images $(ARGS)

dist-trial: dist ## Install it where nothing of this checkout is, and run the demo, an application and connectors there
	@.venv/bin/python -m tests.distributions.trial

proto-baseline: ## After a release, store proto/ as the baseline that later changes must not break
	scripts/lint_protos.sh --baseline

constraints: setup-dev ## After a change of dependencies, pin the versions in .venv
	@{ head -n 1 constraints.txt; .venv/bin/uv pip freeze --python .venv/bin/python --exclude-editable | grep -v '^pip=='; } >.constraints.new
	@mv .constraints.new constraints.txt

docs: setup-dev ## Build the site of docs/ into .build/site, and check its links (ARGS=--help for options)
	@scripts/build_site.sh $(ARGS)

clean: ## Remove everything that was built or installed here
	rm -rf .venv .build .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse metastore_db derby.log
