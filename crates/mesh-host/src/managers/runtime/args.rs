//! The command line that makes a container. No value of its environment is in it.

use super::{DIGEST_LABEL, ID_LABEL};
use crate::container::Shape;
use crate::digest::Digest;
use crate::outcome::Failure;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// What a container is known by.
pub(super) struct Labels<'l> {
    /// Its name.
    pub(super) name: &'l str,
    /// The id of its resource.
    pub(super) id: &'l str,
    /// Of all that it is made from.
    pub(super) digest: &'l Digest,
}

/// The words that make a container and do not start it. Its image is here already.
pub(super) fn create(labels: &Labels<'_>, shape: &Shape, env: Option<&Path>, policy: &str) -> Vec<String> {
    let digest = labels.digest.as_str().trim_start_matches("keyed:");
    let mut words: Vec<String> =
        ["create", "--pull", "never", "--name", labels.name].map(str::to_owned).into();
    let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    add("--label", format!("{ID_LABEL}={}", labels.id));
    add("--label", format!("{DIGEST_LABEL}=v2:{digest}"));
    add("--restart", policy.to_owned());
    for file in &shape.env_files {
        add("--env-file", file.clone());
    }
    if let Some(env) = env {
        add("--env-file", env.display().to_string());
    }
    for port in &shape.ports {
        add("--publish", port.clone());
    }
    for volume in &shape.volumes {
        add("--volume", volume.clone());
    }
    if let Some(network) = &shape.network {
        add("--network", network.clone());
    }
    for (name, address) in &shape.hosts {
        add("--add-host", format!("{name}:{address}"));
    }
    if let Some(stop_s) = shape.stop_s {
        add("--stop-timeout", stop_s.to_string());
    }
    words.push(shape.image.clone());
    words.extend(shape.args.iter().cloned());
    words
}

/// A file with an environment, for as long as the runtime reads it.
pub(super) struct EnvFile(PathBuf);

impl EnvFile {
    /// Writes it, 0600, in the folder of what does not outlive a boot.
    pub(super) fn write(folder: &Path, name: &str, content: &[u8]) -> Result<Self, Failure> {
        let folder = folder.join("env");
        let failed =
            |error: std::io::Error| Failure::Failed(format!("its environment cannot be written: {error}"));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        let path = folder.join(name);
        // One that a kill left.
        let _ = fs::remove_file(&path);
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        let written = Self(path);
        file.write_all(content).map_err(failed)?;
        Ok(written)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for EnvFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            log::warn!("{} cannot be removed: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EnvFile, Labels, create};
    use crate::container::Shape;
    use crate::digest::{Digest, DigestKey};
    use mesh_model::json::Read as _;
    use mesh_model::resource::{Resource, What};
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn every_declared_field_reaches_the_command_line_and_no_value_of_the_environment_does() {
        let json = br#"{"id":"web.c","type":"container","name":"web","image":"localhost/web:2","env":{"KEY":"canary"},
            "env-file":["/etc/web.env"],"ports":["127.0.0.1:8080:80/tcp"],"volumes":["/srv/web:/data:ro","cache:/cache"],
            "network":"back","hosts":{"db":"10.0.0.2"},"args":["serve","--port","80"],"stop":"1500ms"}"#;
        let Ok(Resource { what: What::Container(container), .. }) = Resource::from_json_bytes(json) else {
            panic!()
        };
        let digest = Digest::keyed(&DigestKey::new([1; 32]), b"x");
        let labels = Labels { name: "web.next", id: "web.c", digest: &digest };
        let shape = Shape::of(&container, true);
        let words = create(&labels, &shape, Some("/run/e".as_ref()), "no");
        let v2 = format!("mesh-host.digest=v2:{}", digest.as_str().trim_start_matches("keyed:"));
        let wanted = [
            "create",
            "--pull",
            "never",
            "--name",
            "web.next",
            "--label",
            "mesh-host.id=web.c",
            "--label",
            &v2,
            "--restart",
            "no",
            "--env-file",
            "/etc/web.env",
            "--env-file",
            "/run/e",
            "--publish",
            "127.0.0.1:8080:80",
            "--volume",
            "/srv/web:/data:ro",
            "--volume",
            "cache:/cache",
            "--network",
            "back",
            "--add-host",
            "db:10.0.0.2",
            "--stop-timeout",
            "2",
            "localhost/web:2",
            "serve",
            "--port",
            "80",
        ];
        assert_eq!(words, wanted);
    }

    #[test]
    fn an_environment_is_there_as_long_as_it_is_read_and_for_root_alone() {
        let folder = tempfile::tempdir().unwrap();
        let env = EnvFile::write(folder.path(), "web", b"KEY=canary\n").unwrap();
        let path = env.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(std::fs::read(&path).unwrap(), b"KEY=canary\n");
        drop(env);
        assert!(!path.exists());
    }
}
