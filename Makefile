PYTHON ?= python
SOURCES = gg_datalog engine extract tests bench examples

N ?= 1000

OP ?= *
SEED ?= 0

.PHONY: check format-check lint types contracts tests exhaustive fuzz oracle format docs site schemas

check: format-check lint types contracts tests

format-check:
	$(PYTHON) -m ruff format --check $(SOURCES)

lint:
	$(PYTHON) -m ruff check $(SOURCES)

types:
	$(PYTHON) -m mypy -p gg_datalog

# Which room may use which, and that nothing goes round in a circle: see pyproject.toml.
contracts:
	lint-imports

tests:
	$(PYTHON) -m pytest

# Also further variants of what these show, twice as long: before a release.
exhaustive:
	$(PYTHON) -m pytest --exhaustive

# Random programs, executed, with figures by feature: `make fuzz N=5000` for more of them.
fuzz:
	$(PYTHON) -m tests.numeric.sweep --programs $(N) --coverage

# Every operator against torch itself: `make oracle N=100000 OP='add*' SEED=1 WRITE=docs/coverage.md`;
# with TESTS=atan2,nn.functional.mish only samples of these of torch's tests, which takes seconds.
oracle:
	$(PYTHON) -m tests.oracle -n $(N) --op '$(OP)' --seed $(SEED) --known --opinion $(if $(TESTS),--tests $(TESTS)) $(if $(WRITE),--write $(WRITE))

format:
	$(PYTHON) -m ruff check --fix $(SOURCES)
	$(PYTHON) -m ruff format $(SOURCES)

# What torch registers of its operators, as data: for another release of torch.
schemas:
	$(PYTHON) -m gg_datalog.tracing.schemas > build/torch.txt
	mv build/torch.txt extract/schemas/torch.txt

docs:
	$(PYTHON) -m gg_datalog.reference.relations > docs/relations.md
	$(PYTHON) -m gg_datalog.reference.views > docs/views.md
	$(PYTHON) -m gg_datalog.reference.pages > docs/findings.md
	$(PYTHON) -c "from gg_datalog.cli import cli; from gg_datalog.reference.commands import reference; print(reference(cli), end='')" > docs/commands.md

# The book, in build/site; a link that leads nowhere fails.
site:
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict
