# shellcheck shell=bash
# Completion of mesh-host for bash.

_mesh_host() {
    local word=${COMP_WORDS[COMP_CWORD]} command='' before=${COMP_WORDS[COMP_CWORD - 1]} candidate candidates
    local commands='apply plan serve status run take forget restore confirm key check'
    for candidate in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        if [[ " $commands " == *" $candidate "* ]]; then
            command=$candidate
            break
        fi
    done
    if [[ $before == --root ]]; then
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
    fi
    case $command in
        '') candidates="$commands --version --help" ;;
        apply) candidates='--root --json --again --help' ;;
        plan) candidates='--root --json --help' ;;
        serve) candidates='--root --every --help' ;;
        status) candidates='--root --json --help' ;;
        take) candidates='--root --yes --help' ;;
        key) candidates='make show --root --help' ;;
        *) candidates='--root --help' ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$candidates" -- "$word")
    if [[ $command == apply || $command == plan ]] && [[ $word != -* ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -F _mesh_host mesh-host
