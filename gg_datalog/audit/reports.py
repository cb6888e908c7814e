"""An audit in the formats that other tools read: one function per format, found by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from gg_datalog.audit.folder import AuditFolder
from gg_datalog.reporting.targets import Target, put

# Each is `function(folder, where the text goes) -> text`, imported when it is asked for.
FORMATS = {
    "junit": "gg_datalog.audit.junit:render",
    "markdown": "gg_datalog.audit.markdown:render",
    "json": "gg_datalog.audit.document:render",
    "html": "gg_datalog.audit.html:render",
    "sarif": "gg_datalog.audit.sarif:render",
}


def write(targets: Sequence[Target], folder: AuditFolder) -> None:
    """Renders all that is asked for, then writes it; a file appears whole or not at all."""
    put(targets, [_rendered(target, folder) for target in targets])


def _rendered(target: Target, folder: AuditFolder) -> str:
    module, _, function = FORMATS[target.form].partition(":")
    text: str = getattr(import_module(module), function)(folder, target.path)
    return text
