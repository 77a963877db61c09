# Completion of mesh-provisioner for fish: what `mesh-provisioner completion fish` prints.

function __mesh_provisioner_candidates
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] completion candidates -- $words[2..-1] 2>/dev/null)
    if test "$found[1]" = :files
        __fish_complete_path (commandline -ct | string replace -r '^--[^=]*=' '')
        return
    end
    printf '%s\n' $found
end

complete -c mesh-provisioner -f -a '(__mesh_provisioner_candidates)'
