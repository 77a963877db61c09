//! `serve`: nodes join, their reports are kept, the bus holds what was sent, the server has the file of users, and two
//! verbs say how the mesh stands.
//!
//! ```text
//!   bus ──► machine ──► bus            pure: events in, actions out
//!             │  ▲
//!        tasks│  │what came of them
//!             ▼  │
//!       store, loader                  a thread each: transactions, and a server that reloads, take their time
//! ```

pub mod accounts;
pub mod cleaning;
pub mod joins;
pub mod loader;
pub mod machine;
pub mod mirror;
pub mod reads;
pub mod reports;
pub mod task;
pub mod wire;
pub mod work;

use crate::broker::load::Reload;
use crate::identity;
use crate::store::{Error, Paths, Store};
use crossbeam_channel::unbounded;
use loader::Loader;
use log::error;
use machine::Controller;
use mesh_daemon::exit::Exit;
use mesh_daemon::time::rfc3339;
use mesh_runtime::Started;
use mesh_service::identity::Identity;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::path::PathBuf;
use std::time::SystemTime;
use task::{Own, Task};
use work::{Read, Work};

/// What the lease says of its holder begins with this.
pub const HOLDER: &str = "mesh-controller serve";

/// The settings of `serve`.
#[derive(Debug)]
pub struct Settings {
    /// Where the store is.
    pub paths: Paths,
    /// The file of users; beside the store where nothing is said.
    pub users_file: Option<PathBuf>,
    /// How the server is told to load it again.
    pub reload: Reload,
    /// The path of the status file.
    pub status_file: Option<PathBuf>,
    /// This program's version.
    pub version: String,
    /// More prefixes of reply subjects that are answered.
    pub reply_prefixes: Vec<String>,
    /// Answers the verbs that read.
    pub read: Read,
}

/// Serves until it is stopped.
pub fn serve(started: Started, settings: Settings) -> Exit {
    match prepare(started, settings) {
        Ok(run) => run(),
        Err(why) => {
            error!("{why}");
            Exit::Configuration
        }
    }
}

fn prepare(started: Started, settings: Settings) -> Result<impl FnOnce() -> Exit, Error> {
    let Settings { paths, users_file, reload, status_file, version, reply_prefixes, read } = settings;
    let store = Store::open(&paths)?;
    let mesh = identity::open(&store)?.pair().public_key().parse().map_err(Error::Broken)?;
    let id = nuid::next().to_string();
    let loader = Loader {
        file: users_file.unwrap_or_else(|| paths.identity.with_file_name("users.conf")),
        reload,
        connection: started.connection.clone(),
        signer: identity::open(&store)?,
    };
    let holder = format!("{HOLDER} {id}");
    let signer = identity::open(&store)?;
    let work = Work::new(store, signer, holder, read);
    #[expect(clippy::cast_precision_loss, reason = "any number from 0 to 1 will do")]
    let jitter = RandomState::new().hash_one(&id) as f64 / u64::MAX as f64;
    let machine = Controller::new(machine::Settings {
        identity: Identity { id: id.clone(), version },
        started: rfc3339(SystemTime::now()),
        secret: mesh_runtime::secret(),
        mesh,
        jitter,
        reply_prefixes,
    });
    let client = format!("mesh-controller {id}");
    let settings = mesh_runtime::Settings { started, client, status_file };
    Ok(move || run(machine, settings, work, loader))
}

fn run(machine: Controller, settings: mesh_runtime::Settings, mut work: Work, loader: Loader) -> Exit {
    let (own, owns) = unbounded();
    let (to_store, store_tasks) = unbounded::<Task>();
    let (to_loader, loads) = unbounded::<task::UsersFile>();
    let tell = own.clone();
    // The machine has one task of a kind under way at a time, so both queues are short.
    let threads = std::thread::Builder::new().name("store".into()).spawn(move || {
        for task in store_tasks {
            for result in work.perform(task) {
                tell.send(result).ok();
            }
        }
    });
    let threads = threads.and_then(|_| {
        std::thread::Builder::new().name("users".into()).spawn(move || {
            for users in loads {
                let result = loader.load(&users);
                own.send(Own::Users(users.generation, result)).ok();
            }
        })
    });
    if let Err(why) = threads {
        error!("a thread cannot be started: {why}");
        return Exit::Bug;
    }
    mesh_runtime::serve(machine, settings, owns, |task| {
        match task {
            Task::Users(users) => drop(to_loader.send(users)),
            task => drop(to_store.send(task)),
        }
        Vec::new()
    })
}
