# shellcheck shell=bash
# Completion of mesh-provisioner-client for bash: what `mesh-provisioner-client completion bash` prints.

_mesh_provisioner_client() {
    local word path='' next
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $path/$word in
            '/serve') path='serve' ;;
            '/once') path='once' ;;
            '/plan') path='plan' ;;
            '/explain') path='explain' ;;
            '/lint') path='lint' ;;
            '/join') path='join' ;;
            '/check') path='check' ;;
            '/status') path='status' ;;
            '/health') path='health' ;;
            '/completion') path='completion' ;;
            '/version') path='version' ;;
        esac
    done
    case $path in
        '') next='serve once plan explain lint join check status health completion version --help --version' ;;
        'serve') next='--help --root --server --tls-ca --status-file' ;;
        'once') next='--help --root --server --tls-ca --timeout' ;;
        'plan') next='--help --root --server --tls-ca --diff --timeout' ;;
        'explain') next='--help --root --status-file' ;;
        'lint') next='--help --declare --manifest --assignment --all' ;;
        'join') next='--help --root --user --address --tls-ca --host-program --timeout' ;;
        'check') next='--help --root --server --tls-ca' ;;
        'status') next='--help --root --status-file --json' ;;
        'health') next='--help --root --status-file' ;;
        'completion') next='--help bash zsh fish' ;;
        'version') next='--help' ;;
    esac
    word=${COMP_WORDS[COMP_CWORD]}
    mapfile -t COMPREPLY < <(compgen -W "$next" -- "$word")
    if ((${#COMPREPLY[@]} == 0)); then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "${word##*=}")
    fi
}
complete -F _mesh_provisioner_client mesh-provisioner-client
