//! The container runtime: docker where it answers, else podman. It is looked for once in an apply, and everything that
//! concerns containers goes through this one handle.

mod args;
mod exec;
mod find;
mod inspect;
mod run;
mod unit;

pub use run::RunOf;

use super::command::{ANSWER, Command, NotRun, Ran};
use crate::container::ContainerStep;
use crate::facts::{Answer, Question};
use crate::machine::Tools;
use crate::outcome::Failure;
use crate::step::NetworkStep;
use find::Found;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a question may take.
const ASK: Duration = Duration::from_secs(20);
/// How long a change may take that does not wait for a container.
const CHANGE: Duration = Duration::from_secs(60);
/// How long fetching an image may take.
const PULL: Duration = Duration::from_secs(30 * 60);
/// How long one run may take if nothing is declared.
const RUN: Duration = Duration::from_secs(3600);
/// How long a container has to stop if nothing is declared, in seconds: what the runtimes take.
const STOP_S: u64 = 10;
/// Variables of the environment that say where the runtime and its settings are.
const VARIABLES: [&str; 4] = ["DOCKER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "XDG_RUNTIME_DIR"];

/// The label with the id of the resource, by which a container is known to be ours.
pub(crate) const ID_LABEL: &str = "mesh-host.id";
/// The label with the digest of all that it was made from.
pub(crate) const DIGEST_LABEL: &str = "mesh-host.digest";

/// Which runtime it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// Docker, or what answers in its place.
    Docker,
    /// Podman.
    Podman,
}

impl Name {
    /// The name of its program.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

/// A runtime that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    name: Name,
    version: String,
    /// Whether containers are started again by units of the service manager: podman has no daemon that would.
    units: bool,
}

impl Runtime {
    /// Its name and version: `podman 4.3.1`.
    pub fn words(&self) -> String {
        format!("{} {}", self.name.as_str(), self.version)
    }

    /// A command of it.
    pub fn command(&self, limit: Duration) -> Command {
        command(self.name, limit)
    }
}

fn command(name: Name, limit: Duration) -> Command {
    VARIABLES.into_iter().fold(
        Command::new(name.as_str(), limit),
        |command, variable| match std::env::var_os(variable) {
            Some(value) => command.env(variable, value),
            None => command,
        },
    )
}

/// The container runtime of this machine, once it was asked for.
#[derive(Debug)]
pub struct Runtimes {
    /// The folder of what does not outlive a boot.
    folder: PathBuf,
    found: Option<Found>,
}

