# The ways into nodevet: `make help` lists them. Everything rests on `make setup`, which is quick when there is nothing to do.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test test-bare test-slurm-matrix check lint types format bench lock clean
SHELL := /bin/sh

TORCH ?= 1
PYTEST_ARGS ?=
PACKAGES ?= 0
export TORCH
unexport PACKAGES

py := .venv/bin/python
# Tests wait more than they work, so four at once suit two cores; a file's tests stay together with their cluster.
WORKERS ?= 4
spread := $(if $(filter-out 0 1,$(WORKERS)),-n $(WORKERS) --dist loadfile)
not_torch := $(if $(filter 0,$(TORCH)), and not torch)

help: ## list the targets (default)
	@sed -n 's/^\([a-z-]*\):.*## /    make \1\t/p' Makefile | expand -t 28
	@echo "Variables: TORCH=0 (no torch, and none of its tests), WORKERS=1 (one test at a time), PYTEST_ARGS='-k gate -x', PACKAGES=1 (with clean), NODEVET_ANYWAY=1."

setup: ## everything needed to run and test: Debian packages, .venv, torch (TORCH=0 leaves torch out)
	@sh deploy/setup/setup.sh

demo: ## a real Slurm cluster of four simulated GPU nodes, vetted; stays up until Ctrl-C
	@TORCH=0 sh deploy/setup/setup.sh
	@.venv/bin/nodevet sim demo

test: setup lint types ## every test, the real-Slurm and the torch ring included
	@echo "== pytest: every ring$(if $(not_torch), but torch (TORCH=0))"
	@$(py) -m pytest $(spread) -m "not alone$(not_torch)" $(PYTEST_ARGS)
	@echo "== pytest: what needs a process without threads"
	@$(py) -m pytest -m "alone" $(PYTEST_ARGS) || [ $$? = 5 ] # 5: PYTEST_ARGS chose none of these

check: ## what a change needs before it is proposed: lint, types and the tests without Slurm and torch
	@TORCH=0 sh deploy/setup/setup.sh
	@$(MAKE) --no-print-directory lint types
	@$(py) -m pytest $(spread) -m "not alone and not cluster and not torch" $(PYTEST_ARGS)
	@$(py) -m pytest -m "alone" $(PYTEST_ARGS) || [ $$? = 5 ] # 5: PYTEST_ARGS chose none of these

lint: ## ruff, after set-up
	@echo "== ruff"
	@$(py) -m ruff check .

types: ## mypy --strict, after set-up
	@echo "== mypy"
	@$(py) -m mypy

format: ## let ruff sort imports and format, after set-up
	@$(py) -m ruff check --fix-only --select I .
	@$(py) -m ruff format .

bench: ## the benchmarks, with their ratios side by side
	@TORCH=0 sh deploy/setup/setup.sh
	@$(py) -m benchmarks

test-bare: ## set-up and every test in a bare Debian 12 made for it and removed after (needs root)
	@sh deploy/setup/bare.sh

test-slurm-matrix: ## the real-Slurm ring against Slurm 24.11 and 26.05, each in a Debian made for it and removed after (needs root)
	@sh deploy/setup/matrix.sh

lock: ## choose versions anew for deploy/setup/*.lock
	@sh deploy/setup/lock.sh

clean: ## undo set-up: .venv and build outputs; PACKAGES=1 also removes the Debian packages it installed
	@PACKAGES_TOO=$(PACKAGES) sh deploy/setup/clean.sh
