//! Looks at every file of every node again and again: a file that is written again with the bytes that it had is a needless
//! write, and what a file of secrets held is remembered, to be looked for elsewhere.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const GLANCE: Duration = Duration::from_millis(20);

/// What a file is and when it was written; its text.
type Seen = ((u64, i64, i64), Vec<u8>);

#[derive(Default)]
struct Found {
    files: BTreeMap<PathBuf, Seen>,
    needless: Vec<String>,
    writes: u64,
    secrets: BTreeSet<String>,
}

pub(crate) struct Watch {
    found: Arc<Mutex<Found>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Found {
    fn look(&mut self, nodes: &Path) {
        let mut there = BTreeSet::new();
        for path in files(nodes) {
            let Ok(meta) = fs::metadata(&path) else { continue };
            let stamp = (meta.ino(), meta.mtime(), meta.mtime_nsec());
            there.insert(path.clone());
            if self.files.get(&path).is_some_and(|(before, _)| *before == stamp) {
                continue;
            }
            let Ok(bytes) = fs::read(&path) else { continue };
            if let Some((_, before)) = self.files.get(&path)
                && *before == bytes
                // An archive of which one file was edited is put back as a whole, the other files too.
                && !path.to_string_lossy().contains("/srv/")
            {
                self.needless.push(path.display().to_string());
            }
            self.writes += 1;
            self.remember_secrets(&path, &bytes);
            self.files.insert(path, (stamp, bytes));
        }
        self.files.retain(|path, _| there.contains(path));
    }

    fn remember_secrets(&mut self, path: &Path, bytes: &[u8]) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut found = Vec::new();
        match name.as_ref() {
            "admin.password" => found.push(String::from_utf8_lossy(bytes).into_owned()),
            "web.json" => {
                let file: Value = serde_json::from_slice(bytes).unwrap_or_default();
                for value in [&file["session_key"], &file["database"]["password"]] {
                    found.extend(value.as_str().map(str::to_owned));
                }
            }
            _ => {}
        }
        self.secrets.extend(found.into_iter().filter(|secret| secret.len() > 15));
    }
}

/// The files that modules have on all nodes.
pub(crate) fn files(nodes: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = fs::read_dir(nodes)
        .into_iter()
        .flatten()
        .flatten()
        .flat_map(|node| ["etc", "srv"].map(|name| node.path().join(name)))
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let is_ours = name.to_string_lossy().starts_with("mesh-");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !is_ours => folders.push(path),
                // What begins with a dot is on its way to its name.
                Ok(kind) if kind.is_file() && !name.to_string_lossy().starts_with('.') => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

impl Watch {
    pub(crate) fn start(nodes: &Path) -> Self {
        let (found, over) = (Arc::new(Mutex::new(Found::default())), Arc::new(AtomicBool::new(false)));
        let thread = {
            let (found, over, nodes) = (Arc::clone(&found), Arc::clone(&over), nodes.to_owned());
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    found.lock().unwrap_or_else(PoisonError::into_inner).look(&nodes);
                    thread::sleep(GLANCE);
                }
            })
        };
        Self { found, over, thread: Some(thread) }
    }

    /// How often a file was written, which were written needlessly, and the secrets that were seen.
    pub(crate) fn so_far(&self) -> (u64, Vec<String>, BTreeSet<String>) {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        (found.writes, found.needless.clone(), found.secrets.clone())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
