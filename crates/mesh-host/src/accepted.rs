//! The own copy of what was accepted last: the host applies it again at boot and at its interval, without client and
//! bus. It is sealed to this host, and the secrets in it are sealed once more by the vault.

use crate::site::Site;
use mesh_model::digest::Digest;
use mesh_model::host_api::{Apply, ModuleValues, Request};
use mesh_model::json::Read as _;
use nkeys::XKey;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use zeroize::Zeroizing;

const COPY: &str = "accepted/request";
const LAST: &str = "accepted/last";

/// The stored copy, if there is one.
pub fn load(site: &Site, own: &XKey) -> io::Result<Option<Apply>> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let sealed = match fs::read(site.state().join(COPY)) {
        Ok(sealed) => sealed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let opened = own
        .open(&sealed, own)
        .map(Zeroizing::new)
        .map_err(|_| invalid("the own copy cannot be opened with this host's key".to_owned()))?;
    match Request::from_json_bytes(&opened) {
        Ok(Request::Apply(apply)) => Ok(Some(*apply)),
        _ => Err(invalid("the own copy is not a request to apply".to_owned())),
    }
}

/// Stores the copy in place of the one before; it lasts.
pub fn store(site: &Site, own: &XKey, apply: &Apply) -> io::Result<()> {
    let request = Request::Apply(Box::new(apply.clone()));
    let bytes = Zeroizing::new(serde_json::to_vec(&request).map_err(io::Error::other)?);
    let sealed = own.seal(&bytes, own).map_err(|error| io::Error::other(error.to_string()))?;
    replace(site, COPY, &sealed)
}

/// The request with what it leaves out and the stored copy has: `same` values, and the parts of modules that only the
/// copy has, if their digests fit.
#[must_use]
pub fn merge(mut apply: Apply, stored: Option<Apply>) -> Apply {
    let Some(stored) = stored else { return apply };
    for (module, values) in &mut apply.values {
        if *values == ModuleValues::Same
            && let Some(given @ ModuleValues::Given(_)) = stored.values.get(module)
        {
            *values = given.clone();
        }
    }
    let add = |into: &mut BTreeMap<String, Vec<u8>>, from: BTreeMap<String, Vec<u8>>| {
        for (module, bytes) in from {
            into.entry(module).or_insert(bytes);
        }
    };
    add(&mut apply.assignments, stored.assignments);
    add(&mut apply.settings, stored.settings);
    apply
}

/// Wipes values from the stored copy, since the vault refused them; returns when that lasts.
pub fn wipe(site: &Site, own: &XKey, values: &BTreeMap<String, Vec<String>>) -> io::Result<()> {
    let Some(mut apply) = load(site, own)? else { return Ok(()) };
    let mut has_any = false;
    for (module, keys) in values {
        if let Some(ModuleValues::Given(given)) = apply.values.get_mut(module) {
            has_any |= given.keys().any(|key| keys.contains(key));
            given.retain(|key, _| !keys.contains(key));
        }
    }
    // The client says it again with each refusal.
    if has_any { store(site, own, &apply) } else { Ok(()) }
}

/// Remembers that the request of these bytes was applied, and nothing of it failed.
pub fn remember_clean(site: &Site, request: &[u8]) -> io::Result<()> {
    replace(site, LAST, Digest::of(request).to_string().as_bytes())
}

/// Forgets the last clean request: the next equal one is applied again.
pub fn forget_clean(site: &Site) -> io::Result<()> {
    match fs::remove_file(site.state().join(LAST)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether the request of these bytes is the one that was applied last, without a failure.
pub fn is_clean(site: &Site, request: &[u8]) -> bool {
    fs::read_to_string(site.state().join(LAST)).is_ok_and(|last| last == Digest::of(request).to_string())
}

fn replace(site: &Site, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = site.state().join(name);
    let temporary = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, &path)?;
    File::open(site.state().join("accepted"))?.sync_all()
}
