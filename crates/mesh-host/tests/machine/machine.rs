//! A machine that boots: the tree that `MESH_MACHINE` names, with an overlay of its own, under `systemd-nspawn`.

use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a boot may take.
const BOOT: Duration = Duration::from_secs(60);

pub(crate) struct Machine {
    folder: TempDir,
    root: PathBuf,
    nspawn: Option<Child>,
    leader: u32,
}

/// How a command in the machine ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: &Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    fn outcomes(&self) -> Vec<Value> {
        let lines = self.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter_map(|line| line.get("outcome").cloned()).collect()
    }

    /// `id word` of each resource, in order.
    pub(crate) fn words(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let words: Vec<String> = self
            .outcomes()
            .iter()
            .map(|end| format!("{} {}", text(&end["id"]), text(&end["word"])))
            .collect();
        assert!(!words.is_empty(), "no outcomes: exit {}\n{}\n{}", self.code, self.out, self.err);
        words
    }

    /// A field of the outcome of `id`.
    pub(crate) fn said(&self, id: &str, field: &str) -> String {
        let found = self.outcomes().into_iter().find(|end| end["id"] == id);
        let found = found.unwrap_or_else(|| panic!("no {id}: {}\n{}", self.out, self.err));
        found[field].as_str().unwrap_or_default().to_owned()
    }
}

/// The tree to boot. Without one the tests fail: a machine is never imitated.
fn base() -> PathBuf {
    let base = std::env::var_os("MESH_MACHINE").expect(
        "MESH_MACHINE names no tree of a machine: source packaging/lib/machine.sh and set it to what machine_tree prints",
    );
    PathBuf::from(base)
}

fn must(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Machine {
    /// Boots a fresh copy of the tree, with the program in it and a source of sample packages.
    pub(crate) fn boot() -> Self {
        let folder = tempfile::Builder::new().prefix("mesh-machine").tempdir_in(scratch()).unwrap();
        let [upper, work, root] = ["upper", "work", "root"].map(|name| folder.path().join(name));
        for path in [&upper, &work, &root] {
            fs::create_dir(path).unwrap();
        }
        let layers =
            format!("lowerdir={},upperdir={},workdir={}", base().display(), upper.display(), work.display());
        must(Command::new("mount").args(["-t", "overlay", "overlay", "-o", &layers]).arg(&root));
        let mut machine = Self { folder, root, nspawn: None, leader: 0 };
        fs::copy(env!("CARGO_BIN_EXE_mesh-host"), machine.root.join("usr/bin/mesh-host")).unwrap();
        crate::packages::lay(&machine.root);
        machine.start();
        machine
    }

    /// Boots, and waits until the machine is up.
    pub(crate) fn start(&mut self) {
        let log = fs::File::create(self.folder.path().join("console")).unwrap();
        let nspawn = Command::new("systemd-nspawn")
            // A network of its own: what it opens in its firewall is opened nowhere else.
            .args([
                "--boot",
                "--register=no",
                "--keep-unit",
                "--console=pipe",
                "--quiet",
                "--private-network",
            ])
            .arg("--directory")
            .arg(&self.root)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("systemd-nspawn is not here: install systemd-container");
        let number = nspawn.id();
        self.nspawn = Some(nspawn);
        let until = Instant::now() + BOOT;
        loop {
            self.leader = child_of(number).unwrap_or(0);
            if self.leader != 0 {
                let state = self.run(&["systemctl", "is-system-running"]).out;
                if ["running", "degraded"].contains(&state.trim()) {
                    return;
                }
            }
            if Instant::now() > until {
                let console = fs::read_to_string(self.folder.path().join("console")).unwrap_or_default();
                panic!("the machine does not come up: {console}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Turns it off.
    pub(crate) fn stop(&mut self) {
        let Some(mut nspawn) = self.nspawn.take() else { return };
        // SIGRTMIN+4 is poweroff for systemd; killing nspawn ends all that runs in it.
        if self.leader != 0 {
            let _ = Command::new("kill").args(["-s", "RTMIN+4", &self.leader.to_string()]).status();
        }
        let until = Instant::now() + Duration::from_secs(20);
        while nspawn.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                let _ = nspawn.kill();
                let _ = nspawn.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Writes a file of the machine, as a hand would.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// A command that will run in the machine.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &self.leader.to_string(), "-m", "-u", "-i", "-n", "-p", "-C", "--"])
            .args(["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"])
            .args(words)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        Ran::of(&self.command(words).output().unwrap())
    }

    /// Runs a line of shell, which has to go well.
    pub(crate) fn shell(&self, line: &str) -> String {
        let ran = self.run(&["sh", "-c", line]);
        assert_eq!(ran.code, 0, "{line}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// Applies a bundle of these resources.
    pub(crate) fn apply(&self, resources: &Value) -> Ran {
        self.apply_bundle(&json!({"bundle": "test", "resources": resources}))
    }

    pub(crate) fn apply_bundle(&self, bundle: &Value) -> Ran {
        self.write("/root/bundle.json", &bundle.to_string());
        self.run(&["mesh-host", "apply", "--json", "/root/bundle.json"])
    }

    pub(crate) fn plan(&self, resources: &Value) -> Ran {
        self.write("/root/bundle.json", &json!({"bundle": "test", "resources": resources}).to_string());
        self.run(&["mesh-host", "plan", "--json", "/root/bundle.json"])
    }

    /// Applies the last bundle again under strace. Returns the programs that were started beside mesh-host itself.
    pub(crate) fn apply_and_count(&self) -> (Ran, Vec<String>) {
        let ran = self.run(&[
            "strace",
            "-f",
            "-qq",
            "-e",
            "trace=execve",
            "-o",
            "/root/trace",
            "mesh-host",
            "apply",
            "--json",
            "/root/bundle.json",
        ]);
        let started = self.read("/root/trace");
        let started = started
            .lines()
            .filter(|line| line.ends_with("= 0") && line.contains("execve("))
            .filter_map(|line| line.split('"').nth(1))
            .filter_map(|path| path.rsplit('/').next())
            .filter(|name| *name != "mesh-host")
            .map(str::to_owned)
            .collect();
        (ran, started)
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let until = Instant::now() + BOOT;
        while !is(self) {
            if Instant::now() > until {
                let log = self.run(&["sh", "-c", "podman ps -a; systemctl --failed; journalctl -b -n 40"]);
                panic!("{what}: not within {} s\n{}{}", BOOT.as_secs(), log.out, log.err);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A property of a unit.
    pub(crate) fn property(&self, unit: &str, property: &str) -> String {
        self.shell(&format!("systemctl show --value -p {property} {unit}")).trim().to_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop();
        let _ = Command::new("umount").arg("--lazy").arg(&self.root).status();
    }
}

/// A folder on a file system that can be the upper layer of an overlay.
fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("machines");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The process that `systemd-nspawn` started as the first one of the machine.
fn child_of(parent: u32) -> Option<u32> {
    let numbers =
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.into_iter().find(|number: &u32| {
        fs::read_to_string(format!("/proc/{number}/stat")).is_ok_and(|stat| {
            let after = stat.rsplit(')').next().unwrap_or_default();
            after.split_whitespace().nth(1) == Some(&parent.to_string())
        }) && fs::read_to_string(format!("/proc/{number}/comm")).is_ok_and(|comm| comm.trim() == "systemd")
    })
}
