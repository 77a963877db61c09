# shellcheck shell=bash
# Completion of mesh-vault for bash.

_mesh_vault() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' part
    local connect='--server --creds --nkey --user --tls-ca --tls-cert --tls-key --context'
    for part in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        if [[ $part != -* ]]; then
            command=$part
            break
        fi
    done
    case $before in
        --store | --status-file | --creds | --nkey | --tls-ca | --tls-cert | --tls-key)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
            ;;
    esac
    local words
    case $command in
        serve) words="--store --remake --no-recovery --reply-prefix --status-file --help $connect" ;;
        init) words='--mesh --recovery --store --help' ;;
        key) words='make show --store --help' ;;
        check) words="--store --json --help $connect" ;;
        status | health) words='--status-file --json --help' ;;
        version) words='--help' ;;
        *) words='serve init key check status health version --help --version' ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _mesh_vault mesh-vault
