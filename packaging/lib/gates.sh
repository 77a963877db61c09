# shellcheck shell=bash
# Sourced by packaging/test: the checks that need a tool of their own. What a machine cannot do goes into `left_out`, so
# that it is printed at the end. Call `own_directory` first.
#
# shellcheck disable=SC2154  # the script that sources it sets what is not set here

cargo_deny_version=0.20.2

# want_components NAME...: parts of the toolchain.
want_components() {
    local component
    for component in "$@"; do
        if cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1; then continue; fi
        type -P rustup >/dev/null || fail "cargo ${component/rustfmt/fmt} is missing, and there is no rustup to install it with"
        say "installing $component"
        rustup component add "$component"
    done
}

# Every script of the tree, by its first line; templates do not count.
check_scripts() {
    local scripts
    want shellcheck shellcheck
    mapfile -t scripts < <(git ls-files --cached --others --exclude-standard |
        grep -v '\.in$' | xargs grep --no-messages --files-with-matches --max-count 1 -E '^#!/bin/sh|^#!/usr/bin/env bash|^# shellcheck shell=' | sort -u)
    shellcheck --external-sources "${scripts[@]}"
}

# The compiler does not check links between items.
check_documentation() {
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --workspace --no-deps --document-private-items
}

# Licences, sources, versions, and known weaknesses where their list can be had. cargo-deny is built once, into $target.
check_dependencies() {
    local deny=$target/tools/bin/cargo-deny version='' checks=(bans licenses sources)
    if [[ -x $deny ]]; then version=$("$deny" --version); fi
    if [[ $version != "cargo-deny $cargo_deny_version" ]]; then
        busy "cargo-deny $cargo_deny_version" cargo install --locked --version "$cargo_deny_version" \
            --root "$target/tools" --target-dir "$target/tools/build" cargo-deny
        rm -rf "$target/tools/build"
    fi
    # The list of weaknesses is a repository elsewhere, and no mirror of packages has it.
    if "$deny" fetch db >"$directory/advisories.log" 2>&1; then
        checks+=(advisories)
    else
        left_out+=("known weaknesses of dependencies: the advisory database cannot be fetched ($(tail -n 1 "$directory/advisories.log"))")
    fi
    "$deny" --log-level error check --hide-inclusion-graph "${checks[@]}"
}

# The rust-version that Cargo.toml declares. Only a build with it tells: a lint knows the standard library alone.
check_oldest_rust() {
    local oldest toolchain=
    oldest=$(cargo metadata --locked --no-deps --format-version 1 | jq --raw-output '[.packages[].rust_version] | unique[]')
    [[ $oldest =~ ^[0-9.]+$ ]] || fail "the packages declare no rust-version, or several: $oldest"
    if type -P rustup >/dev/null; then
        # rustup takes the name that a toolchain was installed under: `1.88.0` is not found as `1.88`.
        toolchain=$(rustup toolchain list | awk -v oldest="$oldest" 'index($1, oldest "-") == 1 || index($1, oldest ".") == 1 { print $1; exit }')
        if [[ -z $toolchain ]] && rustup toolchain install "$oldest" --profile minimal >"$directory/rustup.log" 2>&1; then
            toolchain=$oldest
        fi
    fi
    if [[ -n $toolchain ]]; then
        cargo "+$toolchain" check --quiet --locked --workspace --all-targets --target-dir "$target/oldest"
        return
    fi
    left_out+=("a build with Rust $oldest, which cannot be installed here; clippy's incompatible_msrv looks at the standard library only")
    cargo clippy --quiet --locked --workspace --all-targets -- -D clippy::incompatible_msrv
}

# A workspace of its own, so that nothing else builds it. Running them is packaging/fuzz.
check_fuzz_targets() {
    cargo check --quiet --locked --manifest-path fuzz/Cargo.toml ||
        fail "the fuzz targets do not build; if fuzz/Cargo.lock is out of date: cargo metadata --manifest-path fuzz/Cargo.toml"
}
