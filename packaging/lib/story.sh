# shellcheck shell=bash
# Sourced after servers.sh: a whole mesh on this machine, as an ordinary user: a bus of its own on loopback, the seat, the
# vault, the controller, and nodes, each with its client and its host in a folder of its own. Whatever is started and
# written outside $target is gone at the end. Several may run side by side.
#
# The script that sources it sets `server` (a nats-server). `wrong` counts the answers that are wrong.
#
# shellcheck disable=SC2034,SC2154,SC2317  # the script that sources it sets and uses what is not set or used here

own_directory
declare -A running=()
wrong=0

# stop NAME: asks a program to end, and insists after ten seconds.
stop() {
    local pid=${running[$1]:-}
    [[ -n $pid ]] || return 0
    unset "running[$1]"
    kill -TERM "$pid" 2>/dev/null || return 0
    timeout 10 tail --pid="$pid" --sleep-interval=0.1 -f /dev/null || kill -KILL "$pid"
}

# end_at_once NAME: kills a program without a word.
end_at_once() {
    local pid=${running[$1]}
    unset "running[$1]"
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null || true
}

stop_all() {
    local name stopping=()
    # The bus last: the others say their last words over it.
    for name in "${!running[@]}"; do
        [[ $name != bus ]] || continue
        stop "$name" &
        stopping+=($!)
    done
    ((${#stopping[@]} == 0)) || wait "${stopping[@]}"
    stop bus
}

# show_logs STATUS: the end of every log, when the script failed.
show_logs() {
    local log
    if (($1 == 0)) || $interrupted; then return; fi
    for log in "$directory"/log/*; do
        [[ -e $log ]] || continue
        say "-- the last lines of ${log##*/}"
        tail -n 12 "$log" >&2
    done
}
at_end+=(stop_all show_logs)

# start NAME COMMAND...: runs a program in the background; its log is $directory/log/NAME.
start() {
    local name=$1
    shift
    "$@" >>"$directory/log/$name" 2>&1 &
    running[$name]=$!
}

# within SECONDS WHAT COMMAND...: tries the command until it succeeds.
within() {
    local deadline=$((SECONDS + $1)) what=$2 name
    shift 2
    until "$@"; do
        for name in "${!running[@]}"; do
            kill -0 "${running[$name]}" 2>/dev/null || fail "$name ended before $what"
        done
        ((SECONDS < deadline)) || fail "timed out before $what"
        sleep 0.05
    done
}

# as ROLE COMMAND...: runs it with that account's key. A seed never stands on a command line.
as() {
    local role=$1
    shift
    NATS_NKEY=$directory/keys/$role.nk "$@"
}

bus_says_where() {
    NATS_URL=$(sed -n 's|.*"\(nats://[^"]*\)".*|\1|p' "$directory"/bus/*.ports 2>/dev/null)
    [[ -n $NATS_URL ]]
}

# start_bus PORT: -1 is any that is free.
start_bus() {
    rm -f "$directory"/bus/*.ports
    # The server reads the value as configuration: the quotes are for it.
    MESH_STORE_DIR="'$directory/bus/streams'" start bus \
        "$server" --config "$directory/bus/nats-server.conf" --port "$1" --ports_file_dir "$directory/bus"
    within 10 "the bus said where it listens" bus_says_where
    export NATS_URL
    echo "${running[bus]}" >"$directory/bus/pid"
}

start_controller() {
    as controller start controller mesh-controller serve --users-file "$directory/bus/users.conf" \
        --reload-pid "$directory/bus/pid" --status-file "$directory/controller.json"
}

status_says() {
    grep -q "\"ready\":true" "$1" 2>/dev/null
}

# The bus with its accounts, and the three programs that run once.
start_mesh() {
    mkdir -p "$directory"/{bin,bus,keys,log,nodes,vault,controller}
    local name
    for name in mesh-{provisioner,controller,vault,provisioner-client,host}; do ln -s "$target/debug/$name" "$directory/bin/"; done
    export PATH=$directory/bin:$PATH
    export MESH_STORE_INVENTORY=$directory/controller/inventory.db MESH_STORE_IDENTITY=$directory/controller/identity.db
    export MESH_VAULT_STORE=$directory/vault
    cp packaging/bus/mesh.conf "$directory/bus/nats-server.conf"

    show mesh-controller migrate
    mesh-controller migrate
    show mesh-controller broker users --keys keys --out users.conf
    mesh-controller broker users --keys "$directory/keys" --out "$directory/bus/users.conf"
    start_bus -1
    echo "A bus of its own listens on $NATS_URL. Each account is a public key with the least rights."

    show mesh-provisioner init
    as administrator mesh-provisioner init
    show mesh-controller init
    as administrator mesh-controller init
    local mesh vault recovery
    mesh=$(mesh-controller identity --json | jq --raw-output .key)
    show mesh-controller operator key make
    recovery=$(mesh-controller operator key make --out "$directory/keys/recovery.xk")
    echo "$recovery"
    mesh-controller operator key set "$recovery" >/dev/null
    show mesh-vault init --mesh "$mesh"
    vault=$(mesh-vault init --mesh "$mesh" | grep --only-matching 'X[A-Z2-7]\{55\}' | head -n 1)
    show mesh-controller init --vault "$vault"
    mesh-controller init --vault "$vault"

    as seat start seat mesh-provisioner serve --status-file "$directory/seat.json"
    as vault start vault mesh-vault serve --status-file "$directory/vault.json"
    start_controller
    for name in seat vault controller; do within 30 "the $name was ready" status_says "$directory/$name.json"; done
    echo "The seat, the vault and the controller serve."
}

# join_node NAME: a token, a join, and the two programs of the node.
join_node() {
    local root=$directory/nodes/$1
    mkdir -p "$root"
    mesh-controller token issue --new "$1" --out "$root/token"
    mesh-provisioner-client join - --root "$root" <"$root/token"
    rm "$root/token"
    start "host-$1" mesh-host serve --root "$root" --every 5
    start "client-$1" mesh-provisioner-client serve --root "$root"
}

chapter() {
    printf '\n== %s\n' "$*"
}

show() {
    printf '\n$ %s\n' "$*"
}

# wrongly WORDS: an answer was wrong; the story goes on, and the script fails at the end.
wrongly() {
    say "WRONG: $*"
    wrong=$((wrong + 1))
}

# tell STATUS FRAGMENT... -- COMMAND...: shows a command and what it prints, and checks its exit status and that it prints
# each fragment, and none of those that begin with `!`.
tell() {
    local expected=$1 fragments=() printed status=0 fragment
    shift
    while [[ $1 != -- ]]; do
        fragments+=("$1")
        shift
    done
    shift
    show "$@"
    printed=$(as "${role:-reader}" "$@" 2>&1) || status=$?
    printf '%s\n' "$printed"
    ((status == expected)) || wrongly "exit status $status where $expected was expected"
    for fragment in "${fragments[@]}"; do
        if [[ $fragment == !* ]]; then
            [[ $printed != *"${fragment#!}"* ]] || wrongly "it says \"${fragment#!}\""
        else
            [[ $printed == *"$fragment"* ]] || wrongly "it does not say \"$fragment\""
        fi
    done
}
