# What is done here, and how. `just check` is what CI runs after the tests.

python := env("PYTHON", "python")

# List the recipes.
default:
    @just --list --unsorted

# Install the checkout, compiled for release, with everything for development.
build:
    {{python}} -m pip install --quiet ".[dev]"

# Run the fast tier of tests, on the installed package.
test *arguments:
    {{python}} -m pytest {{arguments}}

# Run every test, on all cores: the exhaustive tier.
test-all *arguments:
    {{python}} -m pytest -m "" --numprocesses logical --dist worksteal {{arguments}}

# Install the S3, GCS, Azure and web servers of the tests outside of the checkout, and Chromium on
# the machine, as far as the machine has go, npm and apt.
servers:
    .ci/servers

# Format the code.
format:
    cargo fmt --all
    {{python}} -m ruff format .
    {{python}} -m ruff check --fix-only --quiet .

# Lint Rust and Python.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --quiet -- --deny warnings
    {{python}} -m ruff check .
    {{python}} -m ruff format --check .

# Check types with mypy and pyright.
types:
    {{python}} -m mypy
    {{python}} -m pyright --pythonpath "$({{python}} -c 'import sys; print(sys.executable)')"

# Check the layers. The compiled extension is invisible: the source folder is read.
layers:
    PYTHONPATH=python lint-imports

# Check that the stub describes the compiled extension.
stubs:
    {{python}} -m mypy.stubtest --mypy-config-file pyproject.toml tessarr._engine

# Test the engine by itself.
engine:
    cargo test --workspace --exclude tessarr-python --quiet
    cargo test --package tessarr-engine --features portable --lib --quiet store

# Check that the Rust side compiles for macOS (rustup target add x86_64-apple-darwin). No C is
# compiled: what stands for the compiler does nothing.
macos:
    CC_x86_64_apple_darwin=true AR_x86_64_apple_darwin=true \
        cargo check --workspace --target x86_64-apple-darwin --quiet

# Feed damaged and random bytes to every decoder for a bounded time: the targets of
# rust/fuzz need nightly Rust (`cargo fuzz run blosc`), these run on stable.
fuzz cases="20000":
    PROPTEST_CASES={{cases}} cargo test --package tessarr-engine --release --quiet
    HYPOTHESIS_PROFILE=fuzz {{python}} -m pytest -m "" tests/property

# Build the site of the documentation into the folder site. A broken link or a name that the
# reference does not find fails; examples are tests.
docs:
    NO_MKDOCS_2_WARNING=1 {{python}} -m mkdocs --quiet build --strict

# Show the first hits of the built site's search: `just search "chunk size" zip`.
[positional-arguments]
search *queries:
    @node docs/making/search.js site "$@"

# Draw the pictures of the guide.
pictures:
    {{python}} docs/making/pictures.py

# Write the list of storage options.
storage-options:
    {{python}} docs/making/storage_options.py

# Show the site while it is written.
serve:
    NO_MKDOCS_2_WARNING=1 {{python}} -m mkdocs serve

# Write docs/conformance.md: what the formats require, and which tests show it.
conformance:
    {{python}} tests/conformance/page.py

# Write docs/matrix.md: data types through codecs, read back by the peers that are installed
# (zarr, tensorstore and zarrista; zfpy, pcodec and msgpack for the codecs that need them).
matrix:
    {{python}} tests/interop/matrix.py

# Measure codecs and write docs/guide/codecs-measured.md (pcodec is needed).
codecs:
    {{python}} -m bench.codecs

# Build the page of the viewer into the package (needs npm).
viewer:
    npm --prefix viewer ci --no-audit --no-fund
    npm --prefix viewer run check
    npm --prefix viewer run build

# Draw the pictures of the viewer (needs Chromium).
viewer-pictures:
    {{python}} docs/making/viewer_pictures.py

# Check that the changelog fragments have known kinds.
changes:
    {{python}} -m towncrier build --draft --version next > /dev/null

# Compare with peers, in an environment of its own (Python 3.12 or newer).
bench *arguments:
    "$({{python}} bench/setup.py)" -m bench.run {{arguments}}

# Everything that has to hold beside the tests.
check: lint layers types stubs engine changes docs
