# On a fresh machine, `make eval BENCH=mbpp` and `make test` install everything that they need.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Developers' tools are half of all packages, so that only the targets that use them install them.
TOOLS := $(VENV)/.tools
# The first Python that is new enough. It is evaluated only to create the virtual environment.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  && echo $$python && break; done)

# Only the command line sets these, because the variables MODEL and DATA may have another meaning in the shell.
BENCH :=
AGENT :=
MODEL :=
N :=
DATA :=
ARGS :=
SECONDS :=
WORKERS :=
RUNTIME :=
BACKEND :=

# The extras that `make setup` installs.
EXTRAS := mcp,otlp,serve,client

# Install packages. uv needs a tenth of pip's time, but it reads no settings of pip, such as a company's index.
# Older versions of pip lack --group.
define install
{ ! $(BIN)/python -m pip config list | grep -Eq '[.](index-url|no-index)=' \
  && { test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet 'uv>=0.9' 2>/dev/null; } \
  && UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(BIN)/python $(1); } \
|| { $(BIN)/python -m pip install --quiet 'pip>=25.1' && $(BIN)/python -m pip install --quiet $(1); }
endef

.DEFAULT_GOAL := help
.PHONY: help setup eval browser test test-unit coverage docs lint lock keywords bench measure calibrate fuzz chaos soak mutants test-vm clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile
	@echo 'Variables of eval: BENCH=mbpp [AGENT=oracle] [MODEL=name] [N=10] [DATA=path]'
	@echo '                   [RUNTIME=runsc] [BACKEND=oci] [ARGS="--seed 1"]'
	@echo 'Make exits with 2 after every failure and prints the exit code of harness; in CI, call harness itself.'

# BENCH=mbpp builds only the images of that benchmark. RUNTIME=runsc adds gVisor. BACKEND=oci needs no engine.
setup: $(STAMP) ## install package, Docker and images: make setup [BENCH=mbpp] [RUNTIME=runsc]
	@$(BIN)/harness setup $(if $(RUNTIME),--runtime $(RUNTIME)) $(if $(BENCH),--benchmark $(BENCH)) \
	  $(if $(BACKEND),--backend $(BACKEND))

eval: ## run a benchmark: make eval BENCH=mbpp
	@test -n "$(BENCH)" || { echo 'error: BENCH is missing; run: make eval BENCH=mbpp' >&2; exit 2; }
	@$(if $(filter-out hub bundled,$(DATA)),test -e "$(DATA)" || { echo 'error: DATA=$(DATA): no such file' >&2; \
	  echo 'hint: name a file in the published format or hub or bundled' >&2; exit 2; })
	@$(if $(MODEL),$(if $(findstring --base-url,$(ARGS))$(findstring -c,$(ARGS)),,test -n \
	  "$$OPENAI_API_KEY$$OPENAI_BASE_URL$$ANTHROPIC_API_KEY" || { echo 'error: MODEL=$(MODEL) has no server' >&2; \
	  echo 'hint: set OPENAI_BASE_URL to your server or OPENAI_API_KEY to your key' >&2; exit 2; }))
	@$(MAKE) --no-print-directory setup
	@$(BIN)/harness run -b $(BENCH) --agent $(or $(AGENT),$(if $(MODEL),chat,oracle)) \
	  $(if $(MODEL),--model $(MODEL)) $(if $(N),-n $(N)) $(if $(DATA),--data $(DATA)) \
	  $(if $(RUNTIME),--runtime $(RUNTIME)) $(if $(BACKEND),--backend $(BACKEND)) $(ARGS)

# The tests start the command a few hundred times. Without bytecode every start would compile the package.
test test-unit: export PYTHONDONTWRITEBYTECODE :=

# The tests open the HTML report and the viewer in the Chromium of the system. Without one they are skipped.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo 'environment: installing chromium' \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	  apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || echo 'note: no Chromium, so no test opens the HTML report or the viewer (Debian: sudo apt-get install chromium)'

# Pytest rewrites the asserts of each test file once. On a fresh clone every worker would do it for itself.
define warm
@test -d tests/unit/__pycache__ || { echo 'tests: compiling'; \
  $(BIN)/python -m pytest --collect-only -q tests/unit >/dev/null & \
  $(BIN)/python -m pytest --collect-only -q tests --ignore tests/unit >/dev/null; wait; }
endef

# Group tests by file, because the tests of one file share containers and runs. tests/conftest.py orders the
# files, the longest first. There are more workers than cores, because many tests wait for a time limit or for
# Docker. The unit tests do not wait. They come last, and fill the time in which others do.
# A test that failed beside five others runs once more, alone. Both outcomes are printed. This tells a machine that was
# taken away for a moment from a defect. More than ten such tests are not weather, so the first failure then ends it.
test: $(TOOLS) setup browser ## run all tests: make test [WORKERS=6] [ARGS="-k name"]
	$(warm)
	@$(BIN)/python -m pytest $(if $(findstring no:xdist,$(ARGS)),,-n $(or $(WORKERS),6) \
	  --dist loadfile --no-loadscope-reorder) $(ARGS) || { test $$? = 1 || exit 2; \
	echo 'tests: what failed runs once more, alone'; lost=$$(wc -l <.pytest_cache/v/cache/lastfailed); \
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none -p no:xdist -q \
	  $$(test $$lost -le 12 || echo -x) $(ARGS); }

