# Two commands to begin with: `make race` and `make test`. Each installs missing packages if it may, and
# prints what it skips if it may not. `make help` lists the rest.

MAKEFLAGS += --no-print-directory
# Where rustup and `.ci/run` install cargo's programs.
export PATH := $(CURDIR)/target/tools/bin:$(PATH):$(HOME)/.cargo/bin
# The quick part of the race, about three minutes; `make race ARGS=` runs the whole, several hours.
ARGS ?= --quick
# How long `make fuzz` runs each target, and which of them; all if empty.
SECONDS ?= 30
TARGETS ?=
# Who follows the README in `make fresh`.
WHO ?= user root
HAUL := $(or $(CARGO_TARGET_DIR),target)/release/haul

.PHONY: help race build web test lint code deny fuzz bench dist fresh commands claims docs setup clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS='	' read -r name what; do printf '  make %-8s %s\n' "$$name" "$$what"; done

race: ## Race WebDAV clients over emulated links: 3 minutes (ARGS= for the whole race: several hours)
	@scripts/setup.sh race
	@cargo build --release --locked --package haul
	@$(HAUL) race $(ARGS)

build: ## Build target/release/haul
	cargo build --release --locked --package haul

web: ## Rebuild the HTML report's template from web/; needs node
	@scripts/web.sh build

test: ## Run all tests; as root, once more as an ordinary user
	@scripts/setup.sh test
	@scripts/test.sh

lint: code deny ## Check formatting, lints, documentation, dependencies and shell scripts

code:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	RUSTDOCFLAGS='--deny warnings --allow rustdoc::private_intra_doc_links' cargo doc --workspace --no-deps --document-private-items --locked --quiet
	@scripts/web.sh check
	@scripts/python.sh check
	@if command -v shellcheck >/dev/null; then shellcheck -x scripts/*.sh scripts/*/*.sh .ci/run; \
	else echo "skipped: shellcheck is not installed (sudo apt-get install shellcheck)"; fi

deny:
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --locked --log-level error check bans licenses sources; \
	else echo "skipped: cargo deny is not installed (cargo install cargo-deny --locked)"; fi

fuzz: ## Run the fuzz targets for 30 seconds each (SECONDS=90; TARGETS="explain flows": only these)
	@scripts/fuzz.sh $(SECONDS) $(TARGETS)

bench: ## Measure emulator, capture analysis, reports, client, replay server and gateway against their targets
	@scripts/setup.sh bench
	cargo bench --locked --package longhaul-link --bench cable
	cargo bench --locked --package haul --bench explain
	@cargo build --release --locked --package haul
	@HAUL=$(abspath $(HAUL)) scripts/web.sh bench
	@$(HAUL) lab run bars
	@$(HAUL) lab run bars-idle
	@$(HAUL) lab run bars-page
	@$(HAUL) lab run bars-browser
	@HAUL=$(HAUL) scripts/pages.sh
	cargo bench --locked --package page --bench rate
	cargo bench --locked --profile dist --package gateway --bench proxy
	cargo bench --locked --package haul --bench users

fresh: ## Follow the README in a clean Debian root, as an ordinary user and as root: 90 minutes (WHO=user: only one)
	@scripts/setup.sh dist
	@scripts/fresh.sh $(WHO)

dist: ## Make the packages in target/packages, and use each in a clean Debian root: 30 minutes
	@scripts/setup.sh dist
	@scripts/dist.sh

commands: ## Renew the command pages of the book, docs/src/commands, from the program's help
	@rm -f docs/src/commands/*.md
	cargo run --quiet --locked --package haul -- man --markdown docs/src/commands

claims: ## Renew the list of all claims, docs/src/results/claims.txt, from the experiments and the kept runs
	cargo build --quiet --locked --package haul
	@cd docs/src && $(abspath $(dir $(HAUL))../debug/haul) lab claims results/runs/*.json >claims.new && mv claims.new results/claims.txt || { rm -f claims.new; false; }

docs: ## Build the book into docs/book; needs mdbook
	@if command -v mdbook >/dev/null; then mdbook build docs; \
	else echo "mdbook is not installed (cargo install mdbook --locked); the sources of the book are in docs/src"; exit 1; fi

setup: ## Install everything that race, tests, lints and benchmarks need
	@for purpose in race test lint bench dist; do scripts/setup.sh $$purpose || exit; done

clean: ## Delete build results; results in runs/ stay
	cargo clean
	rm -rf docs/book
