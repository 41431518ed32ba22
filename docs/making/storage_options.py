"""Generator of the list of storage options: it writes ``docs/reference/storage-options.md``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill

from tessarr.store.object.azure_options import AZURE_ENVIRONMENT, AZURE_OPTIONS
from tessarr.store.object.common_options import COMMON_OPTIONS, USE_FSSPEC
from tessarr.store.object.gcs_options import GCS_ENVIRONMENT, GCS_OPTIONS
from tessarr.store.object.http_options import HTTP_OPTIONS
from tessarr.store.object.options import Accept, Nest, OptionTable, Refuse, Rule, Set, Split
from tessarr.store.object.s3_options import S3_ENVIRONMENT, S3_OPTIONS

PAGE = Path(__file__).parents[1] / "reference/storage-options.md"

_HEAD = """\
# Storage options

`storage_options` of URLs, and further keywords of the [classes](stores.md) of object stores, accept
the names on this page. They are those of the classes, of s3fs, gcsfs, adlfs and fsspec's HTTP file
system, and of the `object_store` crate. The [guide](../guide/cloud.md) has examples.

Settings are keywords of the classes, or options of the crate. `just storage-options` writes this
page from the tables that Tessarr reads.
"""

_STORES: Mapping[str, tuple[OptionTable, tuple[str, ...], tuple[str, ...]]] = {
    "S3": (S3_OPTIONS, ("aws_",), S3_ENVIRONMENT),
    "Google Cloud Storage": (GCS_OPTIONS, ("google_",), GCS_ENVIRONMENT),
    "Azure": (AZURE_OPTIONS, ("azure_storage_", "azure_"), AZURE_ENVIRONMENT),
    "Web servers": (HTTP_OPTIONS, (), ()),
}


def build_page() -> str:
    """Return the text of the page."""
    parts = [_HEAD, "\n## All stores\n\n", *_render_table(COMMON_OPTIONS, "")]
    for title, (table, prefixes, variables) in _STORES.items():
        parts.append(f"\n## {title}\n\n")
        if prefixes:
            shown = " or ".join(f"`{prefix}`" for prefix in prefixes)
            parts.append(f"Most names also exist with the prefix {shown}.\n\n")
        own = {name: rule for name, rule in table.items() if _is_own(name, table, prefixes)}
        parts += _render_table(own, "")
        if variables:
            text = f"Variables of the environment: {_quote(variables)}."
            parts.append(f"\n{fill(text, 100)}\n")
    return "".join(parts)


def _is_own(name: str, table: OptionTable, prefixes: tuple[str, ...]) -> bool:
    """Return whether the section of a store shows a name."""
    if COMMON_OPTIONS.get(name) == table[name]:
        return False
    return not any(
        name.startswith(prefix) and name.removeprefix(prefix) in table for prefix in prefixes
    )


def _render_table(table: OptionTable, parent: str) -> Iterator[str]:
    """Yield the lines of a table, and then the tables of nested options."""
    meanings: dict[str, list[str]] = {}
    for name, rule in table.items():
        meanings.setdefault(_describe(rule), []).append(name)
    yield "| names | meaning |\n|---|---|\n"
    for meaning, names in sorted(meanings.items(), key=lambda item: _ORDER[item[0][0]]):
        yield f"| {_quote(sorted(names))} | {meaning[1:]} |\n"
    for name, rule in table.items():
        if isinstance(rule, Nest):
            path = f"{parent}{name}"
            yield f"\nNames in `{path}`:\n\n"
            yield from _render_table(rule.table, f"{path}.")


_ORDER = {"=": 0, "*": 1, "!": 2, "-": 3, "0": 4}
"""The order of the first signs of descriptions."""


def _describe(rule: Rule) -> str:
    """Return the meaning of a rule after a sign for its order."""
    match rule:
        case Set("headers", _, str(key)):
            return f"=the header `{key}`"
        case Set(setting, _, None):
            return f"=the setting `{setting}`"
        case Set(setting, _, str(key)):
            return f"=`{key}` in `{setting}`"
        case Split():
            return "*one or several other settings, by the value"
        case Nest():
            return "*a mapping, see below"
        case Accept(values, remedy):
            return f"!only `{values[0]!r}`; otherwise {_shorten(remedy)}"
        case Refuse(remedy):
            return f"-an error: {_shorten(remedy)}"
        case _:
            return "0no effect"


def _shorten(remedy: str) -> str:
    return remedy.replace(USE_FSSPEC, "use `FsspecStore`")


def _quote(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(build_page(), encoding="utf-8")
