# shellcheck shell=bash
# Completion of mesh-provisioner for bash: what `mesh-provisioner completion bash` prints.

_mesh_provisioner() {
    local line=${COMP_LINE:0:COMP_POINT} words word candidate
    read -ra words <<<"$line"
    if [[ $line == *[[:space:]] ]]; then words+=(''); fi
    word=${words[-1]}
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        if [[ $candidate == :files ]]; then
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "${word##*=}")
            return
        fi
        # The shell replaces only what follows the last = or : of the word.
        candidate=${candidate#"${word%"${word##*[=:]}"}"}
        COMPREPLY+=("$(printf '%q' "$candidate")")
    done < <("${words[0]}" completion candidates -- "${words[@]:1}" 2>/dev/null)
}
complete -F _mesh_provisioner mesh-provisioner
