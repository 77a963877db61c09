# shellcheck shell=bash
# Completion of mesh-provisioner for bash.

_mesh_provisioner() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=serve candidate words
    local connecting='--server --creds --nkey --user --tls-ca --tls-cert --tls-key --context'
    COMPREPLY=()

    case $before in
        --creds | --nkey | --tls-ca | --tls-cert | --tls-key | --status-file)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
            ;;
        --context)
            words=$(cd "${XDG_CONFIG_HOME:-$HOME/.config}/nats/context" 2>/dev/null &&
                printf '%s\n' *.json | sed 's/\.json$//')
            mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
            return
            ;;
        --kind)
            words='config secret consumers bound collected shell environment contribution dir access port seat machine'
            mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
            return
            ;;
        --every | --reply-prefix | --server | --user | --node | --module | --collection | --stale-after | --limit | \
            --after | --inbox-prefix | --replicas)
            return
            ;;
    esac

    for candidate in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $candidate in
            serve | ask | plan | init | check | permissions | health)
                command=$candidate
                break
                ;;
        esac
    done
    case $command in
        serve) words="--every --reply-prefix --status-file $connecting" ;;
        ask)
            words="registry needs applied collect gaps drift nodes collections health --node --module --kind
                --collection --stale-after --limit --after --all --json --inbox-prefix $connecting"
            ;;
        init) words="--replicas --inbox-prefix $connecting" ;;
        plan) words="--inbox-prefix $connecting" ;;
        check) words="--reply-prefix $connecting" ;;
        permissions) words='seat node reader --reply-prefix' ;;
        health) words=--status-file ;;
    esac
    words+=' --help'
    if ((COMP_CWORD == 1)); then
        words+=' --version serve ask plan init check permissions health'
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _mesh_provisioner mesh-provisioner
