# run: build and start the server. test: lint and all tests. soak: attacks on the release build, then
# Schemathesis for SOAK_SECONDS. fuzz: the parsers of untrusted input, FUZZ_SECONDS each. bench: the
# benchmarks.
.PHONY: run build assets test lint test-deps soak fuzz bench
DATA_DIR ?= ./hedgerow-data
SOAK_SECONDS ?= 1800
FUZZ_SECONDS ?= 300

run: assets
	cargo run --release --locked -p server -- serve --data-dir $(DATA_DIR)

build: assets
	cargo build --release --locked -p server

# The embedded browser SDK. Without it the build works, and /static responds with 404.
assets:
	@tools/fetch-assets || echo "assets: no browser SDK, /static will respond with 404"

test: test-deps lint
	tools/fetch-assets
	tools/with-postgres cargo test --workspace --locked

lint:
	cargo fmt --all --check
	cargo fmt --manifest-path compat/rust/Cargo.toml --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --document-private-items --locked
	cargo run --quiet --locked -p xtask -- tidy

test-deps:
	@tools/install-test-deps

# Some attacks only: make soak ATTACKS="tokens flags". The attackers open thousands of connections,
# so the descriptor limit is raised.
soak: assets test-deps
	cargo build --release --locked -p server -p bench --bins
	ulimit -n $$(ulimit -Hn) && $${CARGO_TARGET_DIR:-target}/release/attacks $(ATTACKS)
	HEDGEROW_SOAK_SECONDS=$(SOAK_SECONDS) cargo test --locked -p server --test it http::schemathesis::

fuzz:
	FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz

# Some sections only: make bench SECTIONS="start flags". BENCH_EVENTS=10000000 is the full set.
# SECTIONS=people, with BENCH_PERSONS persons, runs only if named.
bench: assets test-deps
	cargo build --release --locked -p server
	cargo build --release --locked -p bench --bins
	cargo run --release --locked -p bench -- $(SECTIONS)
