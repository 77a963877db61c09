//! The manual page and the completions of a program, out of the table of commands that its parser is made of.

use argh::{CommandInfoWithArgs, FlagInfo, FlagInfoKind, Optionality};
use std::fmt::Write;

/// What the pages of a program are made of.
#[derive(Debug)]
pub struct Pages {
    /// The program's name, as it is typed.
    pub program: &'static str,
    /// What it does, for the first line of the manual.
    pub summary: &'static str,
    /// Its commands and options.
    pub info: CommandInfoWithArgs,
    /// The last sections of the manual as roff, from the exit codes on.
    pub closing: &'static str,
}

/// A command without commands of its own, and the words that lead to it.
struct Leaf<'a> {
    words: String,
    info: &'a CommandInfoWithArgs,
}

/// Options that say how to connect; the manual has them once.
const CONNECTING: [&str; 8] =
    ["--server", "--creds", "--nkey", "--user", "--tls-ca", "--tls-cert", "--tls-key", "--context"];

/// What a positional of this name is completed with.
const SHELLS: (&str, &str) = ("shell", "bash zsh fish");

/// Positionals of these names are files.
const FILES: [&str; 4] = ["file", "files", "path", "paths"];

impl Pages {
    /// The manual page.
    pub fn manual(&self) -> String {
        let (program, info) = (self.program, &self.info);
        let name = roff(program);
        let mut found = Vec::new();
        leaves("", info, &mut found);
        let mut page = format!(
            ".\\\" Made of the table of commands: cargo test -p {program} --test packaging tells when it is old.\n\
             .TH {} 8 \"\" \"{name} {}\" \"System administration\"\n.SH NAME\n\
             {name} \\- {}\n.SH SYNOPSIS\n\
             .B {name}\n.RI [ options ]\n.I command\n.RI [ options ]\n.SH DESCRIPTION\n{}\n",
            name.to_uppercase(),
            env!("CARGO_PKG_VERSION"),
            roff(self.summary),
            roff(info.description)
        );
        paragraphs(&mut page, info.notes);
        page.push_str(".SH COMMANDS\n");
        for leaf in &found {
            write!(page, ".SS {0}\n.B {0}\n", roff(&leaf.words)).ok();
            for positional in leaf.info.positionals {
                let name = roff(positional.name);
                match positional.optionality {
                    Optionality::Required => writeln!(page, ".I {name}").ok(),
                    Optionality::Repeating | Optionality::Greedy => writeln!(page, ".IR {name} ...").ok(),
                    Optionality::Optional => writeln!(page, ".RI [ {name} ]").ok(),
                };
            }
            writeln!(page, ".PP\n{}", roff(leaf.info.description)).ok();
            for flag in own_flags(leaf.info).filter(|flag| !CONNECTING.contains(&flag.long)) {
                option(&mut page, flag);
            }
            if connects(leaf) {
                page.push_str(".PP\nIt connects to the bus: see OPTIONS TO CONNECT.\n");
            }
            paragraphs(&mut page, leaf.info.notes);
        }
        page.push_str(".SH OPTIONS TO CONNECT\n");
        let connecting = found.iter().find(|leaf| connects(leaf)).map(|leaf| leaf.info.flags);
        for flag in connecting.into_iter().flatten().filter(|flag| CONNECTING.contains(&flag.long)) {
            option(&mut page, flag);
        }
        page.push_str(self.closing);
        page
    }

    /// Every place of the command line: the words that lead there, and what may follow.
    fn places(&self) -> Vec<(String, Vec<&str>)> {
        fn walk<'a>(words: &str, info: &'a CommandInfoWithArgs, found: &mut Vec<(String, Vec<&'a str>)>) {
            let mut next: Vec<&str> = info.commands.iter().map(|inner| inner.name).collect();
            next.extend(info.flags.iter().filter(|flag| !flag.hidden).map(|flag| flag.long));
            if takes_shell(info) {
                next.push(SHELLS.1);
            }
            found.push((words.to_owned(), next));
            for inner in &info.commands {
                walk(format!("{words} {}", inner.name).trim_start(), &inner.command, found);
            }
        }
        let mut found = Vec::new();
        walk("", &self.info, &mut found);
        found
    }

