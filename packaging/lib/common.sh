# shellcheck shell=bash
# Sourced first by every script below packaging/: messages, missing tools, one lock, and cleaning up. It changes to the
# top of the tree.
#
# `$target` is where everything that is built and fetched goes: CARGO_TARGET_DIR, or target/ at the top of the tree.
#
# shellcheck disable=SC2034  # the script that sources it uses what is not used here

set -euo pipefail
# A failure inside `$(...)` is a failure too.
shopt -s inherit_errexit

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "${0##*/}: $*"
    exit 1
}

# usage TEXT: how the script is called, for a caller who called it otherwise.
usage() {
    say "usage: $*"
    exit 64
}

# is WHAT FOUND EXPECTED: fails unless both are the same.
is() {
    [[ $2 == "$3" ]] || fail "$1: found \"$2\", expected \"$3\""
}

# Paths are made absolute while relative ones still hold.
if [[ -n ${NATS_SERVER:-} ]]; then
    NATS_SERVER=$(type -P "$NATS_SERVER") || fail "NATS_SERVER names no program"
    NATS_SERVER=$(realpath "$NATS_SERVER")
fi
[[ -z ${CARGO_TARGET_DIR:-} ]] || CARGO_TARGET_DIR=$(realpath --canonicalize-missing "$CARGO_TARGET_DIR")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
target=$CARGO_TARGET_DIR

# The bus that the caller's environment names is another one.
for variable in "${!NATS_@}"; do
    if [[ $variable != NATS_SERVER ]]; then unset "$variable"; fi
done

# want COMMAND PACKAGE...: installs the packages when there is no such command.
want() {
    local command=$1 root=()
    shift
    if type -P "$command" >/dev/null; then return; fi
    if ! type -P apt-get >/dev/null; then
        fail "$command is missing, and there is no apt-get to install it with"
    fi
    if ((EUID != 0)); then
        if ! type -P sudo >/dev/null; then
            fail "$command is missing: as root, run apt-get install $*"
        fi
        root=(sudo)
    fi
    say "installing $* for $command"
    # A source of packages that is out of order need not matter: the next command tells.
    "${root[@]}" apt-get -qq update || true
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >&2
}

want_toolchain() {
    if ! type -P cargo >/dev/null; then
        fail "cargo is missing: install a Rust toolchain, see rust-version in Cargo.toml"
    fi
    want cc gcc libc6-dev
}

# One run at a time fetches into $target. The lock goes with the subshell that took it: a `$(...)`, or a function whose
# body is one.
lock() {
    local descriptor
    mkdir -p "$target"
    exec {descriptor}>"$target/.packaging.lock"
    flock "$descriptor"
}

# The programs that are packaged: each has a folder with its unit, manual, completions and what is special to its package.
programs() {
    local control
    for control in packaging/*/control; do basename "${control%/control}"; done
}

# want_program NAME: fails unless it is one of them.
want_program() {
    [[ -f packaging/$1/control ]] || fail "there is no program \"$1\": packaging/$1/control is missing"
}

# What is called at the end of the script, the last one first, with the exit status; however the script ends.
at_end=()
interrupted=false

end() {
    local status=$? index
    trap '' INT TERM HUP
    for ((index = ${#at_end[@]} - 1; index >= 0; index--)); do "${at_end[index]}" "$status" || true; done
    exit "$status"
}
trap end EXIT
trap 'interrupted=true; exit 130' INT TERM HUP

# own_directory: makes $directory, a new folder that is gone at the end.
own_directory() {
    directory=$(mktemp -d "${TMPDIR:-/tmp}/mesh-${0##*/}.XXXXXXXX")
    at_end+=(remove_directory)
}

remove_directory() {
    rm -rf "$directory"
}

# busy WHAT COMMAND...: runs a command that takes its time, and tells every few seconds that it still runs and what it last
# wrote. What it wrote is shown in full if it fails. Needs own_directory.
busy() {
    local what=$1 begun=$SECONDS log=$directory/busy.out
    shift
    "$@" >"$log" 2>&1 &
    busy=$!
    while ! timeout 3 tail --pid="$busy" --sleep-interval=0.1 -f /dev/null; do
        say "$what: $((SECONDS - begun)) s, $(tail -n 1 "$log" | sed 's/^ *//' | cut -c 1-80)"
    done
    if ! wait "$busy"; then
        cat "$log" >&2
        fail "$what failed"
    fi
    busy=''
}
busy=''

stop_busy() {
    if [[ -n $busy ]]; then kill -TERM "$busy" 2>/dev/null; fi
}
at_end+=(stop_busy)
