# Each target runs only a few commands. CI runs the same targets.
PYTHON ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help demo demo-stop programs test-programs test test-all test-unit test-integration test-extended test-long test-other-python
.PHONY: test-collection test-changed test-submission test-stress test-cuts storm storms bursts playbooks
.PHONY: e2e e2e-kernel-cache kernel-cache-matrix roads many-caches triton-lookup forms fuzz lint lint-python lint-ansible lint-collection format bench plots mutants
.PHONY: build release docs lock proto clean deploy-examples-kind deploy-examples-nfd-cuda deploy-examples-nfd-rocm
.PHONY: undeploy-examples-kind undeploy-examples-nfd-cuda undeploy-examples-nfd-rocm example-images

help: ## Show this help.
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/' | expand -t 30

demo: .venv/demo ## Start an embedded cluster, and install accelkit with pods that share cards. Takes minutes; does not require root.
	$(BIN)/python scripts/demo.py

demo-stop: .venv/demo ## Stop and delete the embedded cluster.
	$(BIN)/accelkit sandbox down

programs: ## Install the programs that the tests need: busybox, a registry, debootstrap… Uses apt; requires root.
	$(PYTHON) scripts/test_programs.py install

test-programs:
	@$(PYTHON) scripts/test_programs.py check

test: test-programs .venv/dev ## Run all unit tests, and core integration tests of each capability. Takes at most 15 minutes on two cores.
	$(BIN)/python scripts/test_parts.py unit integration

test-all: test-programs .venv/dev ## Run all tests except those of the targets below, part by part; see docs/how-to/testing.md. Takes an hour.
	$(BIN)/python scripts/test_parts.py all

PARALLEL := --numprocesses auto --maxprocesses 8 --dist loadgroup --no-loadscope-reorder --durations 15 --durations-min 20

test-unit: .venv/dev ## Run the unit tests.
	$(BIN)/pytest $(PARALLEL) tests/unit

test-integration: .venv/dev ## Run the core integration tests, which test each capability once.
	$(BIN)/accelkit sandbox build
	$(BIN)/pytest $(PARALLEL) --tiers core tests/integration

test-extended: .venv/dev ## Run the extended integration tests: variants, settings and longer playbooks. Not part of `make test`.
	$(BIN)/accelkit sandbox build
	$(BIN)/pytest $(PARALLEL) --tiers extended tests/integration

test-long: .venv/dev ## Run the long integration tests: playbooks that run many times. Not part of `make test` or CI.
	$(BIN)/accelkit sandbox build
	$(BIN)/pytest $(PARALLEL) --tiers long tests/integration

# If the selected files contain only long tests, pytest exits with status 5.
test-changed: .venv/dev ## Run the integration tests that cover the changes since SINCE, by default since this branch diverged from main.
	$(BIN)/accelkit sandbox build
	mkdir -p build
	$(BIN)/python scripts/select_tests.py $(SINCE) >build/selected
	! grep -q . build/selected || $(BIN)/pytest $(PARALLEL) $$(sed 's:^all$$:tests/integration:' build/selected) || [ $$? -eq 5 ]

test-submission: .venv/dev ## Run the core integration tests, and the extended tests that cover the changes since SINCE, as in CI.
	$(BIN)/accelkit sandbox build
	mkdir -p build
	$(BIN)/python scripts/select_tests.py $(SINCE) >build/selected
	$(BIN)/pytest $(PARALLEL) --extended-in build/selected tests/integration

# Property-based tests run with fewer examples. Only packages that depend on Python's standard library are tested,
# because the library differs.
test-other-python: .venv/dev ## Run unit tests (archives, sockets, processes) with OTHER_PYTHON, by default Debian's /usr/bin/python3.
	$(BIN)/python scripts/other_python.py $(OTHER_PYTHON) $(PARALLEL) $(OTHER_PYTHON_TESTS)
OTHER_PYTHON ?= /usr/bin/python3
OTHER_PYTHON_TESTS ?= $(addprefix tests/unit/accelkit/,extender install kernelcache kube node sandbox)

test-stress: .venv/dev ## Run the tests while other processes use all processors, to find tests that need a fast machine.
	$(BIN)/python scripts/under_load.py $(BIN)/python scripts/test_parts.py $(STRESS)
STRESS ?= unit integration extended

test-collection: .venv/dev ## Run the unit tests that are part of the collection with ansible-test, on the tarball.
	$(BIN)/python scripts/collection_gate.py units