impl Runtimes {
    /// Nothing is looked for yet. `folder`: what does not outlive a boot.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), found: None }
    }

    /// The runtime, looked for once.
    ///
    /// # Errors
    /// None answers.
    pub fn runtime(&mut self) -> Result<&Runtime, Failure> {
        let folder = &self.folder;
        match self.found.get_or_insert_with(|| find::find(folder)) {
            Ok(runtime) => Ok(runtime),
            Err(why) => Err(why.clone()),
        }
    }

    /// Answers questions about containers, networks and images, in order: one process for all containers, and one for all
    /// networks.
    pub fn look(&mut self, questions: &[&Question]) -> Vec<Answer> {
        let runtime = match self.runtime() {
            Ok(runtime) => runtime.clone(),
            Err(failure) => {
                let answer = match failure {
                    Failure::Failed(why) => Answer::Refused(why),
                    Failure::NotAnswered(why) => Answer::NotAnswered(why),
                };
                return questions.iter().map(|_| answer.clone()).collect();
            }
        };
        let names: Vec<&str> = questions
            .iter()
            .filter_map(|question| match question {
                Question::Container(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let containers = (!names.is_empty()).then(|| inspect::families(&runtime, &names));
        let is_network = |question: &&&Question| matches!(question, Question::Network(_));
        let networks = questions.iter().any(|question| is_network(&question)).then(|| runtime.networks());
        let answer = |question: &&Question| match question {
            Question::Container(name) => match &containers {
                Some(Ok(families)) => {
                    Answer::Container(Box::new(families.get(name).cloned().unwrap_or_default()))
                }
                Some(Err(why)) => Answer::NotAnswered(why.clone()),
                None => Answer::NotAnswered("nobody was asked".to_owned()),
            },
            Question::Network(name) => match &networks {
                Some(Ok(found)) if found.contains(name) => Answer::Present,
                Some(Ok(_)) => Answer::Absent,
                Some(Err(why)) => Answer::NotAnswered(why.clone()),
                None => Answer::NotAnswered("nobody was asked".to_owned()),
            },
            Question::Image(image) => runtime.image(image),
            _ => Answer::NotAnswered("no question for a container runtime; report this as a bug".to_owned()),
        };
        questions.iter().map(answer).collect()
    }

    /// Performs one step on containers.
    pub fn perform(&mut self, step: &ContainerStep, tools: &Tools<'_>) -> Result<(), Failure> {
        let folder = self.folder.clone();
        self.runtime()?.clone().perform(step, tools, &folder)
    }

    /// Performs one step on networks.
    pub fn perform_network(&mut self, step: &NetworkStep) -> Result<(), Failure> {
        let (word, name) = match step {
            NetworkStep::Create { name } => ("create", name),
            NetworkStep::Remove { name } => ("rm", name),
        };
        self.runtime()?.change(&["network", word, name]).map(drop)
    }
}

impl Runtime {
    /// Runs a command that changes something, and has it exit with 0.
    fn change(&self, words: &[&str]) -> Result<Ran, Failure> {
        self.within(CHANGE, words)
    }

    fn within(&self, limit: Duration, words: &[&str]) -> Result<Ran, Failure> {
        self.command(limit).args(words).run().map_err(|why| why.failure())?.ok()
    }

    /// The names of all networks.
    fn networks(&self) -> Result<Vec<String>, String> {
        let ran = self.command(ASK).args(["network", "ls", "--format", "{{.Name}}"]).keep(ANSWER).run();
        let ran = ran.map_err(|why| why.to_string())?;
        match ran.out.text() {
            Some(text) if ran.code == 0 => Ok(text.lines().map(|line| line.trim().to_owned()).collect()),
            _ => Err(ran.words()),
        }
    }

    /// Whether an image is here.
    pub fn image(&self, image: &str) -> Answer {
        let asked = self.command(ASK).args(["image", "inspect", "--format", "{{.Id}}", image]).run();
        match asked {
            Ok(ran) if ran.code == 0 => Answer::Present,
            Ok(ran) => {
                let words = ran.words();
                let absent = ["no such image", "image not known", "unable to find"];
                let said = words.to_lowercase();
                if absent.iter().any(|words| said.contains(words)) {
                    Answer::Absent
                } else {
                    Answer::NotAnswered(words)
                }
            }
            Err(why) => Answer::NotAnswered(why.to_string()),
        }
    }

    /// Fetches an image.
    pub fn pull(&self, image: &str) -> Result<(), Failure> {
        self.within(PULL, &["pull", "--quiet", image]).map(drop)
    }

    fn perform(&self, step: &ContainerStep, tools: &Tools<'_>, folder: &Path) -> Result<(), Failure> {
        match step {
            ContainerStep::Pull { image, .. } => self.pull(image),
            ContainerStep::Create { name, id, digest, shape, always, .. } => {
                let env = match (shape.env, tools.contents.get(id)) {
                    (true, Some(content)) => Some(args::EnvFile::write(folder, name, content)?),
                    (true, None) => {
                        let text = "its environment is not available; report this as a bug".to_owned();
                        return Err(Failure::Failed(text));
                    }
                    (false, _) => None,
                };
                let path = env.as_ref().map(args::EnvFile::path);
                self.create(&args::Labels { name, id, digest }, shape, path, *always)
            }
            ContainerStep::Start { name, .. } => self.change(&["start", name]).map(drop),
            ContainerStep::Stop { of, name, within_s } => {
                if self.units && of == name {
                    unit::stop(of)?;
                }
                self.stop(name, within_s.unwrap_or(STOP_S))
            }
            ContainerStep::Rename { from, to, .. } => self.change(&["rename", from, to]).map(drop),
            ContainerStep::Last { of, within_s } => match self.name {
                Name::Docker => self.change(&["update", "--restart", "unless-stopped", of]).map(drop),
                Name::Podman if self.units => unit::write(of, within_s.unwrap_or(STOP_S)),
                Name::Podman => Err(Failure::Failed(
                    "this podman has no service manager beside it, and cannot be told to start a container again".to_owned(),
                )),
            },
            ContainerStep::Finish { of, limit_s } => {
                self.change(&["start", of])?;
                self.wait(of, limit_s.map_or(RUN, Duration::from_secs)).map(drop)
            }
            ContainerStep::Remove { of, name, number } => {
                if self.units && of == name {
                    unit::remove(of)?;
                }
                // By its number, so that nothing else is removed that has got the name since.
                self.change(&["rm", "--force", number]).map(drop)
            }
        }
    }

    fn stop(&self, name: &str, within_s: u64) -> Result<(), Failure> {
        let limit = Duration::from_secs(within_s) + CHANGE;
        self.within(limit, &["stop", "--time", &within_s.to_string(), name]).map(drop)
    }

    /// Waits for the end of a container, and ends it at the limit. Returns its exit code.
    fn wait(&self, name: &str, limit: Duration) -> Result<i64, Failure> {
        match self.command(limit).args(["wait", name]).run() {
            Ok(ran) => {
                let ran = ran.ok()?;
                let code = ran.out.text().and_then(|text| text.trim().parse().ok());
                code.ok_or_else(|| Failure::NotAnswered(format!("it is not known how {name} ended")))
            }
            Err(NotRun::Late { .. }) => {
                let stopped = self.stop(name, 1);
                let text = format!("{name} did not end within {} s and was stopped", limit.as_secs());
                stopped.and(Err(Failure::Failed(text)))
            }
            Err(why) => Err(why.failure()),
        }
    }

    fn create(
        &self,
        labels: &args::Labels<'_>,
        shape: &crate::container::Shape,
        env: Option<&Path>,
        always: bool,
    ) -> Result<(), Failure> {
        // A podman without a service manager beside it takes its policy when a container is made, and never later.
        let policy = (always && self.name == Name::Podman && !self.units).then_some("always");
        let arguments = args::create(labels, shape, env, policy.unwrap_or("no"));
        self.command(CHANGE).args(arguments).run().map_err(|why| why.failure())?.ok().map(drop)
    }
}
