# Every target is a line or two; CI runs the same ones.
PYTHON ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help demo demo-stop programs test-programs test test-all test-unit test-integration test-extended test-long test-other-python
.PHONY: test-collection test-changed test-submission test-stress test-cuts storm storms bursts playbooks
.PHONY: e2e e2e-kernel-cache kernel-cache-matrix roads many-caches triton-lookup forms fuzz lint lint-python lint-ansible lint-collection format bench plots mutants
.PHONY: build release docs lock proto clean deploy-examples-kind deploy-examples-nfd-cuda deploy-examples-nfd-rocm
.PHONY: undeploy-examples-kind undeploy-examples-nfd-cuda undeploy-examples-nfd-rocm example-images

help: ## Show this.
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/' | expand -t 30

demo: .venv/demo ## Embedded cluster, installed by Ansible, with pods that share cards. Minutes; needs no root.
	$(BIN)/python scripts/demo.py

demo-stop: .venv/demo ## Stop and delete the embedded cluster.
	$(BIN)/accelkit sandbox down

programs: ## Install what the tests run beside Python packages: busybox, a registry, debootstrap… As root, by apt.
	$(PYTHON) scripts/test_programs.py install

test-programs:
	@$(PYTHON) scripts/test_programs.py check

test: test-programs .venv/dev ## All unit tests, and integration tests of each capability. At most 15 minutes on two cores.
	$(BIN)/python scripts/test_parts.py unit integration

test-all: test-programs .venv/dev ## All tests but those of the other targets below, part by part: see docs/how-to/testing.md. An hour.
	$(BIN)/python scripts/test_parts.py all

PARALLEL := --numprocesses auto --maxprocesses 8 --dist loadgroup --no-loadscope-reorder --durations 15 --durations-min 20

test-unit: .venv/dev ## The unit tests.
	$(BIN)/pytest $(PARALLEL) tests/unit

test-integration: .venv/dev ## The core integration tests: each capability once.
	$(BIN)/accelkit sandbox build
	$(BIN)/pytest $(PARALLEL) --tiers core tests/integration

test-extended: .venv/dev ## The extended integration tests: variants, settings and longer playbooks. Not in `make test`.
	$(BIN)/accelkit sandbox build
	$(BIN)/pytest $(PARALLEL) --tiers extended tests/integration

test-long: .venv/dev ## The long integration tests: playbooks that run many times. Not in `make test`, nor in CI.
	$(BIN)/accelkit sandbox build
	$(BIN)/pytest $(PARALLEL) --tiers long tests/integration

# The selected files may have long tests only: pytest then ends with 5.
test-changed: .venv/dev ## Integration tests that cover what changed since SINCE, by default where this branch left main.
	$(BIN)/accelkit sandbox build
	mkdir -p build
	$(BIN)/python scripts/select_tests.py $(SINCE) >build/selected
	! grep -q . build/selected || $(BIN)/pytest $(PARALLEL) $$(sed 's:^all$$:tests/integration:' build/selected) || [ $$? -eq 5 ]

test-submission: .venv/dev ## Core integration tests, and the extended ones that cover what changed since SINCE, as CI runs them.
	$(BIN)/accelkit sandbox build
	mkdir -p build
	$(BIN)/python scripts/select_tests.py $(SINCE) >build/selected
	$(BIN)/pytest $(PARALLEL) --extended-in build/selected tests/integration

# Of properties, fewer examples: it is Python's own library that differs, so the rooms that lean on it are tested.
test-other-python: .venv/dev ## Unit tests on OTHER_PYTHON, by default Debian's /usr/bin/python3: archives, sockets, processes.
	$(BIN)/python scripts/other_python.py $(OTHER_PYTHON) $(PARALLEL) $(OTHER_PYTHON_TESTS)
OTHER_PYTHON ?= /usr/bin/python3
OTHER_PYTHON_TESTS ?= $(addprefix tests/unit/accelkit/,extender install kernelcache kube node sandbox)

test-stress: .venv/dev ## The tests while other processes keep every processor busy; finds tests that need a fast machine.
	$(BIN)/python scripts/under_load.py $(BIN)/python scripts/test_parts.py $(STRESS)
