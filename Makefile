# `make` lists the targets. Each of them sets up what it needs in $(VENV) by itself, once.

PYTHON ?= python3
PYTEST_ARGS ?= -q -n 2

VENV := .venv
comma := ,
BIN := $(VENV)/bin
MADE := $(VENV)/.stamp-venv
RUN := $(VENV)/.stamp-run
TEST := $(VENV)/.stamp-test
DOCS := $(VENV)/.stamp-docs

# A sourced ROS installation brings rclpy and the messages itself: let the environment see them.
VENV_ARGS := $(if $(ROS_DISTRO),--system-site-packages)

# A PYTHON that was asked for replaces an environment made with another one.
ifneq ($(origin PYTHON),file)
ifneq ($(PYTHON),$(shell cat $(MADE) 2>/dev/null))
.PHONY: $(MADE)
endif
endif

.PHONY: help setup test test-slow coverage demo docs bench robustness planner-bars lint clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile
	@echo "  PYTHON=python3.12 chooses the interpreter (3.10 to 3.13)"
	@echo "  DEMO_ARGS='--scenario aerial' chooses what the demo shows"

setup: $(RUN) ## install the package and what it needs to run into .venv

demo: $(RUN) ## watch a simulated robot and the suite at work; results go to demo/
	$(BIN)/vm_dynamics demo $(DEMO_ARGS)

# Kernels are compiled before, on all cores: processes of the tests would compile the same ones.
test: $(TEST) ## run the quick tests
	$(BIN)/vm_dynamics warmup
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not slow"

# What counts samples or real time runs one by one. pytest's exit code 5: there are none.
test-slow: $(TEST) ## run the slow tests
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "slow and not alone" || [ $$? -eq 5 ]
	$(BIN)/python -m pytest $(PYTEST_ARGS) -n 0 -m "slow and alone" || [ $$? -eq 5 ]

# Kernels run compiled, where no tracer sees them: .coveragerc leaves them out.
coverage: $(TEST) ## measure what the quick tests reach, as a table and in build/coverage
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not slow" --cov --cov-report=term --cov-report=html

docs: $(DOCS) ## build the pages and the API as HTML, in build/docs; fails on warnings
	$(BIN)/python docs/build.py

bench: $(TEST) ## measure speed against the reference libraries, into bench/results.md
	$(BIN)/python -m pip install --quiet dynibo==0.5.2
	$(BIN)/python bench/run.py

robustness: $(TEST) ## measure what wrong models do, the table of docs/robustness.md; takes minutes
	$(BIN)/python test/robustness.py

planner-bars: $(TEST) ## plan and execute random turns, the table of docs/locomotion.md; takes an hour
	$(BIN)/python test/planner_bars.py

lint: $(TEST) ## check style, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build install log *.egg-info .coverage .coverage.* .hypothesis \
	  .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "vm_dynamics needs Python 3.10 to 3.13, $(PYTHON) is $$($(PYTHON) -V 2>&1);" \
	    "choose another: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV_ARGS) $(VENV)
	@echo $(PYTHON) > $@

# A sourced ROS has its own rclpy; elsewhere wheels bring it.
RUN_EXTRAS := plot$(comma)sim$(if $(ROS_DISTRO),,$(comma)ros)

$(RUN): $(MADE) setup.py setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[$(RUN_EXTRAS)]'
	@touch $@

$(TEST): $(RUN) requirements-test.txt
	$(BIN)/python -m pip install --quiet --editable '.[$(RUN_EXTRAS),test]' --requirement requirements-test.txt
	@touch $@

$(DOCS): $(RUN) requirements-docs.txt
	$(BIN)/python -m pip install --quiet --requirement requirements-docs.txt
	@touch $@
