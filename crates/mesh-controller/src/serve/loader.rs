//! The thread that has the server load the file of users.

use crate::broker::load::{self, Reload};
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
        let is_there = std::fs::read(&self.file).is_ok_and(|text| text == users.text.as_bytes());
        if is_there && prove().is_ok() {
            return Ok(());
        }
        if !is_there {
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
}
