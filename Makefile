# Two commands are enough: `make demo` and `make test`. Both make .venv at first and are quick afterwards.

PY := .venv/bin/python
# One module `faiss`, two packages: the one for this machine, and the one that must not be there.
HERE := $(shell nvidia-smi -L >/dev/null 2>&1 && echo gpu || echo cpu)
ELSEWHERE := $(if $(filter gpu,$(HERE)),cpu,gpu)
RUNS := .venv/installed-$(HERE)-to-run
TESTS := .venv/installed-$(HERE)-to-test
SITE := .venv/installed-$(HERE)-to-document
# Tools that look at dependencies, in an environment of their own: they are no dependency of al_ray.
TOOLS := .cache/tools/bin
# torch and what its CUDA build brings: a machine has one build of several (docs/dependencies.md).
TORCH := torch triton cuda-bindings cuda-pathfinder cuda-toolkit $(addprefix nvidia-,cublas cuda-cupti cuda-nvrtc cuda-runtime \
  cudnn-cu13 cufft cufile curand cusolver cusparse cusparselt-cu13 nccl-cu13 nvjitlink nvshmem-cu13 nvtx)
comma := ,
# Files of tests that run at a time, each on its own Ray; 0 for one process.
FILES ?= 2

export HF_HUB_OFFLINE ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The checker that the package carries, not a newer one from a registry.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: help demo test check lint types more faults slow long fuzz soak gpu gputests docs hashes sbom clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    install, and watch active learning find rare pairs (2 to 4 minutes on 2 cores, no GPU needed)"
	@echo "make test    install, and run what a change most probably breaks: format, lint, tests (FILES=4: so many files of"
	@echo "             them at a time)"
	@echo "make check   all that .ci/run runs: make docs types test more faults"
	@echo "make more    the tests that repeat others on Ray or in other processes"
	@echo "make lint    format and lint without the tests"
	@echo "make types   pyright over the whole tree: minutes"
	@echo "make faults  the tests that kill processes and nodes"
	@echo "make slow    the tests that take minutes; .ci/run does not run them"
	@echo "make long    more tests that kill processes and nodes, of minutes each; .ci/run does not run them"
	@echo "make fuzz INPUTS=100000  damaged files to everything that reads files of others; FIRST=100000: other ones"
	@echo "make soak MINUTES=120  runs on a small cluster whose processes, nodes and stores fail at random; SEED=1: other faults"
	@echo "make gpu     measure and check the GPU of this machine with its python3, which needs torch 2.11 and transformers:"
	@echo "             installs nothing, takes up to 10 minutes, writes gpu.json"
	@echo "make gputests  install, and run the tests that need a CUDA device"
	@echo "make docs    the site of docs/ in site/; a broken link is an error"
	@echo "make hashes  renew requirements.txt: the pins of constraints.txt that al_ray runs with, with the hashes of their files"
	@echo "make sbom    the packages of .venv with licences: sbom.json (CycloneDX) and licences.md in .cache/"
	@echo "make clean   remove .venv and caches; runs and tasks stay"
	@echo "PYTHON=/path/to/python make ...   takes that Python (3.11 or later) for .venv"

demo: $(RUNS)
	$(PY) -m jobs.demo

check: docs types test more faults

test: lint
	$(PY) -m pytest -n $(FILES) --dist loadfile

lint: $(TESTS)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .

types: $(TESTS)
	$(PY) -m pyright --pythonpath $(PY)

# A test with several marks runs with those of the longest.
MARKED_more := more and not faults and not slow and not long
MARKED_faults := faults and not long
MARKED_slow := slow and not long
MARKED_long := long

# Nothing is installed: machines with a GPU often have no registry, and their torch is the one for their driver.
gpu:
	@[ $(HERE) = gpu ] || { echo "nvidia-smi -L lists no GPU here; python benchmarks/gpu.py --device cpu:0 checks the script alone" >&2; exit 1; }
	python3 benchmarks/gpu.py --out gpu.json