# Each worker begins with a half of the files, so that both rarely load the same data and libraries.
test-unit: $(TOOLS) ## run the tests that need no engine: make test-unit [ARGS="-k name"]
	$(warm)
	$(BIN)/python -m pytest tests/unit \
	  $(if $(findstring no:xdist,$(ARGS)),,-n $(or $(WORKERS),2) --dist worksteal) $(ARGS)

coverage: $(TOOLS) ## measure branch coverage: make coverage [ARGS="-k name"]
	$(BIN)/coverage run -m pytest tests/unit -q -p no:xdist $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: $(TOOLS) ## run ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict harness tests examples
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python tests/measure/measure.py --check

keywords: $(TOOLS) ## write the types of the keywords of `harness.run`, after a change of a setting
	PYTHONPATH=tests $(BIN)/python tests/keyword_types.py

# This takes the newest versions, so run the tests with them before you commit the file.
lock: ## renew constraints.txt and images/lock.json, the versions of packages
	@rm -rf .lock
	@$(or $(PYTHON),python3) -m venv .lock
	@.lock/bin/python -m pip install --quiet 'pip>=25.1'
	@.lock/bin/python -m pip install --quiet --editable '.[$(EXTRAS)]' --group dev
	@{ echo '# The versions with which the tests passed. `make lock` renews them.'; \
	  .lock/bin/python -m pip freeze --exclude-editable; } > constraints.txt
	@rm -rf .lock
	@$(BIN)/harness images verify --update

docs: $(STAMP) ## build the site of the documentation in site/, and check its links
	@$(call install,--group docs --constraint constraints.txt)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --site-dir site

bench: $(TOOLS) setup ## measure the cost of isolation: make bench [ARGS="--quick -o FILE"]
	$(BIN)/python tests/perf/bench.py $(ARGS)

measure: setup ## measure the size and the shape of the project: make measure [ARGS="--no-walks"]
	@$(BIN)/python tests/measure/measure.py $(ARGS)

calibrate: $(TOOLS) setup ## attack other graders: make calibrate [ARGS="--peer evalplus"]
	$(BIN)/python tests/calibration/calibrate.py $(ARGS)

chaos: $(TOOLS) setup ## kill at random during runs: make chaos [SECONDS=300] [ARGS="--seed 1"]
	$(BIN)/python tests/chaos/chaos.py --seconds $(or $(SECONDS),300) $(ARGS)

soak: $(TOOLS) setup ## kill a service under load for an hour: make soak [SECONDS=3600] [ARGS="-o docs/soak.md"]
	$(BIN)/python tests/chaos/soak.py --seconds $(or $(SECONDS),3600) $(ARGS)

mutants: $(TOOLS) ## check that tests notice broken lines: make mutants [ARGS="word"]
	$(BIN)/python tests/mutants/run.py $(ARGS)

# This takes an hour or more where KVM does not work, so it is no part of `make test`.
test-vm: setup ## try Debian machines under QEMU: make test-vm [ARGS="bookworm-docker --step doctor"]
	@command -v mmdebstrap >/dev/null && command -v qemu-system-x86_64 >/dev/null \
	  || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	  apt-get install -y -qq --no-install-recommends mmdebstrap qemu-system-x86 e2fsprogs >/dev/null; }
	$(BIN)/python tests/machines/machines.py $(ARGS)

fuzz: $(TOOLS) ## fuzz the decoders of hostile bytes: make fuzz [SECONDS=60]
	@$(call install,--group fuzz)
	@mkdir -p .fuzz
	@for target in frames values exceptions answers; do echo "fuzz: $$target, $(or $(SECONDS),60) s"; \
	  $(BIN)/python tests/fuzz/decoders.py $$target -max_total_time=$(or $(SECONDS),60) -timeout=10 \
	    -rss_limit_mb=2048 -verbosity=0 -artifact_prefix=.fuzz/ || exit 1; done

clean: ## remove generated files, but no images (see harness images prune)
	rm -rf $(VENV) .calibration .fuzz .machines .readers build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* .lock
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# These run again only if a dependency or its version changes.
$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo 'environment: installing the packages that a run needs'
	@$(call install,--editable '.[$(EXTRAS)]' --constraint constraints.txt)
	@touch $@

$(TOOLS): $(STAMP)
	@echo 'environment: installing the tools of developers'
	@$(call install,--compile --group dev --constraint constraints.txt)
	@touch $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	  && echo 'environment: installing python3-venv' && apt-get update -qq \
	  && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null; } \
	  || { echo 'error: no Python 3.11 or newer with the modules venv and ensurepip' >&2; \
	    echo 'hint: install one (Debian/Ubuntu: sudo apt-get install python3-venv) or run make PYTHON=...' >&2; exit 2; }
	@$(or $(PYTHON),python3) -m venv $(VENV)
