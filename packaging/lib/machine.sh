# shellcheck shell=bash
# Sourced by scripts that need a real machine: one that boots systemd, with packages, users and units of its own.
# `machine_tree` makes its tree once, in $target, and prints the path. The tests lay a copy over it and boot that.

# shellcheck source=packaging/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

machine_suite=bookworm
# What is in the tree beside systemd: what the tests look with, and what they look at. Of the runtimes below podman, crun
# alone can do without control groups, which a machine in a machine may not write.
machine_packages=systemd,systemd-sysv,dbus,strace,nftables,podman,containernetworking-plugins,crun,busybox-static,libpam-systemd,firewalld

machine_tree() (
    local tree=$target/machine/base
    if ((EUID != 0)); then fail "a machine is made and booted by root"; fi
    want debootstrap debootstrap
    want systemd-nspawn systemd-container
    lock
    # A tree of other packages is made again.
    if [[ $(cat "$tree/.complete" 2>/dev/null) != "$machine_packages" ]]; then
        say "making a machine in $tree, which takes some minutes"
        rm -rf "$tree"
        mkdir -p "$(dirname "$tree")"
        debootstrap --variant=minbase "--include=$machine_packages" "$machine_suite" "$tree" >"$tree.log" 2>&1 ||
            fail "the machine cannot be made: see $tree.log"
        # A firewall runs where a test starts it.
        systemctl --quiet --root="$tree" disable firewalld.service
        printf '%s\n' "$machine_packages" >"$tree/.complete"
    fi
    printf '%s\n' "$tree"
)
