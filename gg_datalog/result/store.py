"""Facts and results on disk: one file per relation, and a manifest that says what there is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gg_datalog.extract.schema import RELATIONS, SCHEMA_VERSION, Relation
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.folders import (
    MANIFEST,
    in_use,
    read_manifest,
    replaced_folder,
    write_manifest,
)
from gg_datalog.foundation.hashes import SOURCES, case_of, joint_hash, sources, table_hash

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("parquet", "tsv")
SUFFIX = {"parquet": ".parquet", "tsv": ".facts"}
AGAIN = "extract the facts again"


@dataclass(frozen=True)
class Facts:
    """Facts, what the manifest remembers of their case, and the hashes of the tables."""

    tables: dict[str, pa.Table]
    case: dict[str, Any]
    hashes: Mapping[str, str]

    @property
    def joint_hash(self) -> str:
        """The hash of all that a verdict on these facts is about."""
        return joint_hash(self.hashes, sources(self.case))


def facts_folder(folder: Path) -> AbstractContextManager[Path]:
    """A folder of facts to fill, which then takes the place of ``folder``; all of it or nothing."""
    return replaced_folder(folder, "facts")


def write_facts(
    tables: Mapping[str, pa.Table], folder: Path, form: str, case: Mapping[str, Any]
) -> None:
    """Writes a folder of facts; all of it or nothing."""
    with facts_folder(folder) as fresh:
        write_relations(tables, fresh, form, case)


def write_relations(
    tables: Mapping[str, pa.Table], folder: Path, form: str, case: Mapping[str, Any]
) -> None:
    """Writes all facts of a case into a folder, and where the case lies."""
    for name, table in tables.items():
        path = folder / (name + SUFFIX[form])
        write_parquet(path, name, table) if form == "parquet" else _write_tsv(path, table)
    hashes = hashed(tables)
    content = {
        "schema_version": SCHEMA_VERSION,
        "format": form,
        "relations": {name: table.num_rows for name, table in tables.items()},
        "hash": joint_hash(hashes, sources(case)),
        "hashes": hashes,
        SOURCES: sources(case),
        "case": {key: value for key, value in case.items() if key != SOURCES},
    }
    write_manifest(folder, "facts", content)


def hashed(tables: Mapping[str, pa.Table]) -> dict[str, str]:
    """The hash of each table."""
    return {name: table_hash(table) for name, table in tables.items()}


def read_facts(folder: Path) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """The facts in a folder, checked against the schema, and the case they were extracted from."""
    facts = open_facts(folder)
    return facts.tables, facts.case


def open_facts(folder: Path) -> Facts:
    """The facts in a folder: of one extraction, and as that left them.

    Raises:
        InputError: a file is missing, cannot be read or was changed.
    """
    with in_use(folder):
        return _facts(folder)


def check_version(manifest: Mapping[str, Any], folder: Path) -> None:
    """An error where facts are of another release's schema."""
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise InputError(
            f"the facts have schema version {version!r}, this release reads {SCHEMA_VERSION}",
            str(folder),
            AGAIN,
        )


def _facts(folder: Path) -> Facts:
    manifest = read_manifest(folder, "facts", "gg-datalog extract")
    check_version(manifest, folder)
    form = manifest.get("format")
    if form not in FORMATS:
        raise InputError(f"the facts have the unknown format {form!r}", str(folder), AGAIN)
    read = _read_parquet if form == "parquet" else _read_tsv
    tables = {}
    for name, relation in RELATIONS.items():
        path = folder / (name + SUFFIX[form])
        if not path.is_file():
            raise InputError(f"relation {name} is missing", str(path), AGAIN)
        tables[name] = read(path, relation)
    _check_rows(manifest.get("relations"), tables, folder)
    facts = Facts(tables, case_of(manifest), hashed(tables))
    _check_hashes(manifest, facts, folder)
    return facts


