# Two commands to begin with: `make race` and `make test`. Each installs what is missing where it
# may, and says what it skipped where it may not. `make help` lists the rest.

MAKEFLAGS += --no-print-directory
# Where rustup and `.ci/run` put what cargo installs.
export PATH := $(CURDIR)/target/tools/bin:$(PATH):$(HOME)/.cargo/bin
# The part of the race that ends within three minutes; `make race ARGS=` is the whole, some hours.
ARGS ?= --quick
HAUL := $(or $(CARGO_TARGET_DIR),target)/release/haul

.PHONY: help race build web test lint bench docs setup clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS='	' read -r name what; do printf '  make %-7s %s\n' "$$name" "$$what"; done

race: ## Race WebDAV clients over emulated links, three minutes (ARGS= for all of it, some hours)
	@scripts/setup.sh race
	@cargo build --release --locked --package haul
	@$(HAUL) race $(ARGS)

build: ## Build the program: target/release/haul
	cargo build --release --locked --package haul

web: ## Build the report's page from web/ into the template that the program embeds; needs node
	@scripts/web.sh build

test: ## Run every test; as root, once more as an ordinary user
	@scripts/setup.sh test
	@scripts/test.sh

lint: ## Check formatting, lints, documentation, dependencies and shell scripts
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	RUSTDOCFLAGS='--deny warnings --allow rustdoc::private_intra_doc_links' cargo doc --workspace --no-deps --document-private-items --locked --quiet
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --locked --log-level error check bans licenses sources; \
	else echo "skipped: cargo deny is not installed (cargo install cargo-deny --locked)"; fi
	@scripts/web.sh check
	@if command -v shellcheck >/dev/null; then shellcheck scripts/*.sh .ci/run; \
	else echo "skipped: shellcheck is not installed (sudo apt-get install shellcheck)"; fi

bench: ## Measure the emulator, the explanation of captures, reports' first paint, and our client and replay server against their bars
	@scripts/setup.sh bench
	cargo bench --locked --package link --bench cable
	cargo bench --locked --package haul --bench explain
	@cargo build --release --locked --package haul
	@HAUL=$(abspath $(HAUL)) scripts/web.sh bench
	@$(HAUL) lab run bars
	@$(HAUL) lab run bars-idle
	@$(HAUL) lab run bars-page
	@$(HAUL) lab run bars-browser
	cargo bench --locked --package page --bench rate

docs: ## Build the book into docs/book
	@if command -v mdbook >/dev/null; then mdbook build docs; \
	else echo "mdbook is not installed (cargo install mdbook --locked); the book's sources are in docs/src"; exit 1; fi

setup: ## Install what the race, the tests, the lints and the benchmarks need
	@for purpose in race test lint bench; do scripts/setup.sh $$purpose || exit; done

clean: ## Remove what was built; results in runs/ stay
	cargo clean
	rm -rf docs/book
