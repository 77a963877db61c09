# shellcheck shell=bash
# Sourced after servers.sh: a bus of its own on loopback with the shipped accounts, and what is started on it. Whatever
# is started and written outside $target is gone at the end. Several may run side by side.
#
# Whoever sources it sets `server` (a nats-server), `mesh_provisioner` and, to load the sample, `load_sample`.
#
# shellcheck disable=SC2034,SC2154,SC2317  # the script that sources it sets and uses what is not set or used here

nodes=(attic cellar garage)
declare -A password
# The processes that are stopped at the end.
bus='' seat=''
own_directory

# stop PID: asks it to end, and insists after ten seconds.
stop() {
    kill -TERM "$1" 2>/dev/null || return 0
    timeout 10 tail --pid="$1" --sleep-interval=0.1 -f /dev/null || kill -KILL "$1"
}

stop_all() {
    local pid
    for pid in $seat $bus; do stop "$pid"; done
}

# show_logs STATUS: the end of every log, when the script failed.
show_logs() {
    local log
    if (($1 == 0)) || $interrupted; then return; fi
    for log in "$directory"/*.log; do
        [[ -e $log ]] || continue
        say "-- the last lines of ${log##*/}"
        tail -n 20 "$log" >&2
    done
}
at_end+=(stop_all show_logs)

# within SECONDS WHAT COMMAND...: tries the command until it succeeds.
within() {
    local deadline=$((SECONDS + $1)) what=$2 pid
    shift 2
    until "$@"; do
        for pid in $bus $seat; do
            kill -0 "$pid" 2>/dev/null || fail "the bus or the seat ended before $what"
        done
        ((SECONDS < deadline)) || fail "timed out before $what"
        sleep 0.1
    done
}

# as USER COMMAND...: runs it with that account on the bus. A password never stands on a command line.
as() {
    local user=$1
    shift
    NATS_USER=$user NATS_PASSWORD=${password[$user]} "$@"
}

serve_bus() {
    local user
    for user in "${!password[@]}"; do export "MESH_PASSWORD_${user^^}=${password[$user]}"; done
    # The server reads the value as configuration: the quotes are for it.
    export MESH_STORE_DIR="'$directory/streams'"
    exec "$server" --config packaging/bus/nats-server.conf --port -1 --ports_file_dir "$directory"
}

bus_says_where() {
    NATS_URL=$(sed -n 's|.*"\(nats://[^"]*\)".*|\1|p' "$directory"/*.ports 2>/dev/null)
    [[ -n $NATS_URL ]]
}

# Starts the bus, with new passwords; NATS_URL is where it listens.
start_bus() {
    local user
    for user in administrator seat reader "${nodes[@]}"; do
        password[$user]=p$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    done
    serve_bus >"$directory/nats-server.log" 2>&1 &
    bus=$!
    within 10 "the bus said where it listens" bus_says_where
    export NATS_URL
}

# load_sample NODE: the node's part of the sample mesh, through its own account.
load_sample() {
    as "$1" "$load_sample" "packaging/sample/$1.txt"
}
