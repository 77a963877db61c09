//! The thread that has the server load the file of users.

use crate::broker::load::{self, Reload};
use crate::broker::users::locked_out;
use crate::identity::Signer;
use crate::serve::task::UsersFile;
use mesh_bus::config::BusConfig;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long the server may take to load the file, once it was told.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long between two attempts to be let in: doubled each time, up to the last.
const FIRST: Duration = Duration::from_millis(10);
const LAST: Duration = Duration::from_millis(200);

/// How many accounts an error names.
const SHOWN: usize = 5;

/// The mode of a new file of users: the server may run as another user, and there is no secret in it.
const MODE: u32 = 0o644;

/// Where the file is, and how the server is told.
pub struct Loader {
    /// The file of users.
    pub file: PathBuf,
    /// How the server is told.
    pub reload: Reload,
    /// Where the server is.
    pub connection: BusConfig,
    /// Makes the sentinel's key.
    pub signer: Signer,
}

impl Loader {
    /// Has the server load that file. `Ok`: the sentinel was let in.
    pub fn load(&self, users: &UsersFile) -> Result<(), String> {
        let sentinel = self.signer.sentinel(&users.digest);
        let prove = || load::prove(&self.connection, &sentinel);
        let there = match std::fs::read_to_string(&self.file) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(format!("{} cannot be read: {error}", self.file.display())),
        };
        let is_there = there.as_deref() == Some(&*users.text);
        // Without a file beside us the server may have been given this one by hand.
        if (is_there || there.is_none()) && prove().is_ok() {
            return Ok(());
        }
        if !is_there {
            self.expect_harmless(there.as_deref(), users)?;
            load::write(&self.file, &users.text, MODE)?;
        }
        self.reload.tell()?;
        let until = Instant::now() + PATIENCE;
        let mut wait = FIRST;
        loop {
            std::thread::sleep(wait);
            match prove() {
                Ok(()) => return Ok(()),
                Err(why) if Instant::now() >= until => {
                    let told = match self.reload {
                        Reload::ByHand => "carry it to the server and reload that, or give --reload-pid",
                        _ => "its log says why",
                    };
                    return Err(format!(
                        "{} is written, and the server lets nobody in by it ({why}): {told}",
                        self.file.display()
                    ));
                }
                Err(_) => wait = (wait * 2).min(LAST),
            }
        }
    }

    /// A store that was lost and made again, or came out of a backup, would lock out whom it does not know. It takes a
    /// person to say that this is wanted.
    fn expect_harmless(&self, there: Option<&str>, users: &UsersFile) -> Result<(), String> {
        let file = self.file.display();
        if !users.missing.is_empty() {
            return Err(format!(
                "{file} is not written, since the store has no key of {}: they would be locked out: broker users --keys FOLDER takes the keys that there are, or makes them",
                users.missing.join(", ")
            ));
        }
        let Some(there) = there else {
            return Err(format!(
                "there is no {file}, and serve does not write the first one, since a store that was lost would lock the nodes out by it: look at node list, then write it with broker users --out {file}"
            ));
        };
        let lost = locked_out(there, &users.text, &users.gone);
        if lost.is_empty() {
            return Ok(());
        }
        let more =
            if lost.len() > SHOWN { format!(" and {} more", lost.len() - SHOWN) } else { String::new() };
        Err(format!(
            "{file} is not written, since it has accounts that this store never had, and they would be locked out: {}{more}: bring the right store back, or replace the file with broker users --replace --out {file}",
            lost[..lost.len().min(SHOWN)].join(", ")
        ))
    }
}

#[cfg(test)]
mod tests;