STRESS ?= unit integration extended

test-collection: .venv/dev ## The unit tests that are shipped, as ansible-test runs them on the tarball.
	$(BIN)/python scripts/collection_gate.py units

test-cuts: .venv/dev ## The playbooks on three control-plane hosts, ended after every single change.
	$(BIN)/accelkit sandbox build
	CUT_OFF_EVERYWHERE=1 $(BIN)/pytest --tiers core,long tests/integration/test_control_plane_hosts.py

storm: .venv/dev ## One storm on the fault laboratory with a new seed, printed first. STORM has its options.
	$(BIN)/accelkit sandbox build
	$(BIN)/python tests/faults/storms.py $(STORM)

storms: .venv/dev ## Storms one after the other, until one is violated. STORMS has options: --storms 100 --seconds 20, --seed 7…
	$(BIN)/accelkit sandbox build
	$(BIN)/python tests/faults/storms.py $(STORMS)

bursts: .venv/demo ## Bursts of pods on the cluster of `make demo`, judged 45 s after the last bind. BURSTS has options: --times 1, --pause etcd…
	$(BIN)/python tests/faults/bursts.py $(BURSTS)

playbooks: .venv/demo ## site.yml killed and run twice at once amid pods, on the cluster of `make demo`. PLAYBOOKS has options: --seed 7…
	$(BIN)/python tests/faults/playbooks.py $(PLAYBOOKS)

forms: .venv/dev ## kube-scheduler under a real systemd, and in services configured as k3s and RKE2 are. Needs Docker.
	$(BIN)/accelkit sandbox build
	SERVICE_MANAGERS=1 $(BIN)/pytest tests/integration/test_service_managers.py

many-caches: .venv/dev ## 200 kernel caches at once, for the controller, its webhook, and an agent. Minutes.
	$(BIN)/accelkit sandbox build
	ACCELKIT_CACHES=200 $(BIN)/pytest -k many_caches tests/integration

e2e: .venv/dev ## The whole product on a real kind cluster, by molecule. Twenty minutes; needs Docker and kind.
	$(BIN)/python scripts/e2e.py

e2e-kernel-cache: .venv/dev ## Kernel caches on a kind cluster: all examples, trouble, removal. Needs cosign and a registry too.
	$(BIN)/python scripts/e2e.py kernel_cache

kernel-cache-matrix: .venv/dev ## Kernel caches by each delivery on kind nodes that differ, with the caches of frameworks. MATRIX names cases.
	$(BIN)/python scripts/kernel_cache_matrix.py $(MATRIX)

triton-lookup: .venv/dev ## Triton's own lookup on caches that were extracted. Installs it beside, 290 MB from the package index.
	test -x build/triton/bin/python || $(PYTHON) -m venv build/triton
	build/triton/bin/pip install --quiet --disable-pip-version-check --no-deps $(TRITON)
	ACCELKIT_TRITON_PYTHON=build/triton/bin/python $(BIN)/pytest tests/integration/test_triton_lookup.py
TRITON ?= triton==3.9.0

roads: .venv/dev ## The roads to an installation, as shipped, each on a new kind cluster. ROADS names some of them.
	$(BIN)/python scripts/roads.py $(ROADS)

deploy-examples-kind: .venv/demo ## Apply the example caches and their workloads to a cluster made by kind.
	$(BIN)/accelkit examples deploy kind --output output

undeploy-examples-kind: .venv/demo ## Take them away again.
	$(BIN)/accelkit examples undeploy kind

deploy-examples-nfd-cuda: .venv/demo ## Apply the example caches and their workloads to a cluster with NVIDIA cards and Node Feature Discovery.
	$(BIN)/accelkit examples deploy nfd-cuda --output output

undeploy-examples-nfd-cuda: .venv/demo ## Take them away again.
	$(BIN)/accelkit examples undeploy nfd-cuda

deploy-examples-nfd-rocm: .venv/demo ## Apply the example caches and their workloads to a cluster with AMD cards and Node Feature Discovery.
	$(BIN)/accelkit examples deploy nfd-rocm --output output

undeploy-examples-nfd-rocm: .venv/demo ## Take them away again.
	$(BIN)/accelkit examples undeploy nfd-rocm