test-cuts: .venv/dev ## Run the playbooks on three control-plane hosts, and interrupt them after each change.
	$(BIN)/accelkit sandbox build
	CUT_OFF_EVERYWHERE=1 $(BIN)/pytest --tiers core,long tests/integration/test_control_plane_hosts.py

storm: .venv/dev ## Run one storm of faults with a new seed, which is printed first. STORM sets options.
	$(BIN)/accelkit sandbox build
	$(BIN)/python tests/faults/storms.py $(STORM)

storms: .venv/dev ## Run storms of faults until an invariant is violated. STORMS sets options: --storms 100 --seconds 20, --seed 7…
	$(BIN)/accelkit sandbox build
	$(BIN)/python tests/faults/storms.py $(STORMS)

bursts: .venv/demo ## Run bursts of pods in the cluster of `make demo`, checked 45 s after the last bind. BURSTS sets options: --times 1, --pause etcd…
	$(BIN)/python tests/faults/bursts.py $(BURSTS)

playbooks: .venv/demo ## Kill site.yml, and run it twice at the same time, while pods run in the cluster of `make demo`. PLAYBOOKS sets options: --seed 7…
	$(BIN)/python tests/faults/playbooks.py $(PLAYBOOKS)

forms: .venv/dev ## Test kube-scheduler with a real systemd, and in services that are configured like k3s and RKE2. Requires Docker.
	$(BIN)/accelkit sandbox build
	SERVICE_MANAGERS=1 $(BIN)/pytest tests/integration/test_service_managers.py

many-caches: .venv/dev ## Test the cache controller, its webhook and an agent with 200 kernel caches. Takes minutes.
	$(BIN)/accelkit sandbox build
	ACCELKIT_CACHES=200 $(BIN)/pytest -k many_caches tests/integration

e2e: .venv/dev ## Test the whole product in a kind cluster, with molecule. Takes twenty minutes; requires Docker and kind.
	$(BIN)/python scripts/e2e.py

e2e-kernel-cache: .venv/dev ## Test kernel caches in a kind cluster: all examples, failures, removal. Also requires cosign and a registry.
	$(BIN)/python scripts/e2e.py kernel_cache

kernel-cache-matrix: .venv/dev ## Test each delivery of kernel caches on different kind nodes, with caches of frameworks. MATRIX selects cases.
	$(BIN)/python scripts/kernel_cache_matrix.py $(MATRIX)

triton-lookup: .venv/dev ## Test Triton's own lookup in extracted caches. Installs Triton in a separate environment (290 MB download).
	test -x build/triton/bin/python || $(PYTHON) -m venv build/triton
	build/triton/bin/pip install --quiet --disable-pip-version-check --no-deps $(TRITON)
	ACCELKIT_TRITON_PYTHON=build/triton/bin/python $(BIN)/pytest tests/integration/test_triton_lookup.py
TRITON ?= triton==3.9.0

roads: .venv/dev ## Test each installation method, as shipped, in a new kind cluster. ROADS selects methods.
	$(BIN)/python scripts/roads.py $(ROADS)

deploy-examples-kind: .venv/demo ## Apply the example caches and their workloads to a kind cluster.
	$(BIN)/accelkit examples deploy kind --output output

undeploy-examples-kind: .venv/demo ## Delete the example caches and their workloads from a kind cluster.
	$(BIN)/accelkit examples undeploy kind

deploy-examples-nfd-cuda: .venv/demo ## Apply the example caches and their workloads to a cluster with NVIDIA cards and Node Feature Discovery.
	$(BIN)/accelkit examples deploy nfd-cuda --output output

undeploy-examples-nfd-cuda: .venv/demo ## Delete the example caches and their workloads from a cluster with NVIDIA cards.
	$(BIN)/accelkit examples undeploy nfd-cuda

deploy-examples-nfd-rocm: .venv/demo ## Apply the example caches and their workloads to a cluster with AMD cards and Node Feature Discovery.
	$(BIN)/accelkit examples deploy nfd-rocm --output output

undeploy-examples-nfd-rocm: .venv/demo ## Delete the example caches and their workloads from a cluster with AMD cards.
	$(BIN)/accelkit examples undeploy nfd-rocm

example-images: .venv/dev ## Build and sign the images of the examples, and push them to your own registry. IMAGES sets options.
	@$(BIN)/python scripts/cache_example_images.py $(IMAGES)

