//! A declared command inside a running container.

use super::Runtimes;
use super::args::EnvFile;
use crate::managers::command::Ran;
use crate::outcome::Failure;
use std::time::Duration;

impl Runtimes {
    /// Runs `words` in the container of that name, with an environment of `NAME=value` lines, which goes through a file.
    ///
    /// # Errors
    /// No runtime answers, or the command did not end by itself.
    pub fn exec(
        &mut self,
        container: &str,
        words: &[String],
        env: Option<&[u8]>,
        limit: Duration,
    ) -> Result<Ran, Failure> {
        let folder = self.folder.clone();
        let runtime = self.runtime()?;
        let file = env.map(|env| EnvFile::write(&folder, &format!("exec-{container}"), env)).transpose()?;
        let mut command = runtime.command(limit).arg("exec");
        if let Some(file) = &file {
            command = command.arg("--env-file").arg(file.path());
        }
        command.arg(container).args(words).run().map_err(|why| why.failure())
    }
}
