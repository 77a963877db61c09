//! The manual and the completions know every command, flag, variable and exit code that the program knows.

use super::{file, output, printed};
use std::collections::BTreeSet;
use std::process::Command;

const MANUAL: &str = "packaging/mesh-provisioner/mesh-provisioner.8";
const BASH: &str = "packaging/mesh-provisioner/mesh-provisioner.bash";
const ZSH: &str = "packaging/mesh-provisioner/_mesh-provisioner";
const FISH: &str = "packaging/mesh-provisioner/mesh-provisioner.fish";

/// The first words of the lines of one section of a `--help`.
fn section(help: &str, title: &str) -> BTreeSet<String> {
    let lines = help.lines().skip_while(|line| *line != title).skip(1).take_while(|line| !line.is_empty());
    // Lines that only go on with a description are indented further.
    lines
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split([' ', ',']).next())
        .map(str::to_owned)
        .collect()
}

/// The commands that the program lists.
fn commands() -> BTreeSet<String> {
    let commands = section(&printed(&["--help"]), "Commands:");
    assert!(commands.contains("serve") && commands.len() >= 4, "{commands:?}");
    commands
}

/// The flags of one command.
fn flags(command: &str) -> BTreeSet<String> {
    let flags = section(&printed(&[command, "--help"]), "Options:");
    assert!(flags.contains("--help"), "{command}: {flags:?}");
    flags
}

/// The manual as plain text, with its requests.
fn manual() -> String {
    file(MANUAL).replace("\\-", "-").replace("\\~", " ")
}

/// From one heading of the manual to the next of its rank.
#[track_caller]
fn part<'a>(manual: &'a str, heading: &str) -> &'a str {
    let rank = &heading[..3];
    let start = manual.find(heading).unwrap_or_else(|| panic!("{MANUAL} has no {heading:?}"));
    let text = &manual[start + heading.len()..];
    let end = text.find(&format!("\n{rank} ")).unwrap_or(text.len());
    text[..end].find("\n.SH ").map_or(&text[..end], |end| &text[..end])
}

/// Whether the words of `text` are among them; `--all` is not in `--allow`.
fn has_word(text: &str, word: &str) -> bool {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split(|c| !is_of_word(c)).any(|other| other == word)
}

#[test]
fn the_manual_has_every_flag_of_every_command() {
    let manual = manual();
    let connecting = part(&manual, ".SH CONNECTING");
    for command in commands() {
        let quoted = format!(".SS \"{command}");
        let heading = if manual.contains(&quoted) { quoted } else { format!(".SS {command}\n") };
        let own = part(&manual, &heading);
        for flag in flags(&command) {
            // `--help` is said once for all.
            let known = flag == "--help" || has_word(own, &flag) || has_word(connecting, &flag);
            assert!(known, "{MANUAL} does not say {command} {flag}");
            let (which, _) = connecting.split_once("\n.TP").expect("a list of the options");
            assert!(flag != "--server" || has_word(which, &command), "{MANUAL}: {command} connects");
        }
    }
    for flag in section(&printed(&["--help"]), "Options:") {
        assert!(has_word(&manual, &flag), "{MANUAL} does not say {flag}");
    }
}

#[test]
fn bash_completes_exactly_the_flags_of_each_command() {
    let complete = |line: &str| -> BTreeSet<String> {
        const SCRIPT: &str = r#"
            source "$1"; COMP_LINE=$2 COMP_POINT=${#2}
            _mesh_provisioner; printf '%s\n' "${COMPREPLY[@]}""#;
        let path = format!("{}/{BASH}", env!("CARGO_MANIFEST_DIR"));
        let program = format!("{} {line}", env!("CARGO_BIN_EXE_mesh-provisioner"));
        let printed = output(Command::new("bash").args(["-c", SCRIPT, "bash", &path, &program]));
        printed.lines().map(str::to_owned).collect()
    };
    for command in commands() {
        let mut expected = flags(&command);
        // Those of the program may stand anywhere.
        expected.extend(section(&printed(&["--help"]), "Options:"));
        assert_eq!(complete(&format!("{command} --")), expected, "{command}");
        assert!(complete(&command[..2]).contains(&command), "{command}");
    }
    assert!(complete("--vers").contains("--version"));
    assert_eq!(complete("ask dri"), BTreeSet::from(["drift".to_owned()]));
}

#[test]
fn every_shell_asks_the_program_for_the_candidates() {
    for (path, calls) in [
        (BASH, "\"${words[0]}\" completion candidates -- "),
        (ZSH, "${(q)words[1]}\" completion candidates -- "),
        (FISH, "$words[1] completion candidates -- "),
    ] {
        assert!(file(path).contains(calls), "{path} does not call {calls}");
    }
}

#[test]
fn every_variable_is_in_the_manual_and_in_the_environment_file() {
    let (config, manual, environment) =
        (file("crates/mesh-bus/src/config.rs"), manual(), file("packaging/mesh-provisioner/environment"));
    let variables: BTreeSet<&str> =
        config.split('"').filter(|word| word.starts_with("NATS_") && !word.contains(' ')).collect();
    assert!(variables.len() >= 10, "{variables:?}");
    for variable in variables {
        assert!(has_word(&manual, variable), "{MANUAL} does not say {variable}");
        assert!(
            environment.contains(&format!("\n#{variable}=")),
            "packaging/mesh-provisioner/environment has no {variable}"
        );
    }
    for line in environment.lines().filter(|line| !line.is_empty()) {
        assert!(line.starts_with('#'), "packaging/mesh-provisioner/environment sets something: {line}");
    }
}

#[test]
fn every_exit_code_is_in_the_manual() {
    let manual = manual();
    let said = part(&manual, ".SH \"EXIT STATUS\"");
    let source = file("crates/mesh-daemon/src/exit.rs");
    let codes: Vec<&str> = source
        .lines()
        .filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "))
        .map(|(_, code)| code)
        .collect();
    assert!(codes.contains(&"64") && codes.len() >= 11, "{codes:?}");
    for code in codes {
        assert!(said.contains(&format!("\n.B {code}\n")), "{MANUAL} does not say exit status {code}");
    }
}
