# Completion of mesh-provisioner for fish.

# Whether the command is one of these. Without one it serves.
function __fish_mesh_provisioner_command
    set -l command serve
    for word in (commandline -opc)[2..-1]
        if contains -- $word serve ask plan init check permissions health
            set command $word
            break
        end
    end
    contains -- $command $argv
end

function __fish_mesh_provisioner_contexts
    set -l directory ~/.config
    if set -q XDG_CONFIG_HOME
        set directory $XDG_CONFIG_HOME
    end
    for file in $directory/nats/context/*.json
        string replace -r '.*/(.*)\.json$' '$1' $file
    end
end

set -l what registry needs applied collect gaps drift nodes collections health
set -l kinds config secret consumers bound collected shell environment contribution dir access port seat machine
set -l serve "__fish_mesh_provisioner_command serve"
set -l answering "__fish_mesh_provisioner_command serve check permissions"
set -l ask "__fish_mesh_provisioner_command ask"
set -l asked "$ask; and not __fish_seen_subcommand_from $what"
set -l role "__fish_mesh_provisioner_command permissions; and not __fish_seen_subcommand_from seat node reader"
set -l connecting "__fish_mesh_provisioner_command serve ask plan init check"

complete -c mesh-provisioner -f
complete -c mesh-provisioner -l help -d "Say how to use it"
complete -c mesh-provisioner -n __fish_use_subcommand -l version -d "Say the version"

complete -c mesh-provisioner -n __fish_use_subcommand -a serve -d "Hold the seat until TERM or INT"
complete -c mesh-provisioner -n __fish_use_subcommand -a ask -d "Ask the seat"
complete -c mesh-provisioner -n __fish_use_subcommand -a plan -d "Show what the next write of the registry would change"
complete -c mesh-provisioner -n __fish_use_subcommand -a init -d "Create the four buckets where missing"
complete -c mesh-provisioner -n __fish_use_subcommand -a check -d "Try the connection, every right and every bucket"
complete -c mesh-provisioner -n __fish_use_subcommand -a permissions -d "Print the least rights on the bus for a role"
complete -c mesh-provisioner -n __fish_use_subcommand -a health -d "Say whether the seat on this machine is alive"

complete -c mesh-provisioner -n $serve -l every -x -d "How often the registry is written"
complete -c mesh-provisioner -n $answering -l reply-prefix -x -d "Answer under this subject too"
complete -c mesh-provisioner -n "__fish_mesh_provisioner_command serve health" -l status-file -rF -d "The status file"

complete -c mesh-provisioner -n $asked -a "$what"
complete -c mesh-provisioner -n $ask -l node -x -d "Only this node"
complete -c mesh-provisioner -n $ask -l module -x -d "Only this module"
complete -c mesh-provisioner -n $ask -l kind -xa "$kinds" -d "Only this kind"
complete -c mesh-provisioner -n $ask -l collection -x -d "Only this collection"
complete -c mesh-provisioner -n $ask -l stale-after -x -d "How many seconds without a write a node is stale"
complete -c mesh-provisioner -n $ask -l limit -x -d "At most so many entries"
complete -c mesh-provisioner -n $ask -l after -x -d "Continue behind this place"
complete -c mesh-provisioner -n $ask -l all -d "Follow the pages to the end"
complete -c mesh-provisioner -n $ask -l json -d "Print each answer as it came"

complete -c mesh-provisioner -n "__fish_mesh_provisioner_command ask plan init" -l inbox-prefix -x -d "Where answers come to"

complete -c mesh-provisioner -n "__fish_mesh_provisioner_command init" -l replicas -x -d "On how many servers each new bucket is kept"

complete -c mesh-provisioner -n $role -a "seat node reader"

complete -c mesh-provisioner -n $connecting -l server -x -d "The servers of the bus"
complete -c mesh-provisioner -n $connecting -l creds -rF -d "A file with a JWT and seed"
complete -c mesh-provisioner -n $connecting -l nkey -rF -d "A file with a seed"
complete -c mesh-provisioner -n $connecting -l user -x -d "The user; the password comes from NATS_PASSWORD"
complete -c mesh-provisioner -n $connecting -l tls-ca -rF -d "The CA of the certificates of the servers"
complete -c mesh-provisioner -n $connecting -l tls-cert -rF -d "Our certificate"
complete -c mesh-provisioner -n $connecting -l tls-key -rF -d "The key of our certificate"
complete -c mesh-provisioner -n $connecting -l context -xa "(__fish_mesh_provisioner_contexts)" -d "A context of the nats tool"
