PYTHON ?= python
SOURCES = gg_datalog engine extract readers replay tracing tests bench examples

N ?= 1000

.PHONY: check format-check lint types tests fuzz format docs

check: format-check lint types tests

format-check:
	$(PYTHON) -m ruff format --check $(SOURCES)

lint:
	$(PYTHON) -m ruff check $(SOURCES)

# mypy follows folders, not the mapping of pyproject.toml: give it the tree that gets installed.
types:
	rm -rf build/types
	mkdir -p build/types
	cp -R gg_datalog build/types/gg_datalog
	cp -R datalog engine extract queries readers replay tracing build/types/gg_datalog/
	cd build/types && $(PYTHON) -m mypy --config-file ../../pyproject.toml -p gg_datalog

tests:
	$(PYTHON) -m pytest

# Random programs, executed: `make fuzz N=5000` for more of them.
fuzz:
	$(PYTHON) tests/numeric/sweep.py --programs $(N) --coverage

format:
	$(PYTHON) -m ruff check --fix $(SOURCES)
	$(PYTHON) -m ruff format $(SOURCES)

docs:
	$(PYTHON) -m gg_datalog.documentation > docs/relations.md
	$(PYTHON) -m gg_datalog.pages > docs/findings.md