    /// The completion for bash.
    pub fn bash(&self) -> String {
        let program = self.program;
        let function = format!("_{}", program.replace('-', "_"));
        let mut script = format!(
            "# shellcheck shell=bash\n# Completion of {program} for bash: what `{program} completion bash` prints.\n\n\
             {function}() {{\n    local word path='' next\n    for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n        \
             case $path/$word in\n"
        );
        let places = self.places();
        for (words, _) in places.iter().filter(|(words, _)| !words.is_empty()) {
            let (before, last) = words.rsplit_once(' ').unwrap_or(("", words));
            writeln!(script, "            '{before}/{last}') path='{words}' ;;").ok();
        }
        script.push_str("        esac\n    done\n    case $path in\n");
        for (words, next) in &places {
            writeln!(script, "        '{words}') next='{}' ;;", next.join(" ")).ok();
        }
        write!(
            script,
            "    esac\n    word=${{COMP_WORDS[COMP_CWORD]}}\n    mapfile -t COMPREPLY < <(compgen -W \"$next\" -- \"$word\")\n    \
             if ((${{#COMPREPLY[@]}} == 0)); then\n        compopt -o filenames 2>/dev/null\n        \
             mapfile -t COMPREPLY < <(compgen -f -- \"${{word##*=}}\")\n    fi\n}}\ncomplete -F {function} {program}\n",
        )
        .ok();
        script
    }

    /// The completion for zsh, which reads that for bash.
    pub fn zsh(&self) -> String {
        let program = self.program;
        format!(
            "#compdef {program}\n# Completion of {program} for zsh: what `{program} completion zsh` prints.\n\n\
             autoload -U +X bashcompinit && bashcompinit\nsource <({program} completion bash)\n"
        )
    }

    /// The completion for fish.
    pub fn fish(&self) -> String {
        let program = self.program;
        let mut script = format!(
            "# Completion of {program} for fish: what `{program} completion fish` prints.\n\ncomplete -c {program} -f\n"
        );
        let mut line = |when: &str, rest: &str| {
            writeln!(script, "complete -c {program} -n {when} {rest}").ok();
        };
        for inner in &self.info.commands {
            let (name, command) = (inner.name, &inner.command);
            line("__fish_use_subcommand", &format!("-a {name} -d '{}'", quoted(command.description)));
            let mut commands = vec![(format!("'__fish_seen_subcommand_from {name}'"), command)];
            let names: Vec<&str> = command.commands.iter().map(|deeper| deeper.name).collect();
            for deeper in &command.commands {
                let seen = format!("__fish_seen_subcommand_from {name}");
                line(
                    &format!("'{seen}; and not __fish_seen_subcommand_from {}'", names.join(" ")),
                    &format!("-a {} -d '{}'", deeper.name, quoted(deeper.command.description)),
                );
                let when = format!("'{seen}; and __fish_seen_subcommand_from {}'", deeper.name);
                commands.push((when, &deeper.command));
            }
            for (when, command) in commands {
                if takes_shell(command) {
                    line(&when, &format!("-a '{}'", SHELLS.1));
                }
                if command.positionals.iter().any(|positional| FILES.contains(&positional.name)) {
                    line(&when, "-F");
                }
                for flag in own_flags(command) {
                    let takes = if matches!(flag.kind, FlagInfoKind::Switch) { "" } else { " -r -F" };
                    let long = flag.long.trim_start_matches('-');
                    line(&when, &format!("-l {long}{takes} -d '{}'", quoted(flag.description)));
                }
            }
        }
        script
    }
}

fn leaves<'a>(words: &str, info: &'a CommandInfoWithArgs, found: &mut Vec<Leaf<'a>>) {
    for inner in &info.commands {
        let words = if words.is_empty() { inner.name.to_owned() } else { format!("{words} {}", inner.name) };
        if inner.command.commands.is_empty() {
            found.push(Leaf { words, info: &inner.command });
        } else {
            leaves(&words, &inner.command, found);
        }
    }
}

fn connects(leaf: &Leaf<'_>) -> bool {
    leaf.info.flags.iter().any(|flag| flag.long == CONNECTING[0])
}

fn takes_shell(info: &CommandInfoWithArgs) -> bool {
    info.positionals.iter().any(|positional| positional.name == SHELLS.0)
}

/// The options of a command that are shown, but for `--help`.
fn own_flags(info: &CommandInfoWithArgs) -> impl Iterator<Item = &FlagInfo<'static>> {
    info.flags.iter().filter(|flag| flag.long != "--help" && !flag.hidden)
}

/// A text as roff shows it: what begins a line or stands for a character is escaped.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// The paragraphs of notes.
fn paragraphs(page: &mut String, notes: &[&str]) {
    for part in notes.iter().flat_map(|note| note.split("\n\n")) {
        writeln!(page, ".PP\n{}", roff(&part.replace('\n', " "))).ok();
    }
}

fn option(page: &mut String, flag: &FlagInfo<'_>) {
    let long = roff(flag.long);
    let option = match &flag.kind {
        FlagInfoKind::Switch => format!(".B {long}"),
        FlagInfoKind::Option { arg_name } => format!(".BI {long}\\~ {}", roff(arg_name)),
    };
    writeln!(page, ".TP\n{option}\n{}", roff(flag.description)).ok();
}

/// A text between the quotation marks of fish.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}
