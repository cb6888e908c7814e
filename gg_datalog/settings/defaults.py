"""Commands whose options have defaults in a configuration file; the command line wins."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from gg_datalog.settings.configuration import Configuration

Function = Callable[..., None]

# The parameters of commands that keys of a configuration file stand for.
PARAMETERS = {
    "engine": "engine",
    "timeout": "timeout",
    "operators": "operators",
    "allow-partial": "partial",
    "allow-layout": "layouts",
    "format": "form",
    "report": "targets",
    "baseline": "baseline",
    "repairs": "repairs",
    "confirm": "confirm",
}

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Defaults of options.  [default: the closest gg-datalog.toml or pyproject.toml]",
)
no_config_option = click.option("--no-config", is_flag=True, help="Read no configuration file.")


def configurable(*keys: str) -> Callable[[Function], Function]:
    """Adds ``--config`` and ``--no-config`` to a command, and fills in what the command line does
    not say of these keys. With ``severity`` the command is given that table, too, and the names
    of the parameters that were filled in, as ``configured``."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def command(config: Path | None, no_config: bool, **given: Any) -> None:
            configuration = _configuration(config, no_config)
            filled = _filled(configuration, keys, given)
            if "severity" in keys:
                given["severity"] = configuration.get("severity", {})
                given["configured"] = frozenset(filled)
            function(**{**given, **filled})

        return config_option(no_config_option(command))

    return decorate


def _configuration(named: Path | None, none: bool) -> Configuration:
    from gg_datalog.settings.configuration import Configuration, found, load

    if none and named is not None:
        raise click.UsageError("give either --config or --no-config")
    if none:
        return Configuration()
    return found(Path.cwd()) if named is None else load(named)


def _filled(
    configuration: Configuration, keys: tuple[str, ...], given: dict[str, Any]
) -> dict[str, Any]:
    source = click.get_current_context().get_parameter_source
    return {
        PARAMETERS[key]: value
        for key, value in configuration.values.items()
        if key in keys
        and PARAMETERS.get(key) in given
        and source(PARAMETERS[key]) is ParameterSource.DEFAULT
    }