lint: .venv/dev ## Check formatting, style, types, import contracts, dependencies, dead code, prose and Ansible content in parallel.
	@$(MAKE) --no-print-directory --jobs --output-sync=target lint-collection lint-ansible lint-python

lint-python: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/vulture
	$(BIN)/python scripts/check_prose.py

lint-ansible: .venv/dev
	$(BIN)/yamllint --strict .
	$(BIN)/ansible-lint --offline --strict

lint-collection: .venv/dev
	$(BIN)/python scripts/collection_gate.py lint

format: .venv/dev ## Format the Python files, and fix findings of the linter.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/dev ## Measure speed and memory as ratios, write JSON to build/bench, and print results and targets. BENCH selects benchmarks.
	$(BIN)/python bench/run_all.py $(BENCH)

plots: .venv/dev ## Plot the results of `make bench` in build/bench.
	$(BIN)/python bench/plots.py build/bench build/bench

mutants: .venv/dev ## Make small changes to the code, and count how many of them the unit tests detect.
	$(BIN)/python scripts/mutants.py

fuzz: .venv/dev ## Test the extender and the node agent with a million malformed objects of each kind. FUZZ sets options.
	$(BIN)/python scripts/fuzz.py $(FUZZ)

build: .venv/dev ## Build the wheel and the collection tarball in dist/.
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/ansible-galaxy collection build --force --output-path dist

# Links to Ansible's own documentation are not resolved, because intersphinx would access other sites.
docs: .venv/dev ## Build the HTML documentation of the collection in build/docsite/html.
	rm -rf build/docsite && mkdir -p build/docsite
	$(BIN)/antsibull-docs sphinx-init $(DOCSITE) --lenient --sphinx-theme alabaster --dest-dir build/docsite
	chmod og-w build/docsite/rst
	$(BIN)/antsibull-docs --config-file build/docsite/antsibull-docs.cfg collection $(DOCSITE) --dest-dir build/docsite/rst
	$(BIN)/sphinx-build -q -W --keep-going -D pygments_style=default -D extensions=sphinx_antsibull_ext \
		-D suppress_warnings=ref.ref -c build/docsite build/docsite/rst build/docsite/html
DOCSITE := --use-current --squash-hierarchy accelkit.kubernetes

release: .venv/dev ## Build wheels, collections, image, bills of materials and checksums in one folder, and install from this folder.
	$(BIN)/python scripts/release.py $(RELEASE)

lock: ## Resolve the dependencies again, and update the lock files.
	$(PYTHON) -m venv .venv && $(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --upgrade $(LOCK) $(LOCKED:%=--extra %) -o requirements-dev.lock pyproject.toml
	$(BIN)/uv pip compile --upgrade $(LOCK) --extra ansible-core -c requirements-dev.lock -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile --upgrade $(LOCK) --fork-strategy fewest -o $(LOCK_OF_IMAGE) pyproject.toml
	$(BIN)/uv pip compile --upgrade $(LOCK) --group pyproject.toml:importer -o requirements-importer.lock
# This lock file contains one version of each package for all Python versions, because pip downloads the packages with a
# different Python version than that of the image.
LOCK_OF_IMAGE := roles/images/files/requirements.lock
# All extras except `ansible`. scripts/fetch_collections.py installs the collections that are needed from it.
LOCKED := ansible-core kubeconfig openshift test lint release bench dashboards
LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	--no-emit-index-url --no-emit-find-links

proto: .venv/dev ## Generate the protobuf messages of the kubelet's interfaces again.
	$(BIN)/python scripts/generate_proto.py

clean: ## Delete all files that were built or installed in this folder.
	rm -rf .venv .cache $(addprefix collections/ansible_collections/,awx community kubernetes) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The lock files contain hashes, so the installed packages are the tested packages. They list all packages, so pip must
# not resolve dependencies again: if a package is required with and without an extra (pydantic and pydantic[email]), pip
# finds newer releases, which have no hash.
.venv/demo: requirements.lock pyproject.toml galaxy.yml
	@echo "Preparing a Python environment in .venv (once, about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "accelkit requires Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || \
		{ echo "Python cannot create virtual environments; on Debian, run: apt-get install python3-venv"; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	@$(BIN)/python scripts/fetch_collections.py
	@touch $@

.venv/dev: requirements-dev.lock .venv/demo
	@echo "Adding the tools for tests and checks (once, about a minute)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.lock
	@touch $@
