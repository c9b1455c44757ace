# run: build and start on an empty folder. test: everything that must hold. soak: attacks on the
# release build, then the schema for SOAK_SECONDS. fuzz: what reads bytes from strangers,
# FUZZ_SECONDS each. bench: how fast.
.PHONY: run build assets test lint test-deps soak fuzz bench
DATA_DIR ?= ./hedgerow-data
SOAK_SECONDS ?= 1800
FUZZ_SECONDS ?= 300

run: assets
	cargo run --release --locked -p server -- serve --data-dir $(DATA_DIR)

build: assets
	cargo build --release --locked -p server

# The browser SDK. A build without it works and says so under /static.
assets:
	@tools/fetch-assets || echo "assets: no browser SDK, /static will answer 404"

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

# Attacks may be named: make soak ATTACKS="tokens flags". The attackers need a descriptor for each
# of some thousand connections.
soak: assets test-deps
	cargo build --release --locked -p server -p bench --bins
	ulimit -n $$(ulimit -Hn) && $${CARGO_TARGET_DIR:-target}/release/attacks $(ATTACKS)
	HEDGEROW_SOAK_SECONDS=$(SOAK_SECONDS) cargo test --locked -p server --test it http::schemathesis::

fuzz:
	FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz

# Sections may be named: make bench SECTIONS="start flags". BENCH_EVENTS=10000000 is the full set.
bench: assets test-deps
	cargo build --release --locked -p server
	cargo build --release --locked -p bench --bins
	cargo run --release --locked -p bench -- $(SECTIONS)