def _check_hashes(manifest: Mapping[str, Any], facts: Facts, folder: Path) -> None:
    """The facts are those that were extracted: whoever changes a file changes what is proved."""
    known = manifest.get("hashes")
    for name, text in facts.hashes.items():
        if not isinstance(known, dict) or known.get(name) != text:
            path = folder / (name + SUFFIX[manifest["format"]])
            raise InputError("the facts in it were changed after extraction", str(path), AGAIN)
    if manifest.get("hash") != facts.joint_hash:
        path = folder / MANIFEST
        raise InputError("its hash is not that of the facts beside it", str(path), AGAIN)


def write_parquet(path: Path, name: str, table: pa.Table) -> None:
    """A relation with its name and the schema version in the file's metadata."""
    from pyarrow import parquet

    metadata = {"relation": name, "schema_version": str(SCHEMA_VERSION)}
    parquet.write_table(table.replace_schema_metadata(metadata), path)


def _check_rows(counts: Any, tables: Mapping[str, pa.Table], folder: Path) -> None:
    for name, table in tables.items():
        expected = counts.get(name) if isinstance(counts, dict) else None
        if expected != table.num_rows:
            raise InputError(
                f"relation {name} has {table.num_rows} rows, the manifest says {expected}",
                str(folder),
                AGAIN,
            )


def _read_parquet(path: Path, relation: Relation) -> pa.Table:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        # Not read_table, which looks for a data set in the path and first imports all about those.
        with parquet.ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        text = str(error).splitlines()[0]
        raise InputError(f"not a Parquet file: {text}", str(path), AGAIN) from None
    metadata = table.schema.metadata or {}
    found = metadata.get(b"relation", b"").decode("utf-8", "replace")
    if found != relation.name:
        raise InputError(f"the file holds relation {found!r}", str(path), AGAIN)
    if metadata.get(b"schema_version") != str(SCHEMA_VERSION).encode():
        raise InputError(f"the file is not of schema version {SCHEMA_VERSION}", str(path), AGAIN)
    return _checked(table, relation, path)


def _checked(table: pa.Table, relation: Relation, path: Path) -> pa.Table:
    expected = relation.arrow()
    found = [(field.name, field.type) for field in table.schema]
    if found != [(field.name, field.type) for field in expected]:
        columns = ", ".join(f"{name}: {kind}" for name, kind in found)
        wanted = ", ".join(f"{field.name}: {field.type}" for field in expected)
        raise InputError(f"the columns are ({columns}), not ({wanted})", str(path), AGAIN)
    for column in table.columns:
        if column.null_count:
            raise InputError("a value is missing (null)", str(path), AGAIN)
    return table.cast(expected)


def _write_tsv(path: Path, table: pa.Table) -> None:
    """Soufflé's own form: values between tabs, nothing quoted."""
    import pyarrow as pa
    from pyarrow import compute as pc

    if not table.num_rows:
        path.write_text("")
        return
    cells = [column.cast(pa.string()) for column in table.combine_chunks().columns]
    for name, column in zip(table.column_names, cells, strict=True):
        row = pc.index(pc.match_substring_regex(column, "[\\t\\n\\r]"), True).as_py()
        if row >= 0:
            raise InputError(
                f"{column[row].as_py()!r} in column {name} has a tab or a line break",
                path.name,
                "use --facts-format parquet",
            )
    lines = pc.binary_join_element_wise(*cells, "\t").to_pylist()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read_tsv(path: Path, relation: Relation) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    schema = relation.arrow()
    if not path.stat().st_size:
        return schema.empty_table()
    try:
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=schema.names),
            parse_options=csv.ParseOptions(
                delimiter="\t", quote_char=False, ignore_empty_lines=False
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict(zip(schema.names, schema.types, strict=True)),
                strings_can_be_null=False,
                null_values=[],
            ),
        )
    except (pa.ArrowException, OSError) as error:
        text = str(error).splitlines()[0]
        raise InputError(f"the rows cannot be read: {text}", str(path), AGAIN) from None
    return _checked(table, relation, path)
