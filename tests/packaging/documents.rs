//! The tables of the documents against the code: what the page of the seat quotes is in the sources, and PROTOCOL lists exactly the
//! exit codes and the reasons that there are.

use super::file;
use mesh_daemon::exit::Exit;
use mesh_provisioner_api::reason::Reason;
use std::fs;
use std::path::{Path, PathBuf};

/// The cells of a document's table rows below a heading, up to the next heading of any rank.
pub(super) fn rows(document: &str, heading: &str) -> Vec<Vec<String>> {
    let text = file(document);
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let rows: Vec<Vec<String>> = lines
        .take_while(|line| !line.starts_with('#'))
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|line| line.split(" | ").map(str::to_owned).collect())
        .collect();
    assert!(rows.len() > 1, "{document} has no table below {heading:?}");
    // The first row has the headings.
    rows[1..].to_vec()
}

/// The string literals and other code of all Rust sources, without comments and unit tests.
fn code() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    let mut folders: Vec<PathBuf> = vec![root.join("src"), root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && name != "target" && name != "tests" {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).expect("a source");
                let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
                lines.filter(|line| !line.trim_start().starts_with("//")).for_each(|line| {
                    code.push_str(line.trim_start());
                    code.push('\n');
                });
            }
        }
    }
    code
}

/// What a quoted message holds between its `…`, without the prefix that `ask` puts before errors.
fn fragments(quoted: &str) -> Vec<&str> {
    let is_prefix = |part: &str| part.strip_prefix("error ").is_some_and(|code| code.parse::<u16>().is_ok());
    let message = match quoted.split_once(": ") {
        Some((prefix, rest)) if is_prefix(prefix) => rest,
        _ => quoted,
    };
    message.split('…').map(|part| part.trim_matches([' ', ':'])).filter(|part| !part.is_empty()).collect()
}

#[test]
fn the_page_of_the_seat_quotes_only_messages_that_the_sources_hold() {
    let code = code();
    let mut missing = Vec::new();
    let mut quoted = 0;
    for row in rows("docs/mesh-provisioner.md", "## When something is wrong") {
        assert_eq!(row.len(), 3, "{row:?}");
        assert!(row.iter().all(|cell| !cell.trim().is_empty()), "no cause or no next step: {row:?}");
        for message in row[0].split('`').skip(1).step_by(2) {
            quoted += 1;
            missing.extend(
                fragments(message)
                    .into_iter()
                    .filter(|part| !code.contains(part))
                    .map(|part| format!("{part:?} of {message:?}")),
            );
        }
    }
    assert!(quoted >= 10, "{quoted} messages are quoted: are they written in another way?");
    assert!(missing.is_empty(), "not in the sources:\n{}", missing.join("\n"));
}

#[test]
fn a_quoted_message_is_cut_where_the_sources_fill_it_in() {
    assert_eq!(fragments("error 503: bucket … does not exist"), ["bucket", "does not exist"]);
    assert_eq!(fragments("registry key …: … restored to …"), ["registry key", "restored to"]);
}

#[test]
fn protocol_lists_exactly_the_exit_codes() {
    let listed: Vec<String> =
        rows("PROTOCOL.md", "## Exit codes").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(listed, Exit::ALL.map(|exit| exit.code().to_string()));
}

#[test]
fn protocol_lists_exactly_the_reasons_with_their_codes() {
    let listed: Vec<[String; 2]> = rows("PROTOCOL.md", "### Errors")
        .into_iter()
        .map(|row| [row[0].clone(), row[1].trim_matches('`').to_owned()])
        .collect();
    assert_eq!(listed, Reason::ALL.map(|reason| [reason.code().to_string(), reason.word().to_owned()]));
}
