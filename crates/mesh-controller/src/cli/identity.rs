//! `identity`: who the mesh is.

use super::context::{Ended, Environment, OrEnd, store};
use crate::store::identity;
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::output::print;
use mesh_model::digest::Digest;
use serde_json::json;

/// show the mesh's id, its public key and its fingerprint
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "identity", example = "{command_name}")]
pub(super) struct Identity {
    /// print JSON
    #[argh(switch)]
    json: bool,
}

impl Identity {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        crate::identity::open(&store).or_end()?;
        let mesh = identity::expect_mesh(store.identity()).or_end()?;
        let fingerprint = Digest::of(mesh.key.as_str().as_bytes()).to_string();
        let vault = mesh.vault.map(|key| key.to_string());
        let recovery = mesh.recovery.map(|recovery| recovery.to_string());
        if self.json {
            let value = json!({"mesh": mesh.id, "key": mesh.key.as_str(), "fingerprint": fingerprint, "vault": vault,
                "recovery": recovery});
            return Ok(print(&format!("{value}\n")));
        }
        let unset = || "not set".to_owned();
        Ok(print(&format!(
            "mesh         {}\nkey          {}\nfingerprint  {fingerprint}\nvault        {}\nrecovery     {}\n",
            mesh.id,
            mesh.key,
            vault.unwrap_or_else(unset),
            recovery.unwrap_or_else(unset)
        )))
    }
}