example-images: .venv/dev ## The images that they name, made, signed and pushed to a registry of your own. IMAGES has its options.
	@$(BIN)/python scripts/cache_example_images.py $(IMAGES)

lint: .venv/dev ## Formatting, ruff, mypy, import contracts, dependencies, dead code, prose, Ansible's own checks, side by side.
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

format: .venv/dev ## Rewrite the Python files as the linter wants them.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/dev ## Speed and memory as ratios, JSON in build/bench; a table of figures and aims. BENCH names some of them.
	$(BIN)/python bench/run_all.py $(BENCH)

plots: .venv/dev ## Draw the results of `make bench`, into build/bench.
	$(BIN)/python bench/plots.py build/bench build/bench

mutants: .venv/dev ## Change the code a little, and count how many of the changes the unit tests notice.
	$(BIN)/python scripts/mutants.py

fuzz: .venv/dev ## A million hostile objects of each kind for the extender and the node agent. FUZZ has its options.
	$(BIN)/python scripts/fuzz.py $(FUZZ)

build: .venv/dev ## Wheel and collection tarball, into dist/.
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/ansible-galaxy collection build --force --output-path dist

# Without intersphinx, which asks other sites, references into Ansible's own documents cannot be resolved.
docs: .venv/dev ## The docsite of the collection, as HTML, into build/docsite/html.
	rm -rf build/docsite && mkdir -p build/docsite
	$(BIN)/antsibull-docs sphinx-init $(DOCSITE) --lenient --sphinx-theme alabaster --dest-dir build/docsite
	chmod og-w build/docsite/rst
	$(BIN)/antsibull-docs --config-file build/docsite/antsibull-docs.cfg collection $(DOCSITE) --dest-dir build/docsite/rst
	$(BIN)/sphinx-build -q -W --keep-going -D pygments_style=default -D extensions=sphinx_antsibull_ext \
		-D suppress_warnings=ref.ref -c build/docsite build/docsite/rst build/docsite/html
DOCSITE := --use-current --squash-hierarchy accelkit.kubernetes

release: .venv/dev ## Wheels, collections, image, bills of materials and checksums in one folder, installed from there.
	$(BIN)/python scripts/release.py $(RELEASE)

lock: ## Resolve the dependencies anew, into the lock files.
	$(PYTHON) -m venv .venv && $(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --upgrade $(LOCK) $(LOCKED:%=--extra %) -o requirements-dev.lock pyproject.toml
	$(BIN)/uv pip compile --upgrade $(LOCK) --extra ansible-core -c requirements-dev.lock -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile --upgrade $(LOCK) --fork-strategy fewest -o $(LOCK_OF_IMAGE) pyproject.toml
	$(BIN)/uv pip compile --upgrade $(LOCK) --group pyproject.toml:importer -o requirements-importer.lock
# One version of each for every Python, since what downloads them is not the Python of the image.
LOCK_OF_IMAGE := roles/images/files/requirements.lock
# All extras but `ansible`, of which scripts/fetch_collections.py takes what is needed.
LOCKED := ansible-core kubeconfig openshift test lint release bench dashboards
LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	--no-emit-index-url --no-emit-find-links

proto: .venv/dev ## Generate the messages of the kubelet's interfaces anew.
	$(BIN)/python scripts/generate_proto.py

clean: ## Delete what was built and installed here.
	rm -rf .venv .cache $(addprefix collections/ansible_collections/,awx community kubernetes) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The lock files name hashes, so what is installed is what was tested. They name all there is: pip shall not resolve anew, for
# that finds newer releases of what is wanted with and without an extra (pydantic and pydantic[email]), which have no hash.
.venv/demo: requirements.lock pyproject.toml galaxy.yml
	@echo "Preparing a Python environment in .venv (once, about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "accelkit needs Python 3.11 or newer; name one with PYTHON=/path/to/python3"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || \
		{ echo "Python cannot make environments here; on Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	@$(BIN)/python scripts/fetch_collections.py
	@touch $@

.venv/dev: requirements-dev.lock .venv/demo
	@echo "Adding the tools for tests and checks (once, about a minute)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.lock
	@touch $@
