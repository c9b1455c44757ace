# run: build and start the server. test: lint and all tests; test-full: also what test only samples.
# dist: tarball, Debian package and container image, in dist/; docs/RELEASING.md.
# soak: attacks on the release build, then Schemathesis for SOAK_SECONDS. fuzz: the parsers of untrusted
# input, FUZZ_SECONDS each. bench: the benchmarks.
.PHONY: run build assets web-types test test-full test-web test-dist lint test-deps dist soak fuzz bench
DATA_DIR ?= ./hedgerow-data
SOAK_SECONDS ?= 1800
FUZZ_SECONDS ?= 300

run: assets
	cargo run --release --locked -p server -- serve --data-dir $(DATA_DIR)

build: assets
	cargo build --release --locked -p server

# The embedded browser SDK and web interface. Without them the build works: /static responds with 404,
# and / names the missing command.
assets:
	@tools/fetch-assets || echo "assets: no browser SDK, /static will respond with 404"
	@tools/build-web || echo "assets: no web interface, / will name the missing command"

# The TypeScript types of the API, after a change of its OpenAPI document.
web-types:
	tools/web-types

test: test-deps lint
	tools/fetch-assets
	tools/build-web
	tools/with-postgres tools/with-clickhouse tools/with-nats cargo test --workspace --locked
	tools/test-web
	tools/test-dist

# The whole of what test takes samples of.
test-full: export HEDGEROW_TEST_FULL = 1
test-full: test

test-web: test-deps
	tools/test-web

# The packages; with HEDGEROW_TEST_FULL=1, as root, in fresh Debian systems.
test-dist: test-deps
	tools/fetch-assets
	tools/build-web
	tools/test-dist

lint:
	cargo fmt --all --check
	cargo fmt --manifest-path compat/rust/Cargo.toml --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --document-private-items --locked
	cargo run --quiet --locked -p xtask -- tidy

test-deps:
	@tools/install-test-deps

dist:
	tools/fetch-assets
	tools/build-web
	tools/dist

# Some attacks only: make soak ATTACKS="tokens flags". The attackers open thousands of connections,
# so the descriptor limit is raised.
soak: assets test-deps
	cargo build --release --locked -p server -p bench --bins
	ulimit -n $$(ulimit -Hn) && $${CARGO_TARGET_DIR:-target}/release/attacks $(ATTACKS)
	HEDGEROW_SOAK_SECONDS=$(SOAK_SECONDS) cargo test --locked -p server --test it http::schemathesis::

fuzz:
	FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz

# Some sections only: make bench SECTIONS="start flags". BENCH_EVENTS=10000000 is the full set.
# Two run only if named: people, with BENCH_PERSONS persons (tools/with-postgres make bench
# SECTIONS=people for PostgreSQL), and ui, in Chromium. BENCH_DATA=<directory> keeps what is stored.
# sql: BENCH_STATEMENTS="top paths,minutes" runs those with these words in their names, and writes no
# results; BENCH_PRINT_ONLY=1 writes none of any section.
bench: assets test-deps
	cargo build --release --locked -p server
	cargo build --release --locked -p bench --bins
	cargo run --release --locked -p bench -- $(SECTIONS)
