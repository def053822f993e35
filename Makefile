# Every target works in a fresh clone: it makes its own virtual environment and reuses it the next time.
PYTHON ?= python3
VENV   := .venv
ORACLE := .venv-oracle
PEERS  := .venv-oracle-peers
BIN    := $(VENV)/bin
PIP    := -m pip --disable-pip-version-check install --quiet
DEMO   := build/demo

.PHONY: help demo test pages docs mutants lint format bench oracle eras oracle-venv oracle-torch oracle-peers clean
.DELETE_ON_ERROR:

# Images of containers set it. Hundreds of tests start a process, and each would compile all modules anew, which is
# half of the time that all of them take.
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo "make demo     optimize the bundled digits model and show what it gained"
	@echo "make test     run the tests"
	@echo "make mutants  change the sources one thing at a time, and see whether a test notices"
	@echo "make lint     ruff and mypy"
	@echo "make format   rewrite the sources the way lint wants them"
	@echo "make pages    bundle the scripts of the pages again, after a change (needs Node.js)"
	@echo "make docs     the documentation as a static folder, build/site, with its links checked"
	@echo "make bench    measure speed, size and memory"
	@echo "make oracle   run the tests that compare with a real TensorFlow (large download)"
	@echo "make oracle-torch  add PyTorch to what those tests compare with (large, too)"
	@echo "make oracle-peers  install the quantizers that 'python -m benchmarks ptq' compares with (some 5 GB)"
	@echo "make eras     drive every verb over small networks of all eras beside a real TensorFlow"
	@echo "make clean    delete the virtual environments and everything that was built"

# A new pip first: the one that ships with an old python3 cannot install an editable pyproject.toml package.
$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --upgrade pip
	@touch $@

$(VENV)/.core: pyproject.toml $(VENV)/.made
	$(BIN)/python $(PIP) --editable ".[image]"
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.made
	$(BIN)/python $(PIP) --editable ".[test,image,onnx,coreml,openvino,pack,cluster]"
	@touch $@ $(VENV)/.core

$(VENV)/.mutants: pyproject.toml $(VENV)/.made
	$(BIN)/python $(PIP) --editable ".[mutants,image,onnx,pack,cluster]"
	@touch $@ $(VENV)/.core $(VENV)/.test

$(VENV)/.docs: pyproject.toml $(VENV)/.made
	$(BIN)/python $(PIP) --editable ".[docs]"
	@touch $@ $(VENV)/.core

$(VENV)/.bench: pyproject.toml $(VENV)/.made
	$(BIN)/python $(PIP) --editable ".[bench,image]"
	@touch $@ $(VENV)/.core

$(ORACLE)/.made: pyproject.toml
	test -x $(ORACLE)/bin/python || $(PYTHON) -m venv $(ORACLE)
	$(ORACLE)/bin/python $(PIP) --upgrade pip
	$(ORACLE)/bin/python $(PIP) --editable ".[test,image,oracle,explorer]"
	@touch $@

# Installing bundles them, too; where Node.js is missing, pages are not to be had and all else is.
pages:
	$(PYTHON) scripts/build_pages.py --check

demo: $(VENV)/.core
	@mkdir -p $(DEMO)
	$(BIN)/thinflow sample digits $(DEMO)/digits.pb --calibration $(DEMO)/calibration.npz --test $(DEMO)/test.npz
	$(BIN)/thinflow optimize $(DEMO)/digits.pb $(DEMO)/out --calibration $(DEMO)/calibration.npz --test $(DEMO)/test.npz

# ARGS goes to pytest: make test ARGS="tests/ir -x". A worker for each core, a file to one of them; make test WORKERS=0 keeps to one process.
WORKERS ?= auto
test: $(VENV)/.test
	@$(PYTHON) scripts/build_pages.py
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile $(ARGS)

# A warning, such as of a link that leads nowhere, is an error.
docs: $(VENV)/.docs
	@$(PYTHON) scripts/build_pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The tests of what changed since BASE, or of FILES, are tested; for the night, as each file takes minutes.
BASE  ?= origin/main
FILES ?=
mutants: $(VENV)/.mutants
	$(BIN)/python scripts/mutants.py --base $(BASE) $(ARGS) $(FILES)

lint: $(VENV)/.test
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy --no-error-summary
	$(PYTHON) scripts/build_pages.py --check

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks $(ARGS)

oracle-venv: $(ORACLE)/.made

# PyTorch for those tests that compare with it; without it they are skipped. Say TORCH= for another build of it.
TORCH ?= torch==2.13.0 onnxscript
oracle-torch: $(ORACLE)/.torch
$(ORACLE)/.torch: $(ORACLE)/.made
	$(ORACLE)/bin/python $(PIP) $(TORCH)
	@touch $@

# Other quantizers, in a Python of their own: each wants its own ONNX and NumPy. Where one has no wheel, leave it out of QUANTIZERS.
QUANTIZERS ?= tensorflow-cpu==2.21.0 onnx onnxruntime ai-edge-litert ai-edge-quantizer nncf aimet-onnx
oracle-peers: $(PEERS)/.made
$(PEERS)/.made:
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(PIP) --upgrade pip
	$(PEERS)/bin/python $(PIP) $(QUANTIZERS)
	@touch $@

# TensorFlow warns while it is imported; -W keeps those warnings from being errors as they are elsewhere.
oracle: $(ORACLE)/.made
	TF_CPP_MIN_LOG_LEVEL=2 CUDA_VISIBLE_DEVICES= $(ORACLE)/bin/python -m pytest -q -W default -n $(WORKERS) --dist loadfile tests/oracle $(ARGS)

# ARGS names models and steps: make eras ARGS="--only 'k3_*' --reasons"
eras: $(ORACLE)/.made
	TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES= $(ORACLE)/bin/python -m scripts.eras --cache build/eras --jobs 2 $(ARGS)

clean:
	rm -rf $(VENV) $(ORACLE) $(PEERS) .venv-peers build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf pages/node_modules src/thinflow/pages/static
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
