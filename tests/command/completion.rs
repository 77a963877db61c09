//! `completion`: the scripts of the shells, and the candidates that they ask for.

use crate::support::accounts::READER;
use crate::support::bucket::NEEDS;
use crate::support::mesh::Mesh;
use crate::support::program::Program;
use std::path::Path;
use std::process::Command;

#[test]
fn each_shell_gets_its_script() {
    for (shell, file) in
        [("bash", "mesh-provisioner.bash"), ("zsh", "_mesh-provisioner"), ("fish", "mesh-provisioner.fish")]
    {
        let printed = Program::new(&["completion", shell]).run().expect_code(0).stdout;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/mesh-provisioner").join(file);
        assert_eq!(printed, std::fs::read_to_string(path).expect("the shipped script"), "{shell}");
    }
    let wrong = Program::new(&["completion", "tcsh"]).run().expect_code(64);
    assert!(wrong.stderr.contains("bash, zsh or fish"), "{}", wrong.stderr);
}

#[test]
fn names_come_from_the_seat() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    tester.kv_put(NEEDS, "attic.web.port.http", "1");
    tester.kv_put(NEEDS, "cellar.db.shell.zsh=3Anormal", "1");
    let url = mesh.server.client_url();
    let candidates = |words: &[&str]| {
        let program = Program::new(&["completion", "candidates", "--"]).args(words);
        program.account(&READER).run().expect_code(0).stdout
    };
    assert_eq!(candidates(&["ask", "drift", "--server", &url, "--node", ""]), "attic\ncellar\n");
    assert_eq!(candidates(&["-s", &url, "why", "cellar", ""]), "db\n");
    assert_eq!(candidates(&["-s", &url, "why", "cellar", "db", ""]), "shell:zsh:normal\n");
    // Where nobody answers there are none, and soon.
    assert_eq!(candidates(&["-s", "nats://127.0.0.1:9", "why", ""]), "");
    assert!(candidates(&["st"]).starts_with("status\tshow the mesh on one screen"));
}

#[test]
fn bash_inserts_what_the_program_knows() {
    let mesh = Mesh::start();
    mesh.tester().kv_put(NEEDS, "attic.web.shell.zsh=3Anormal", "1");
    let binary = env!("CARGO_BIN_EXE_mesh-provisioner");
    let complete = |line: &str| {
        let script = format!(
            "source <('{binary}' completion bash); COMP_LINE=$1 COMP_POINT=${{#1}}; _mesh_provisioner; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let folder = Path::new(binary).parent().expect("its folder");
        let path = format!("{}:/usr/bin:/bin", folder.display());
        let output = Command::new("bash")
            .args(["-c", &script, "bash", line])
            .env("PATH", path)
            .env("NATS_URL", mesh.server.client_url())
            .env("NATS_USER", READER.user.as_ref())
            .env("NATS_PASSWORD", READER.password.as_ref())
            .output()
            .expect("bash");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    };
    assert_eq!(complete("mesh-provisioner stat"), "status");
    assert_eq!(complete("mesh-provisioner ask gaps --node "), "attic");
    assert_eq!(complete("mesh-provisioner ask gaps --node=a"), "attic");
    assert_eq!(complete("mesh-provisioner why attic web shell:z"), "zsh:normal");
    assert!(!complete("mesh-provisioner ask gaps ").contains("drift"));
}
