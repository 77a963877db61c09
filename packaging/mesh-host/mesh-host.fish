# Completion of mesh-host for fish.

set -l commands apply plan serve status run take forget restore confirm key check
complete -c mesh-host -f
complete -c mesh-host -n "not __fish_seen_subcommand_from $commands" -a "$commands" -l version
complete -c mesh-host -n "__fish_seen_subcommand_from $commands" -l root -r -a '(__fish_complete_directories)' -d 'a tree that is not the machine'
complete -c mesh-host -n '__fish_seen_subcommand_from apply plan' -F
complete -c mesh-host -n '__fish_seen_subcommand_from apply plan status' -l json -d 'print JSON'
complete -c mesh-host -n '__fish_seen_subcommand_from apply' -l again -d 'recreate what failed before'
complete -c mesh-host -n '__fish_seen_subcommand_from serve' -l every -x -d 'seconds between two applies'
complete -c mesh-host -n '__fish_seen_subcommand_from take' -l yes -x -d 'the digest of the preview'
complete -c mesh-host -n '__fish_seen_subcommand_from key' -a 'make show'
