# shellcheck shell=bash
# Completion of mesh-controller for bash: what `mesh-controller completion bash` prints.

_mesh_controller() {
    local word path='' next
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $path/$word in
            '/status') path='status' ;;
            '/plan') path='plan' ;;
            '/push') path='push' ;;
            '/assign') path='assign' ;;
            '/unassign') path='unassign' ;;
            '/node') path='node' ;;
            'node/add') path='node add' ;;
            'node/set') path='node set' ;;
            'node/access') path='node access' ;;
            'node/list') path='node list' ;;
            'node/show') path='node show' ;;
            'node/remove') path='node remove' ;;
            '/module') path='module' ;;
            'module/check') path='module check' ;;
            'module/add') path='module add' ;;
            'module/list') path='module list' ;;
            'module/show') path='module show' ;;
            'module/forget') path='module forget' ;;
            'module/issue') path='module issue' ;;
            '/settings') path='settings' ;;
            'settings/set') path='settings set' ;;
            'settings/clear') path='settings clear' ;;
            'settings/show') path='settings show' ;;
            '/secret') path='secret' ;;
            'secret/accept') path='secret accept' ;;
            'secret/list') path='secret list' ;;
            'secret/rotate') path='secret rotate' ;;
            'secret/export') path='secret export' ;;
            'secret/recover') path='secret recover' ;;
            '/seats') path='seats' ;;
            '/declare') path='declare' ;;
            '/acts') path='acts' ;;
            '/token') path='token' ;;
            'token/issue') path='token issue' ;;
            'token/list') path='token list' ;;
            'token/revoke') path='token revoke' ;;
            '/broker') path='broker' ;;
            '/serve') path='serve' ;;
            '/operator') path='operator' ;;
            'operator/key') path='operator key' ;;
            'operator key/make') path='operator key make' ;;
            'operator key/set') path='operator key set' ;;
            'operator key/show') path='operator key show' ;;
            '/identity') path='identity' ;;
            '/migrate') path='migrate' ;;
            '/prepare') path='prepare' ;;
            '/init') path='init' ;;
            '/doctor') path='doctor' ;;
            '/health') path='health' ;;
            '/completion') path='completion' ;;
        esac
    done
    case $path in
        '') next='status plan push assign unassign node module settings secret seats declare acts token broker serve operator identity migrate prepare init doctor health completion --help --version --color' ;;
        'status') next='--help --json' ;;
        'plan') next='--help --files --json' ;;
        'push') next='--help --behind --yes --why --server --creds --nkey --user --tls-ca --tls-cert --tls-key --context' ;;
        'assign') next='--help --why' ;;
        'unassign') next='--help --why' ;;
        'node') next='add set access list show remove --help' ;;
        'node add') next='--help --adopted --address --zone' ;;
        'node set') next='--help --adopted --address --zone' ;;
        'node access') next='--help' ;;
        'node list') next='--help --json' ;;
        'node show') next='--help --json' ;;
        'node remove') next='--help --why' ;;
        'module') next='check add list show forget issue --help' ;;
        'module check') next='--help' ;;
        'module add') next='--help --why' ;;
        'module list') next='--help --json' ;;
        'module show') next='--help --json' ;;
        'module forget') next='--help' ;;
        'module issue') next='--help --node --public-key --server --creds --nkey --user --tls-ca --tls-cert --tls-key --context' ;;
        'settings') next='set clear show --help' ;;
        'settings set') next='--help --node --why' ;;
        'settings clear') next='--help --node --why' ;;
        'settings show') next='--help --node --json' ;;
        'secret') next='accept list rotate export recover --help' ;;
        'secret accept') next='--help --from --server --creds --nkey --user --tls-ca --tls-cert --tls-key --context' ;;
        'secret list') next='--help --node --json --server --creds --nkey --user --tls-ca --tls-cert --tls-key --context' ;;
        'secret rotate') next='--help --why --server --creds --nkey --user --tls-ca --tls-cert --tls-key --context' ;;
        'secret export') next='--help --out --server --creds --nkey --user --tls-ca --tls-cert --tls-key --context' ;;
        'secret recover') next='--help --key --from-export --out' ;;
        'seats') next='--help --json' ;;
        'declare') next='--help --why --server --creds --nkey --user --tls-ca --tls-cert --tls-key --context' ;;
        'acts') next='--help --days --json' ;;
        'token') next='issue list revoke --help' ;;
        'token issue') next='--help --node --new --adopted --valid --certificate --out --server --creds --nkey --user --tls-ca --tls-cert --tls-key --context' ;;
        'token list') next='--help --json' ;;
        'token revoke') next='--help' ;;
        'broker') next='--help --out --keys --replace --server --creds --nkey --user --tls-ca --tls-cert --tls-key --context' ;;
        'serve') next='--help --users-file --reload-pid --reload-command --reply-prefix --status-file --server --creds --nkey --user --tls-ca --tls-cert --tls-key --context' ;;
        'operator') next='key --help' ;;
        'operator key') next='make set show --help' ;;
        'operator key make') next='--help --out' ;;
        'operator key set') next='--help --replace' ;;
        'operator key show') next='--help --json' ;;
        'identity') next='--help --json' ;;
        'migrate') next='--help' ;;
        'prepare') next='--help' ;;
        'init') next='--help --vault --replicas --server --creds --nkey --user --tls-ca --tls-cert --tls-key --context' ;;
        'doctor') next='--help --json --server --creds --nkey --user --tls-ca --tls-cert --tls-key --context' ;;
        'health') next='--help --status-file --json' ;;
        'completion') next='--help bash zsh fish' ;;
    esac
    word=${COMP_WORDS[COMP_CWORD]}
    mapfile -t COMPREPLY < <(compgen -W "$next" -- "$word")
    if ((${#COMPREPLY[@]} == 0)); then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "${word##*=}")
    fi
}
complete -F _mesh_controller mesh-controller
