//! The manual page and the completions, out of the one table of commands that the parser is made of.

use super::{Arguments, PROGRAM};
use argh::{ArgsInfo, CommandInfoWithArgs, FlagInfoKind, Optionality};
use std::fmt::Write;

/// What is known of a command.
type Info = CommandInfoWithArgs;

/// A command and the words that lead to it.
struct Leaf<'a> {
    words: String,
    info: &'a Info,
}

fn leaves<'a>(words: &str, info: &'a Info, found: &mut Vec<Leaf<'a>>) {
    for inner in &info.commands {
        let words = if words.is_empty() { inner.name.to_owned() } else { format!("{words} {}", inner.name) };
        if inner.command.commands.is_empty() {
            found.push(Leaf { words, info: &inner.command });
        } else {
            leaves(&words, &inner.command, found);
        }
    }
}

/// Options that say how to connect; the manual has them once.
const CONNECTING: [&str; 8] =
    ["--server", "--creds", "--nkey", "--user", "--tls-ca", "--tls-cert", "--tls-key", "--context"];

/// A text as roff shows it: what begins a line or stands for a character is escaped.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// The manual page.
pub fn manual() -> String {
    let info = Arguments::get_args_info();
    let mut found = Vec::new();
    leaves("", &info, &mut found);
    let mut page = format!(
        ".\\\" Made of the table of commands: cargo test -p mesh-controller --test packaging says when it is old.\n\
         .TH MESH\\-CONTROLLER 8 \"\" \"mesh\\-controller {}\" \"System administration\"\n.SH NAME\n\
         mesh\\-controller \\- decides and signs what each node of a mesh runs\n.SH SYNOPSIS\n\
         .B mesh\\-controller\n.RI [ options ]\n.I command\n.RI [ options ]\n.SH DESCRIPTION\n{}\n",
        env!("CARGO_PKG_VERSION"),
        roff(info.description)
    );
    for note in info.notes {
        for part in note.split("\n\n") {
            writeln!(page, ".PP\n{}", roff(&part.replace('\n', " "))).ok();
        }
    }
    page.push_str(".SH COMMANDS\n");
    for leaf in &found {
        let mut usage = format!(".B {}\n", roff(&leaf.words));
        for positional in leaf.info.positionals {
            let name = roff(positional.name);
            match positional.optionality {
                Optionality::Required => writeln!(usage, ".I {name}").ok(),
                Optionality::Repeating | Optionality::Greedy => writeln!(usage, ".IR {name} ...").ok(),
                Optionality::Optional => writeln!(usage, ".RI [ {name} ]").ok(),
            };
        }
        write!(page, ".SS {}\n{usage}.PP\n{}\n", roff(&leaf.words), roff(leaf.info.description)).ok();
        let connects = leaf.info.flags.iter().any(|flag| flag.long == CONNECTING[0]);
        let own = leaf
            .info
            .flags
            .iter()
            .filter(|flag| flag.long != "--help" && !CONNECTING.contains(&flag.long) && !flag.hidden);
        for flag in own {
            write!(page, ".TP\n{}{}\n", option(flag.long, &flag.kind), roff(flag.description)).ok();
        }
        if connects {
            page.push_str(".PP\nIt connects to the bus: see OPTIONS TO CONNECT.\n");
        }
        for note in leaf.info.notes {
            writeln!(page, ".PP\n{}", roff(&note.replace('\n', " "))).ok();
        }
    }
    page.push_str(".SH OPTIONS TO CONNECT\n");
    let connecting = found.iter().find(|leaf| leaf.info.flags.iter().any(|flag| flag.long == CONNECTING[0]));
    for flag in
        connecting.iter().flat_map(|leaf| leaf.info.flags).filter(|flag| CONNECTING.contains(&flag.long))
    {
        write!(page, ".TP\n{}{}\n", option(flag.long, &flag.kind), roff(flag.description)).ok();
    }
    page.push_str(END);
    page
}

const END: &str = ".SH EXIT STATUS\n0 done; 1 refused or failed; 2 plan found something; 3 status is not well; 64 the command line is wrong; 69 the bus \
cannot be reached, or the store is in use; 77 the bus denies a right; 78 the configuration is wrong.\n.SH FILES\n.TP\n\
.I /var/lib/mesh\\-controller/inventory.db\nnodes, modules, settings, assignments, what was sent\n.TP\n\
.I /var/lib/mesh\\-controller/identity.db\nkeys, tokens, accounts\n.TP\n.I /var/lib/mesh\\-controller/identity.nk\n\
the mesh's key, mode 0600: keep a copy of it off this machine\n.SH SEE ALSO\n.BR mesh\\-provisioner (8),\n\
/usr/share/doc/mesh\\-controller\n";

