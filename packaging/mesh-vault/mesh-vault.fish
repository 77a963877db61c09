# Completion of mesh-vault for fish.

set -l commands serve init key check status health version
complete -c mesh-vault -f
complete -c mesh-vault -n "not __fish_seen_subcommand_from $commands" -a serve -d 'run the vault'
complete -c mesh-vault -n "not __fish_seen_subcommand_from $commands" -a init -d 'make store and key'
complete -c mesh-vault -n "not __fish_seen_subcommand_from $commands" -a key -d "the vault's key"
complete -c mesh-vault -n "not __fish_seen_subcommand_from $commands" -a check -d 'try what it needs'
complete -c mesh-vault -n "not __fish_seen_subcommand_from $commands" -a status -d 'how it stands'
complete -c mesh-vault -n "not __fish_seen_subcommand_from $commands" -a health -d 'whether it is alive'
complete -c mesh-vault -n "not __fish_seen_subcommand_from $commands" -a version -d 'print the version'
complete -c mesh-vault -n '__fish_seen_subcommand_from key' -a 'make show'
complete -c mesh-vault -n '__fish_seen_subcommand_from serve init key check' -l store -r -F
complete -c mesh-vault -n '__fish_seen_subcommand_from serve status health' -l status-file -r -F
complete -c mesh-vault -n '__fish_seen_subcommand_from check status health' -l json
complete -c mesh-vault -n '__fish_seen_subcommand_from serve' -l remake
complete -c mesh-vault -n '__fish_seen_subcommand_from serve' -l no-recovery
complete -c mesh-vault -n '__fish_seen_subcommand_from serve' -l reply-prefix -x
complete -c mesh-vault -n '__fish_seen_subcommand_from init' -l mesh -x
complete -c mesh-vault -n '__fish_seen_subcommand_from init' -l recovery -x
complete -c mesh-vault -n '__fish_seen_subcommand_from serve check' -l server -x
complete -c mesh-vault -n '__fish_seen_subcommand_from serve check' -l user -x
complete -c mesh-vault -n '__fish_seen_subcommand_from serve check' -l context -x
for option in creds nkey tls-ca tls-cert tls-key
    complete -c mesh-vault -n '__fish_seen_subcommand_from serve check' -l $option -r -F
end
