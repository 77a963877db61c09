# shellcheck shell=bash
# Sourced by packaging/container/test: how the seat is tried in a container.
#
# shellcheck disable=SC2034,SC2154,SC2317  # the script that sources it sets and uses what is not set or used here

account=seat

prepare() {
    as administrator "$mesh_provisioner" init >/dev/null
}

serves() {
    [[ $(as reader "$mesh_provisioner" ask health --json 2>/dev/null) == *'"ready":true'* ]]
}
