//! The package manager: dpkg and apt.

use super::command::{ANSWER, Command, Ran};
use crate::facts::{Answer, Question};
use crate::outcome::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long an answer may take.
const LOOK: Duration = Duration::from_secs(20);
/// How long a transaction may take, in seconds, waiting for the lock included.
const TRANSACTION: u64 = 1_800;
/// How long apt waits for the lock that another process has, in seconds.
const LOCK: u64 = 60;

/// The package manager of this machine.
#[derive(Debug)]
pub(super) struct Packages {
    /// Whether there is systemd, which keeps a transaction alive when this program is replaced by it.
    units: bool,
    /// What is installed next, together.
    next: BTreeSet<String>,
    /// What was installed together already.
    done: BTreeSet<String>,
    updated: bool,
    configured: bool,
}

impl Packages {
    pub(super) const fn new(units: bool) -> Self {
        Self { units, next: BTreeSet::new(), done: BTreeSet::new(), updated: false, configured: false }
    }

    /// The status of packages: one process for all of them.
    pub(super) fn look(questions: &[&Question]) -> Vec<Answer> {
        let names: Vec<&str> = questions
            .iter()
            .filter_map(|question| match question {
                Question::Package(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        match query(&names) {
            Ok(found) => names
                .iter()
                .map(|name| found.get(*name).map_or(Answer::Absent, |status| Answer::Package(status.clone())))
                .collect(),
            Err(failure) => {
                questions.iter().map(|_| Answer::NotAnswered(failure.text().to_owned())).collect()
            }
        }
    }

    /// Hears what is installed next.
    pub(super) fn ahead(&mut self, packages: BTreeSet<String>) {
        self.next = packages;
        self.done.clear();
    }

    /// Installs a package, and all others that come next in the same transaction.
    pub(super) fn install(&mut self, package: &str) -> Result<(), Failure> {
        if self.done.contains(package) {
            return Ok(());
        }
        let together: Vec<String> = std::mem::take(&mut self.next).into_iter().collect();
        if together.len() > 1 && self.transaction(&together).is_ok() {
            self.done = together.into_iter().collect();
            return Ok(());
        }
        // One by one names the culprit.
        self.transaction(&[package.to_owned()])
    }

    fn transaction(&mut self, packages: &[String]) -> Result<(), Failure> {
        let install =
            |this: &Self| this.apt(&["install", "--yes", "--no-remove", "--"], packages)?.ok().map(drop);
        let mut failure = match install(self) {
            Err(failure @ Failure::Failed(_)) => failure,
            other => return other,
        };
        if failure.text().contains("dpkg --configure -a") && !self.configured {
            self.configured = true;
            self.run("dpkg", &["--force-confdef", "--force-confold", "--configure", "-a"], &[])?.ok()?;
            failure = match install(self) {
                Err(failure @ Failure::Failed(_)) => failure,
                other => return other,
            };
        }
        let unknown = ["Unable to locate package", "has no installation candidate", "404", "Failed to fetch"];
        if !self.updated && unknown.iter().any(|words| failure.text().contains(words)) {
            self.updated = true;
            self.apt(&["update"], &[])?.ok()?;
            return install(self);
        }
        Err(failure)
    }

    fn apt(&self, words: &[&str], packages: &[String]) -> Result<Ran, Failure> {
        let lock = format!("DPkg::Lock::Timeout={LOCK}");
        let options = [
            "-q",
            "-o",
            &lock,
            // A question about a changed configuration file is answered: the file on the machine stays.
            "-o",
            "Dpkg::Options::=--force-confdef",
            "-o",
            "Dpkg::Options::=--force-confold",
            "-o",
            "Dpkg::Use-Pty=0",
        ];
        let words: Vec<&str> = options.iter().chain(words).copied().collect();
        self.run("apt-get", &words, packages)
    }

    /// Runs a program of the package manager without a question: in a unit of its own where there are units, so that it
    /// does not end with us when the package that is replaced is ours.
    fn run(&self, program: &str, words: &[&str], packages: &[String]) -> Result<Ran, Failure> {
        let environment = [
            ("DEBIAN_FRONTEND", "noninteractive"),
            ("DEBCONF_NONINTERACTIVE_SEEN", "true"),
            ("APT_LISTCHANGES_FRONTEND", "none"),
            ("NEEDRESTART_MODE", "l"),
            ("NEEDRESTART_SUSPEND", "1"),
            ("UCF_FORCE_CONFFOLD", "1"),
        ];
        let limit = Duration::from_secs(TRANSACTION + 30);
        let command = if self.units {
            let variables = environment.iter().map(|(name, value)| format!("--setenv={name}={value}"));
            Command::new("systemd-run", limit)
                .args(["--quiet", "--pipe", "--wait", "--collect", "--service-type=exec"])
                .arg(format!("--property=RuntimeMaxSec={TRANSACTION}"))
                .arg(format!("--setenv=PATH={}", super::command::PATH))
                .args(["--setenv=LC_ALL=C", "--setenv=HOME=/root"])
                .args(variables)
                .args(["--", program])
        } else {
            let command = Command::new(program, limit);
            environment.iter().fold(command, |command, (name, value)| command.env(name, value))
        };
        command.args(words).args(packages).run().map_err(|why| why.failure())
    }
}

/// The status of each of these packages that the database knows.
fn query(names: &[&str]) -> Result<BTreeMap<String, String>, Failure> {
    let command = Command::new("dpkg-query", LOOK)
        .args(["--show", "--showformat", "${Package}\t${Architecture}\t${db:Status-Status}\n", "--"])
        .args(names)
        .keep(ANSWER);
    let ran = command.run().map_err(|why| why.failure())?;
    // It exits with 1 when it knows one of them not at all.
    if ran.code > 1 {
        return Err(Failure::NotAnswered(ran.words()));
    }
    let text = ran
        .out
        .text()
        .ok_or_else(|| Failure::NotAnswered("dpkg-query gave no text that can be read".to_owned()))?;
    Ok(parse(&text))
}

/// By name, and by name and architecture. Of one name in several architectures, one that is installed counts.
fn parse(text: &str) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split('\t');
        let (Some(name), Some(architecture), Some(status)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if status == "not-installed" {
            continue;
        }
        for key in [name.to_owned(), format!("{name}:{architecture}")] {
            let known = found.entry(key).or_default();
            if known != "installed" {
                status.clone_into(known);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_package_is_known_by_name_and_by_architecture() {
        let found = parse(
            "libc6\tamd64\tinstalled\nlibc6\ti386\tconfig-files\nold\tall\tconfig-files\nnever\tall\tnot-installed\n",
        );
        let status = |name: &str| found.get(name).map(String::as_str);
        assert_eq!((status("libc6"), status("libc6:amd64")), (Some("installed"), Some("installed")));
        assert_eq!((status("libc6:i386"), status("old")), (Some("config-files"), Some("config-files")));
        assert_eq!(status("never"), None);
    }
}
