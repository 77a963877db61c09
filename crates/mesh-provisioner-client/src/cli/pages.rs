//! The manual page and the completions, out of the one table of commands that the parser is made of.

use super::{Arguments, PROGRAM};
use argh::{ArgsInfo, FlagInfoKind, Optionality, SubCommandInfo};
use std::fmt::Write as _;

fn commands() -> Vec<SubCommandInfo> {
    Arguments::get_args_info().commands
}

/// A text as roff shows it: what begins a line or stands for a character is escaped.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// Paragraphs of a note.
fn paragraphs(page: &mut String, note: &str) {
    for part in note.split("\n\n") {
        writeln!(page, ".PP\n{}", roff(&part.replace('\n', " "))).ok();
    }
}

/// The manual page.
pub fn manual() -> String {
    let info = Arguments::get_args_info();
    let name = roff(PROGRAM);
    let mut page = format!(
        ".\\\" Made of the table of commands: cargo test -p {PROGRAM} --test packaging says when it is old.\n\
         .TH {} 8 \"\" \"{name} {}\" \"System administration\"\n.SH NAME\n\
         {name} \\- finds the value of every placeholder of a node's modules\n.SH SYNOPSIS\n\
         .B {name}\n.I command\n.RI [ options ]\n.SH DESCRIPTION\n{}\n",
        name.to_uppercase(),
        env!("CARGO_PKG_VERSION"),
        roff(info.description)
    );
    for note in info.notes {
        paragraphs(&mut page, note);
    }
    page.push_str(".SH COMMANDS\n");
    for SubCommandInfo { name, command } in &info.commands {
        write!(page, ".SS {0}\n.B {0}\n", roff(name)).ok();
        for positional in command.positionals {
            let name = roff(positional.name);
            match positional.optionality {
                Optionality::Required => writeln!(page, ".I {name}").ok(),
                Optionality::Repeating | Optionality::Greedy => writeln!(page, ".IR {name} ...").ok(),
                Optionality::Optional => writeln!(page, ".RI [ {name} ]").ok(),
            };
        }
        writeln!(page, ".PP\n{}", roff(command.description)).ok();
        for flag in command.flags.iter().filter(|flag| flag.long != "--help" && !flag.hidden) {
            let option = match &flag.kind {
                FlagInfoKind::Switch => format!(".B {}", roff(flag.long)),
                FlagInfoKind::Option { arg_name } => {
                    format!(".BI {}\\~ {}", roff(flag.long), roff(arg_name))
                }
            };
            writeln!(page, ".TP\n{option}\n{}", roff(flag.description)).ok();
        }
        for note in command.notes {
            paragraphs(&mut page, note);
        }
    }
    page.push_str(END);
    page
}

const END: &str = ".SH ENVIRONMENT\n.TP\n.B MESH_TOKEN\nthe token of join, in place of an argument\n.TP\n\
.BR NATS_URL \", \" NATS_CA \", \" NATS_NKEY \", \" NATS_CREDS \", \" NATS_USER \", \" NATS_PASSWORD\n\
override what joining wrote\n.TP\n.B RUST_LOG\nwhat goes into the log: error, warn, info or debug\n\
.SH EXIT STATUS\n0 done; 1 failed; 2 plan found something; 3 something waits; 5 the host failed; \
64 the command line is wrong; 69 the bus cannot be reached, or nobody answers; 75 another client serves this node; 77 the bus \
denies a right; 78 the configuration is wrong.\n.SH FILES\n.TP\n\
.I /etc/mesh\\-provisioner\\-client/client.json\nmesh, node, servers and pin, as joining wrote them\n.TP\n\
.I /var/lib/mesh\\-provisioner\\-client/bus.nk\nthe seed of this node's key on the bus, mode 0600\n.TP\n\
.I /var/lib/mesh\\-provisioner\\-client/journal\nwhat was handed over, and how it ended; no value is in it\n.TP\n\
.I /run/mesh\\-provisioner\\-client/status.json\nhow every module stands\n.TP\n\
.I /run/mesh\\-host/host.sock\nthe host\n.SH SEE ALSO\n.BR mesh\\-host (8),\n\
/usr/share/doc/mesh\\-provisioner\\-client\n";

/// The completion for bash.
pub fn bash() -> String {
    let commands = commands();
    let names: Vec<&str> = commands.iter().map(|one| one.name).collect();
    let names = names.join(" ");
    let mut script = format!(
        "# shellcheck shell=bash\n# Completion of {PROGRAM} for bash: what `{PROGRAM} completion bash` prints.\n\n\
         _mesh_provisioner_client() {{\n    local word=${{COMP_WORDS[COMP_CWORD]}} command='' each next\n    \
         for each in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n        if [[ ' {names} ' == *\" $each \"* ]]; then\n            \
         command=$each\n            break\n        fi\n    done\n    case $command in\n        '') next='{names} --help --version' ;;\n"
    );
    for SubCommandInfo { name, command } in &commands {
        let mut next: Vec<&str> =
            command.flags.iter().filter(|flag| !flag.hidden).map(|flag| flag.long).collect();
        if *name == "completion" {
            next.extend(["bash", "zsh", "fish"]);
        }
        writeln!(script, "        {name}) next='{}' ;;", next.join(" ")).ok();
    }
    script.push_str(
        "    esac\n    mapfile -t COMPREPLY < <(compgen -W \"$next\" -- \"$word\")\n    if ((${#COMPREPLY[@]} == 0)); then\n        \
         compopt -o filenames 2>/dev/null\n        mapfile -t COMPREPLY < <(compgen -f -- \"${word##*=}\")\n    fi\n}\n\
         complete -F _mesh_provisioner_client mesh-provisioner-client\n",
    );
    script
}

/// The completion for zsh, which reads that for bash.
pub fn zsh() -> String {
    format!(
        "#compdef {PROGRAM}\n# Completion of {PROGRAM} for zsh: what `{PROGRAM} completion zsh` prints.\n\n\
         autoload -U +X bashcompinit && bashcompinit\nsource <({PROGRAM} completion bash)\n"
    )
}

/// The completion for fish.
pub fn fish() -> String {
    let mut script = format!(
        "# Completion of {PROGRAM} for fish: what `{PROGRAM} completion fish` prints.\n\ncomplete -c {PROGRAM} -f\n"
    );
    let told = |text: &str| text.replace('\'', "");
    for SubCommandInfo { name, command } in commands() {
        let what = told(command.description);
        writeln!(script, "complete -c {PROGRAM} -n __fish_use_subcommand -a {name} -d '{what}'").ok();
        if name == "lint" {
            writeln!(script, "complete -c {PROGRAM} -n '__fish_seen_subcommand_from lint' -F").ok();
        }
        for flag in command.flags.iter().filter(|flag| !flag.hidden && flag.long != "--help") {
            let takes = if matches!(flag.kind, FlagInfoKind::Switch) { "" } else { " -r -F" };
            let (long, what) = (flag.long.trim_start_matches('-'), told(flag.description));
            writeln!(
                script,
                "complete -c {PROGRAM} -n '__fish_seen_subcommand_from {name}' -l {long}{takes} -d '{what}'"
            )
            .ok();
        }
    }
    script
}