gputests: $(TESTS)
	$(PY) -m pytest -m gpu

more faults slow long: $(TESTS)
	$(PY) -m pytest -m "$(MARKED_$@)" \
	  $(if $(filter long,$@),-o faulthandler_timeout=1800,-n $(FILES) --dist loadfile)

# Finished parts are kept in .fuzz, so that the same command continues after a stop.
INPUTS ?= 10000
FIRST ?= 0
fuzz: $(TESTS)
	$(PY) -m tests.fuzz --inputs $(INPUTS) --first $(FIRST) --jobs $(FILES)

# The trials that ended are kept in .soak, so that the same command continues after a stop.
MINUTES ?= 10
SEED ?= 0
soak: $(TESTS)
	$(PY) -m tests.soak --minutes $(MINUTES) --seed $(SEED)

# Zensical reads mkdocs.yml and the docstrings as text; al_ray itself is not imported.
docs: $(SITE)
	.venv/bin/zensical build --clean --strict

$(TOOLS)/uv: | $(PY)
	$(PY) -m venv .cache/tools
	$(TOOLS)/pip install --quiet --constraint constraints.txt cyclonedx-bom==7.5.0 pip-licenses==5.5.5 uv==0.13.9

hashes: $(TOOLS)/uv
	$(TOOLS)/uv pip compile --quiet pyproject.toml --constraint constraints.txt --python-version 3.11 \
	  --python-platform x86_64-manylinux_2_28 $(addprefix --extra ,annotate cpu delta demo llm onnx serve sql) \
	  $(addprefix --no-emit-package ,$(TORCH)) --generate-hashes --no-annotate --custom-compile-command 'make hashes' \
	  --output-file requirements.txt

sbom: $(TOOLS)/uv $(RUNS)
	$(TOOLS)/cyclonedx-py environment $(PY) --pyproject pyproject.toml --output-format JSON --output-file .cache/sbom.json
	$(TOOLS)/pip-licenses --python=$(PY) --format=markdown --output-file=.cache/licences.md

# 3.11 comes first, for it is what constraints.txt was made with and what the cluster's image holds. A candidate must start,
# be new enough, and be able to make an environment with pip in it (Debian packs that apart, as python3-venv).
$(PY):
	@for python in "$(PYTHON)" python3.11 python3.12 python3.13 python3 python; do \
	  [ -n "$$python" ] || continue; \
	  "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  echo "making .venv with $$python: $$("$$python" --version)"; \
	  exec "$$python" -m venv --clear .venv; \
	done; \
	echo "no Python >= 3.11 with venv found; install one (on Debian also python3-venv), or: PYTHON=/path/to/python make ..." >&2; \
	exit 1

# $(call install,EXTRAS): the two Faiss packages overwrite each other's files, so a machine that changed its kind starts over.
define install
	@rm -f .venv/installed-$(ELSEWHERE)-*
	@if $(PY) -m pip show -q faiss-$(ELSEWHERE) 2>/dev/null; then $(PY) -m pip uninstall -q -y faiss-cpu faiss-gpu; fi
	@echo "installing [$(1)]: minutes the first time"
	$(PY) -m pip install --quiet --constraint constraints.txt --editable '.[$(1)]'
	@touch $@
endef

$(RUNS): pyproject.toml constraints.txt | $(PY)
	$(call install,$(HERE)$(comma)annotate$(comma)demo)

$(TESTS): pyproject.toml constraints.txt | $(PY)
	$(call install,$(HERE)$(comma)annotate$(comma)demo$(comma)onnx$(comma)llm$(comma)serve$(comma)test$(comma)dev)
	@touch $(RUNS)

$(SITE): pyproject.toml constraints.txt | $(PY)
	$(call install,$(HERE)$(comma)demo$(comma)docs)
	@touch $(RUNS)

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build site .cache
	find al_ray benchmarks jobs studies tests -name __pycache__ -type d -prune -exec rm -rf {} +
