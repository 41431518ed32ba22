"""Domains and bases of view specs match TensorStore's.

An intended difference: an array in memory accepts a domain with labels and no bounds, as the
documentation of schemas allows; TensorStore refuses to open it.
"""

from __future__ import annotations

from typing import Any

import pytest

import tessarr.tensorstore as ts
from interop.tensorstore_parity.random_views import outcome

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

ARRAY: dict[str, Any] = {"driver": "array", "dtype": "int32", "array": [[1, 2], [3, 4]]}
MEANS: dict[str, Any] = {
    "driver": "downsample",
    "base": ARRAY,
    "downsample_factors": [2, 1],
    "downsample_method": "mean",
}
BASES = {
    "array": ARRAY,
    "downsample": MEANS,
    "zarr": {"driver": "zarr", "kvstore": "memory://"},
    "zarr3": {"driver": "zarr3", "kvstore": "memory://"},
}
ENDLESS: list[dict[str, Any]] = [
    {"inclusive_min": ["-inf", "-inf"], "inclusive_max": ["+inf", "+inf"]},
    {"inclusive_min": ["-inf", 0], "exclusive_max": [[1], [2]]},
    {"inclusive_min": [0, 0], "inclusive_max": ["+inf", "+inf"]},
    {"inclusive_min": [["-inf"], ["-inf"]], "inclusive_max": [["+inf"], ["+inf"]]},
]


def both(act: Any) -> list[Any]:
    return [outcome(lambda package=package: act(package)) for package in (ts, theirs)]


@pytest.mark.parametrize("domain", ENDLESS, ids=str)
@pytest.mark.parametrize("base", ["array", "zarr", "zarr3"])
def test_bounds_without_end_are_refused_in_opening_only(base: str, domain: Any) -> None:
    schema = {"domain": domain}
    plain = {**BASES[base], "schema": schema}
    casts = {"driver": "cast", "dtype": "float32"}
    specs = [plain, {**casts, "base": BASES[base], "schema": schema}, {**casts, "base": plain}]
    for spec in specs:
        actual, expected = both(lambda package, spec=spec: package.Spec(spec).to_json())
        assert actual == expected
        actual, expected = both(lambda package, spec=spec: repr(package.Spec(spec).domain))
        assert actual == expected


@pytest.mark.parametrize(
    "domain",
    [
        {"labels": ["x", "y"]},
        {"labels": ["x", "y"], "shape": [2, 2]},
        {"shape": [2, 3]},
        {"inclusive_min": [1, 1], "shape": [2, 2]},
    ],
    ids=str,
)
def test_domain_ignores_schema_labels(domain: Any) -> None:
    """The domain excludes the labels of the schema; a contradicting schema raises an error."""
    spec = {**ARRAY, "schema": {"domain": domain}}
    for tell in (
        lambda package: repr(package.Spec(spec).domain),
        lambda package: package.Spec(spec).to_json(),
        lambda package: package.Spec(spec).update(domain=package.IndexDomain(shape=[2, 2])),
    ):
        actual, expected = both(tell)
        assert actual == expected
    actual, expected = both(lambda package: repr(package.open(spec).result().domain))
    if domain == {"labels": ["x", "y"]}:
        assert (actual, expected) == ("{ [0, 2), [0, 2) }", ValueError)
    else:
        assert actual == expected


@pytest.mark.parametrize("more", [{}, {"rank": 0}, {"transform": {"input_rank": 0}}], ids=str)
@pytest.mark.parametrize("metadata", [{}, {"metadata": {"shape": []}}], ids=str)
@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_downsampled_specs_without_dimensions(driver: str, metadata: Any, more: Any) -> None:
    base = {**BASES[driver], **metadata}
    spec = {**MEANS, "base": base, "downsample_factors": [], **more}
    for tell in (
        lambda package: package.Spec(spec).to_json(),
        lambda package: repr(package.Spec(spec).domain),
        lambda package: repr(package.Spec(spec).base),
        lambda package: package.downsample(package.Spec(base), [], "mean").to_json(),
        lambda package: repr(package.downsample(package.Spec(base), [], "mean").base),
    ):
        actual, expected = both(tell)
        assert actual == expected


@pytest.mark.parametrize("method", ["mean", "stride"])
@pytest.mark.parametrize("view", ["", "[0]", "[:, 1:2]", ".T", ".label['x', 'y']", "[[0, 0]]"])
def test_downsampled_view_spec_has_base(view: str, method: str) -> None:
    def describe(package: Any, member: str) -> Any:
        spec = package.Spec({**MEANS, "downsample_method": method})
        base = eval(f"spec{view}.base", {"spec": spec})
        return repr(base.domain) if member == "domain" else base.to_json()

    for member in ("domain", "json"):
        actual, expected = both(lambda package, member=member: describe(package, member))
        assert actual == expected


@pytest.mark.parametrize("origin", [0, 1, -3])
@pytest.mark.parametrize("position", [0, 1, 2, 3])
@pytest.mark.parametrize("method", ["mean", "stride"])
def test_domain_of_empty_view_is_equal(method: str, position: int, origin: int) -> None:
    def read_base(package: Any, step: int) -> Any:
        base = package.array([1, 2, 3, 4, 5, 6, 7]).translate_by[origin]
        view = package.downsample(base, [3], method)[package.d[0].stride[step]][
            position:position
        ].base
        return repr(view.domain), view.read().result().tolist()

    for step in (1, 2, 3, -2):
        actual, expected = both(lambda package, step=step: read_base(package, step))
        assert actual == expected