fn option(long: &str, kind: &FlagInfoKind<'_>) -> String {
    match kind {
        FlagInfoKind::Switch => format!(".B {}\n", roff(long)),
        FlagInfoKind::Option { arg_name } => format!(".BI {}\\~ {}\n", roff(long), roff(arg_name)),
    }
}

/// The flags of a command, and after which of them a file is named.
fn flags(info: &Info) -> Vec<String> {
    info.flags.iter().filter(|flag| !flag.hidden).map(|flag| flag.long.to_owned()).collect()
}

/// Every place of the command line: the words that lead there, and what may follow.
fn places() -> Vec<(String, Vec<String>)> {
    fn walk(words: &str, info: &Info, found: &mut Vec<(String, Vec<String>)>) {
        let mut next: Vec<String> = info.commands.iter().map(|inner| inner.name.to_owned()).collect();
        next.extend(flags(info));
        found.push((words.to_owned(), next));
        for inner in &info.commands {
            walk(format!("{words} {}", inner.name).trim_start(), &inner.command, found);
        }
    }
    let mut found = Vec::new();
    walk("", &Arguments::get_args_info(), &mut found);
    found
}

/// The completion for bash.
pub fn bash() -> String {
    let mut script = format!(
        "# shellcheck shell=bash\n# Completion of {PROGRAM} for bash: what `{PROGRAM} completion bash` prints.\n\n\
         _mesh_controller() {{\n    local word path='' next\n    for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n        \
         case $path/$word in\n"
    );
    let places = places();
    for (words, _) in places.iter().filter(|(words, _)| !words.is_empty()) {
        let (before, last) = words.rsplit_once(' ').unwrap_or(("", words));
        writeln!(script, "            '{before}/{last}') path='{words}' ;;").ok();
    }
    script.push_str("        esac\n    done\n    case $path in\n");
    for (words, next) in &places {
        writeln!(script, "        '{words}') next='{}' ;;", next.join(" ")).ok();
    }
    script.push_str(
        "    esac\n    word=${COMP_WORDS[COMP_CWORD]}\n    mapfile -t COMPREPLY < <(compgen -W \"$next\" -- \"$word\")\n    \
         if ((${#COMPREPLY[@]} == 0)); then\n        compopt -o filenames 2>/dev/null\n        \
         mapfile -t COMPREPLY < <(compgen -f -- \"${word##*=}\")\n    fi\n}\ncomplete -F _mesh_controller mesh-controller\n",
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
    let info = Arguments::get_args_info();
    for inner in &info.commands {
        writeln!(
            script,
            "complete -c {PROGRAM} -n __fish_use_subcommand -a {} -d '{}'",
            inner.name,
            told(&inner.command)
        )
        .ok();
        let mut commands: Vec<(String, &Info)> = vec![(String::new(), &inner.command)];
        for deeper in &inner.command.commands {
            let names: Vec<&str> = inner.command.commands.iter().map(|one| one.name).collect();
            let when = format!(
                "__fish_seen_subcommand_from {}; and not __fish_seen_subcommand_from {}",
                inner.name,
                names.join(" ")
            );
            writeln!(
                script,
                "complete -c {PROGRAM} -n '{when}' -a {} -d '{}'",
                deeper.name,
                told(&deeper.command)
            )
            .ok();
            commands.push((format!("; and __fish_seen_subcommand_from {}", deeper.name), &deeper.command));
        }
        for (more, command) in commands {
            for flag in command.flags.iter().filter(|flag| !flag.hidden && flag.long != "--help") {
                let takes = if matches!(flag.kind, FlagInfoKind::Switch) { "" } else { " -r -F" };
                let when = format!("__fish_seen_subcommand_from {}{more}", inner.name);
                let (name, what) = (flag.long.trim_start_matches('-'), flag.description.replace('\'', ""));
                writeln!(script, "complete -c {PROGRAM} -n '{when}' -l {name}{takes} -d '{what}'").ok();
            }
        }
    }
    script
}

fn told(info: &Info) -> String {
    info.description.replace('\'', "")
}
