//! The daemon and its socket.

use crate::mesh::{Mesh, Module, secret_need, until};
use serde_json::json;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

fn web(content: &str) -> Module {
    Module::new("web", json!([{"id": "web.site", "type": "file", "path": "/srv/site", "content": content}]))
}

#[test]
fn an_apply_over_the_socket_is_answered_line_by_line_and_an_equal_one_is_the_same() {
    let mesh = Mesh::new();
    let daemon = mesh.serve(3600);
    let module = Module {
        needs: json!([secret_need("key"), {"kind": "port", "name": "http"}, {"kind": "config", "name": "color"}]),
        placement: json!({"dir": {"state": "/srv/web"}, "access": {}, "port": {"http": 8080}, "seat": {}, "machine": {}}),
        settings: json!({"color": "red"}),
        values: Some(json!({"secret:key": mesh.sealed("web", "key", 3, "hunter2")})),
        ..web("${secret:key} ${port:http} ${config:color}")
    };
    let request = mesh.request(1, &[module]);
    let lines = daemon.ask(&request);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(
        (&lines[0]["outcome"]["word"], &lines[0]["outcome"]["module"]),
        (&json!("created"), &json!("web"))
    );
    let report = &lines[1]["report"];
    assert_eq!(
        (&report["sequence"], &report["changed"], &report["modules"]["web"]["state"]),
        (&json!(1), &json!(true), &json!("applied"))
    );
    assert_eq!(
        (mesh.tree.read("/srv/site"), mesh.tree.mode("/srv/site")),
        ("hunter2 8080 red".to_owned(), 0o600)
    );
    assert_eq!(daemon.ask(&request), [json!({"report": {"same": true}})]);
    let status = daemon.last(&json!({"status": {}}));
    assert_eq!(
        (&status["status"]["sequence"], &status["status"]["resources"][0]["id"]),
        (&json!(1), &json!("web.site"))
    );
    let key = mesh.tree.run(&["key", "show"]);
    assert_eq!(daemon.last(&json!({"key": {}})), json!({"key": key.out.trim()}));
    // Nothing of the state holds the value in clear.
    assert!(mesh.tree.state().iter().all(|(_, bytes)| !String::from_utf8_lossy(bytes).contains("hunter2")));
    let socket = fs::metadata(mesh.tree.path("/run/mesh-host/host.sock")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o660);
}

#[test]
fn what_does_not_count_is_refused_before_anything_is_looked_at() {
    let mesh = Mesh::new();
    let other = Mesh::new();
    assert_eq!(mesh.apply(&mesh.request_with(&json!({"sequence": 5, "fence": 2}), &[web("five")])).code, 0);
    let cases = [
        (other.request(6, &[web("forged")]), "is not this mesh's key"),
        (
            mesh.request_with(&json!({"sequence": 6, "fence": 2, "mesh": "x"}), &[web("x")]),
            "for the mesh \"x\"",
        ),
        (
            mesh.request_with(&json!({"sequence": 6, "fence": 2, "node": "cellar"}), &[web("x")]),
            "for the node \"cellar\"",
        ),
        (
            mesh.request_with(&json!({"sequence": 4, "fence": 2}), &[web("x")]),
            "its sequence is 4, and 5 was accepted",
        ),
        (
            mesh.request_with(&json!({"sequence": 6, "fence": 1}), &[web("x")]),
            "its fence is 1, and 2 was accepted",
        ),
        (
            mesh.request_with(&json!({"sequence": 5, "fence": 2}), &[web("x")]),
            "another declaration with the sequence 5",
        ),
        (
            mesh.request_with(&json!({"sequence": 6, "fence": 2, "extra": 1}), &[web("x")]),
            "extra: unknown field",
        ),
    ];
    for (request, why) in cases {
        let ran = mesh.apply(&request);
        assert!(ran.code == 1 && ran.err.contains(why), "{why}: {} {}", ran.code, ran.err);
        assert_eq!(mesh.tree.read("/srv/site"), "five");
    }
    let mut changed = mesh.request_with(&json!({"sequence": 6, "fence": 2}), &[web("x")]);
    let signature = &mut changed["apply"]["declaration"]["signatures"][0]["sig"];
    *signature = json!(data_encoding::BASE64.encode(&[7; 64]));
    assert!(mesh.apply(&changed).err.contains("the signature does not fit"));
    // The same one again is applied again.
    mesh.tree.write("/srv/site", "by hand");
    assert_eq!(
        mesh.apply(&mesh.request_with(&json!({"sequence": 5, "fence": 2}), &[web("five")])).words(),
        ["web.site corrected"]
    );
}

#[test]
fn a_module_that_waits_is_left_as_it_is_and_the_others_go_on() {
    let mesh = Mesh::new();
    let db = |content: &str| {
        Module::new("db", json!([{"id": "db.conf", "type": "file", "path": "/srv/db", "content": content}]))
    };
    assert_eq!(mesh.apply(&mesh.request(1, &[web("1"), db("1")])).code, 0);
    // No values for one module; another one's bytes are others than declared.
    let ran = mesh.apply(&mesh.request(2, &[Module { values: None, ..web("2") }, db("2")]));
    assert_eq!((ran.code, ran.words()), (3, vec!["db.conf updated".to_owned()]), "{}", ran.err);
    assert_eq!((mesh.tree.read("/srv/site"), mesh.tree.read("/srv/db")), ("1".to_owned(), "2".to_owned()));
    assert_eq!(ran.report()["modules"]["web"]["state"], "waiting");
    let mut request = mesh.request(3, &[web("3"), db("3")]);
    request["apply"]["assignments"]["db"] = json!(data_encoding::BASE64.encode(b"{}"));
    let ran = mesh.apply(&request);
    assert_eq!(ran.words(), ["web.site updated"], "{}", ran.err);
    assert!(ran.report()["modules"]["db"]["why"].as_str().unwrap().starts_with("digest does not fit"));
    assert_eq!(mesh.tree.read("/srv/db"), "2");
    // Only a newer declaration takes something away.
    let ran = mesh.apply(&mesh.request(4, &[web("3")]));
    assert_eq!(ran.words(), ["db.conf removed", "web.site unchanged"]);
}

#[test]
fn h73_a_subset_leaves_the_records_of_the_others() {
    let mesh = Mesh::new();
    let db = Module::new("db", json!([{"id": "db.conf", "type": "file", "path": "/srv/db", "content": "x"}]));
    let mut request = mesh.request(1, &[web("1"), db]);
    mesh.apply(&request);
    mesh.tree.write("/srv/site", "by hand");
    mesh.tree.write("/srv/db", "by hand");
    request["apply"]["only"] = json!(["web"]);
    assert_eq!(mesh.apply(&request).words(), ["web.site corrected"]);
    assert_eq!(mesh.tree.read("/srv/db"), "by hand");
    request["apply"].as_object_mut().unwrap().remove("only");
    assert_eq!(mesh.apply(&request).words(), ["web.site unchanged", "db.conf corrected"]);
}

#[test]
fn a_lower_revision_or_a_moved_secret_is_refused() {
    let mesh = Mesh::new();
    let with = |sealed: serde_json::Value| Module {
        needs: json!([secret_need("key")]),
        values: Some(json!({"secret:key": sealed})),
        ..web("${secret:key}")
    };
    assert_eq!(mesh.apply(&mesh.request(1, &[with(mesh.sealed("web", "key", 3, "three"))])).code, 0);
    let lower = mesh.apply(&mesh.request(2, &[with(mesh.sealed("web", "key", 2, "two"))]));
    assert!(lower.err.contains("its revision is 2, and 3 was accepted before"), "{}", lower.err);
    let moved = mesh.apply(&mesh.request(3, &[with(mesh.sealed("db", "key", 4, "other"))]));
    assert!(moved.err.contains("is another value than the one that was asked for"), "{}", moved.err);
    let foreign = mesh.apply(&mesh.request(4, &[with(Mesh::new().sealed("web", "key", 4, "other"))]));
    assert!(foreign.err.contains("sealed by another key than the vault's"), "{}", foreign.err);
    assert_eq!(mesh.tree.read("/srv/site"), "three");
    // A signed kind cannot come from outside.
    let given = mesh
        .apply(&mesh.request(5, &[Module { values: Some(json!({"port:http": {"text": "1"}})), ..web("x") }]));
    assert!(given.err.contains("cannot be given from outside"), "{}", given.err);
}

#[test]
fn h40_without_a_key_it_says_so_at_once() {
    let mesh = Mesh::new();
    let sealed = mesh.sealed("web", "key", 1, "x");
    let module = Module {
        needs: json!([secret_need("key")]),
        values: Some(json!({"secret:key": sealed})),
        ..web("${secret:key}")
    };
    let request = mesh.request(1, &[module]);
    fs::remove_file(mesh.tree.path("/var/lib/mesh-host/key")).unwrap();
    let ran = mesh.apply(&request);
    assert!(ran.code == 3 && ran.err.contains("no sealing key: make one"), "{} {}", ran.code, ran.err);
    assert!(!mesh.tree.exists("/srv/site"));
}

#[test]
fn h42_of_a_damaged_sealed_value_nothing_is_written() {
    let mesh = Mesh::new();
    let mut sealed = mesh.sealed("web", "key", 1, &"x".repeat(100_000));
    let text = sealed["sealed"][0].as_str().unwrap().to_owned();
    let (head, body) = text.rsplit_once(':').unwrap();
    let mut bytes = data_encoding::BASE64.decode(body.as_bytes()).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    sealed["sealed"][0] = json!(format!("{head}:{}", data_encoding::BASE64.encode(&bytes)));
    let module = Module {
        needs: json!([secret_need("key")]),
        values: Some(json!({"secret:key": sealed})),
        ..web("${secret:key}")
    };
    let ran = mesh.apply(&mesh.request(1, &[module]));
    assert!(ran.err.contains("secret:key: cannot be opened"), "{}", ran.err);
    assert!(!mesh.tree.exists("/srv"));
}

#[test]
fn a_collection_is_filled_from_the_signed_contributions() {
    let mesh = Mesh::new();
    let shell = Module {
        needs: json!([{"kind": "shell", "name": "zsh:normal"}]),
        ..Module::new(
            "shell",
            json!([{"id": "shell.rc", "type": "file", "path": "/etc/rc", "content": "${shell:zsh:normal}\n"}]),
        )
    };
    let contributor = |name, order, line: &str| Module {
        contributes: json!([{"collection": "shell:zsh:normal", "item": {"order": order, "lines": [line]}}]),
        ..Module::new(name, json!([]))
    };
    let ran =
        mesh.apply(&mesh.request(1, &[shell, contributor("a", 50, "late"), contributor("b", 9, "early")]));
    assert_eq!((ran.code, mesh.tree.read("/etc/rc")), (0, "early\nlate\n".to_owned()), "{}", ran.err);
}

#[test]
fn the_members_of_a_credential_are_filled_from_one_sealed_value() {
    let mesh = Mesh::new();
    let module = Module {
        needs: json!([{"kind": "secret", "name": "database", "provision": "postgres", "provider": {"node": "cellar", "module": "postgres"}}]),
        values: Some(json!({
            "secret:database": mesh.sealed("web", "database", 1, r#"{"user":"attic-web","password":"hunter2"}"#),
        })),
        ..Module::new(
            "web",
            json!([{"id": "web.f", "type": "file", "path": "/srv/conf", "content": "${secret:database.user} ${secret:database.password}"}]),
        )
    };
    let ran = mesh.apply(&mesh.request(1, &[module]));
    assert_eq!((ran.code, mesh.tree.read("/srv/conf")), (0, "attic-web hunter2".to_owned()), "{}", ran.err);
}

#[test]
fn what_moves_to_a_module_that_waits_stays_where_it_is() {
    let mesh = Mesh::new();
    let moved = json!([{"id": "web.f", "type": "file", "path": "/srv/conf", "content": "c"}]);
    assert_eq!(mesh.apply(&mesh.request(1, &[Module::new("web", moved)])).code, 0);
    // The other module's secret is not there yet.
    let waiting = |content: &str| Module {
        needs: json!([secret_need("key")]),
        values: None,
        ..Module::new(
            "db",
            json!([{"id": "db.f", "type": "file", "path": "/srv/conf", "content": content},
                   {"id": "db.g", "type": "file", "path": "/srv/key", "content": "${secret:key}"}]),
        )
    };
    let ran = mesh.apply(&mesh.request(2, &[Module::new("web", json!([])), waiting("d")]));
    assert_eq!((ran.code, mesh.tree.read("/srv/conf")), (3, "c".to_owned()), "{}", ran.err);
    let filled =
        Module { values: Some(json!({"secret:key": mesh.sealed("db", "key", 1, "k")})), ..waiting("d") };
    assert_eq!(mesh.apply(&mesh.request(3, &[Module::new("web", json!([])), filled])).code, 0);
    assert_eq!((mesh.tree.read("/srv/conf"), mesh.tree.read("/srv/key")), ("d".to_owned(), "k".to_owned()));
}

#[test]
fn a_bound_value_may_not_stand_in_what_is_executed() {
    let mesh = Mesh::new();
    let with = |path: &str, mode: &str| Module {
        needs: json!([{"kind": "bound", "name": "database", "provision": "postgres", "provider": {"node": "cellar", "module": "postgres"}}]),
        values: Some(json!({"bound:database": {"json": {"host": "10.0.0.2"}}})),
        ..Module::new(
            "web",
            json!([{"id": "web.f", "type": "file", "path": path, "content": "${bound:database.host}", "mode": mode}]),
        )
    };
    let places = [
        ("/srv/run", "0755"),
        ("/etc/cron.d/web", "0644"),
        ("/etc/sudoers.d/web", "0440"),
        ("/etc/anacrontab", "0644"),
        ("/usr/local/lib/systemd/system/web.service", "0644"),
        ("/home/web/.config/systemd/user/web.service", "0644"),
        ("/root/.bashrc", "0644"),
        ("/home/web/.profile", "0644"),
    ];
    for (sequence, (path, mode)) in (1..).zip(places) {
        let ran = mesh.apply(&mesh.request(sequence, &[with(path, mode)]));
        assert!(ran.code == 3 && ran.err.contains("a bound value is not signed"), "{path}: {}", ran.err);
        assert!(!mesh.tree.exists(path));
    }
    assert_eq!(mesh.apply(&mesh.request(9, &[with("/srv/conf", "0644")])).code, 0);
    assert_eq!(mesh.tree.read("/srv/conf"), "10.0.0.2");
}

#[test]
fn at_boot_and_at_its_interval_the_daemon_heals_from_its_own_copy() {
    let mesh = Mesh::new();
    let module = Module {
        needs: json!([secret_need("key")]),
        values: Some(json!({"secret:key": mesh.sealed("web", "key", 1, "hunter2")})),
        ..web("${secret:key}")
    };
    let mark =
        Module::new("mark", json!([{"id": "mark.f", "type": "file", "path": "/srv/mark", "content": "x"}]));
    let request = mesh.request(1, &[module, mark]);
    {
        let daemon = mesh.serve(3600);
        assert_eq!(daemon.last(&request)["report"]["changed"], true);
    }
    mesh.tree.write("/srv/site", "by hand while it was off");
    let daemon = mesh.serve(1);
    until("the file is healed at boot", || mesh.tree.read("/srv/site") == "hunter2");
    mesh.tree.write("/srv/site", "by hand again");
    until("the file is healed at the interval", || mesh.tree.read("/srv/site") == "hunter2");
    // The vault refused the value: its copy is wiped, and what runs stays. The other module goes on being healed.
    assert_eq!(daemon.last(&json!({"drop": {"web": ["secret:key"]}})), json!({"done": {}}));
    mesh.tree.write("/srv/site", "by hand at last");
    mesh.tree.write("/srv/mark", "by hand at last");
    until("the other module is healed", || mesh.tree.read("/srv/mark") == "x");
    assert_eq!(mesh.tree.read("/srv/site"), "by hand at last");
}

#[test]
fn values_that_are_the_same_come_from_the_own_copy() {
    let mesh = Mesh::new();
    let daemon = mesh.serve(3600);
    let with = |content: &str, values| Module {
        needs: json!([secret_need("key")]),
        values: Some(values),
        ..web(content)
    };
    let given = json!({"secret:key": mesh.sealed("web", "key", 1, "hunter2")});
    daemon.ask(&mesh.request(1, &[with("a ${secret:key}", given)]));
    let last = daemon.last(&mesh.request(2, &[with("b ${secret:key}", json!({"same": true}))]));
    assert_eq!(
        (&last["report"]["changed"], mesh.tree.read("/srv/site")),
        (&json!(true), "b hunter2".to_owned()),
        "{last}"
    );
}

#[test]
fn nonsense_is_answered_in_one_line_and_stops_nothing() {
    let mesh = Mesh::new();
    let daemon = mesh.serve(3600);
    let code = |bytes: &[u8]| daemon.send(bytes).pop().unwrap()["error"]["code"].clone();
    for nonsense in
        [&b"\n"[..], b"{", b"{\"staus\":{}}\n", b"[]\n", b"\xff\xfe\n", b"{\"apply\":{},\"key\":{}}\n"]
    {
        assert_eq!(code(nonsense), 400, "{nonsense:?}");
    }
    let deep = vec![b'['; 1 << 20];
    assert_eq!(code(&deep), 400);
    let long = vec![b' '; mesh_model::host_api::MAX_REQUEST_BYTES + 1];
    assert_eq!(code(&long), 413);
    // Clients that go away at once, and one that never sends anything.
    for _ in 0..20 {
        drop(daemon.connect());
    }
    // They are let go of one after the other.
    until("there is room again", || daemon.last(&json!({"key": {}}))["key"].is_string());
    let mut slow = daemon.connect();
    slow.write_all(b"{\"ke").unwrap();
    until("others are answered meanwhile", || daemon.last(&json!({"key": {}}))["key"].is_string());
    let mut text = String::new();
    slow.read_to_string(&mut text).unwrap();
    assert!(text.contains("\"code\":408"), "{text}");
}

#[test]
fn a_request_of_very_many_values_takes_no_more_memory_than_one_of_a_few_long_ones() {
    let mesh = Mesh::new();
    let daemon = mesh.serve_in(&["prlimit", &format!("--as={}", 512 << 20)], 3600);
    let mut many = b"{\"plan\":[0".to_vec();
    while many.len() < mesh_model::host_api::MAX_REQUEST_BYTES - 3 {
        many.extend_from_slice(b",0");
    }
    many.extend_from_slice(b"]}\n");
    let answer = daemon.send(&many);
    assert_eq!(answer.first().map(|line| &line["error"]["code"]), Some(&json!(413)), "{answer:?}");
    // What stands in a text is no value.
    let mut long = b"{\"plan\":\"".to_vec();
    long.resize(mesh_model::host_api::MAX_REQUEST_BYTES - 3, b',');
    long.extend_from_slice(b"\"}\n");
    assert_eq!(daemon.send(&long)[0]["error"]["code"], 400);
}

#[test]
fn a_user_who_is_neither_root_nor_the_client_is_refused_by_the_kernels_word() {
    let mesh = Mesh::new();
    let _daemon = mesh.serve(3600);
    let socket = mesh.tree.path("/run/mesh-host/host.sock");
    // Everybody may open it now, so that only the peer's credentials count.
    for folder in [
        mesh.tree.root().to_owned(),
        mesh.tree.path("/run"),
        mesh.tree.path("/run/mesh-host"),
        socket.clone(),
    ] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let ask = |uid: &str| {
        let script = "use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new($ARGV[0]) or die; print $s qq({\"key\":{}}\\n); $s->flush; print <$s>;";
        let output = Command::new("setpriv")
            .args(["--reuid", uid, "--regid", uid, "--clear-groups", "perl", "-e", script])
            .arg(&socket)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(ask("4243").contains("\"code\":403"), "{}", ask("4243"));
    assert!(ask("4242").contains("\"key\":\"X"), "{}", ask("4242"));
}

#[test]
fn the_daemon_ends_when_it_is_asked_to() {
    let mesh = Mesh::new();
    let mut daemon = mesh.serve(3600);
    let pid = rustix::process::Pid::from_child(&daemon.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    until("the daemon ends", || daemon.child.try_wait().unwrap().is_some_and(|status| status.success()));
    assert!(!mesh.tree.exists("/run/mesh-host/host.sock"));
}

#[test]
fn h95_on_an_adopted_node_what_was_found_is_held_until_its_module_is_taken() {
    let mesh = Mesh::new();
    mesh.tree.write("/etc/ssh/sshd_config", "found");
    mesh.tree.write("/etc/equal", "equal");
    let ssh = || {
        Module::new(
            "ssh",
            json!([
                {"id": "ssh.conf", "type": "file", "path": "/etc/ssh/sshd_config", "content": "ours"},
                {"id": "ssh.equal", "type": "file", "path": "/etc/equal", "content": "equal"},
                {"id": "ssh.new", "type": "file", "path": "/etc/new", "content": "new"},
            ]),
        )
    };
    let adopted = |sequence: u64, taken: &[&str], modules: &[Module]| {
        let adoption = json!({"taken": taken, "resources": []});
        mesh.apply(&mesh.request_with(&json!({"sequence": sequence, "adoption": adoption}), modules))
    };
    for sequence in 1..3 {
        let ran = adopted(sequence, &[], &[ssh()]);
        let new = if sequence == 1 { "ssh.new created" } else { "ssh.new unchanged" };
        assert_eq!(ran.words(), ["ssh.conf held", "ssh.equal unchanged", new], "{}", ran.err);
        assert_eq!((ran.code, mesh.tree.read("/etc/ssh/sshd_config")), (0, "found".to_owned()));
    }
    // Undeclared while it is held: nothing on disk changes. Declared again: held again.
    assert_eq!(
        adopted(3, &[], &[]).words(),
        ["ssh.new removed", "ssh.equal forgotten", "ssh.conf forgotten"]
    );
    assert_eq!(adopted(4, &[], &[ssh()]).words()[0], "ssh.conf held");
    let taken = adopted(5, &["ssh"], &[ssh()]);
    assert_eq!(
        (taken.words()[0].as_str(), mesh.tree.read("/etc/ssh/sshd_config")),
        ("ssh.conf updated", "ours".to_owned())
    );
    assert_eq!(mesh.tree.run(&["restore", "ssh.conf"]).code, 0);
    assert_eq!(mesh.tree.read("/etc/ssh/sshd_config"), "found");
}

#[test]
fn what_did_not_answer_is_looked_at_again_after_a_few_seconds() {
    let mesh = Mesh::new();
    let root = mesh.tree.root().to_str().unwrap().to_owned();
    fs::create_dir_all(mesh.tree.path("/srv/disk")).unwrap();
    fs::create_dir_all(mesh.tree.path("/disk")).unwrap();
    let on_disk = || {
        Module::new("web", json!([{"id": "web.f", "type": "file", "path": "/srv/disk/f", "content": "x"}]))
    };
    {
        let mount = r#"mount --bind "$0/disk" "$0/srv/disk"; exec "$@""#;
        let daemon = mesh.serve_in(&["unshare", "--mount", "sh", "-ec", mount, &root], 3600);
        assert_eq!(daemon.last(&mesh.request(1, &[on_disk()]))["report"]["totals"], json!({"created": 1}));
    }
    fs::remove_file(mesh.tree.path("/disk/f")).unwrap();
    // The disk is away at boot, and comes back later.
    let daemon = mesh.serve_in(&["unshare", "--mount"], 3600);
    until("the apply at boot finds the disk away", || {
        daemon.last(&mesh.request(1, &[on_disk()]))["report"]["totals"] == json!({"not-answered": 1})
    });
    assert!(!mesh.tree.exists("/srv/disk/f") && !mesh.tree.exists("/disk/f"));
    let mounted = Command::new("nsenter")
        .args(["--mount", "-t", &daemon.child.id().to_string(), "mount", "--bind"])
        .args([mesh.tree.path("/disk"), mesh.tree.path("/srv/disk")])
        .status();
    assert!(mounted.unwrap().success());
    until("the file is made again", || mesh.tree.exists("/disk/f"));
}

#[test]
fn on_an_adopted_node_what_was_found_as_declared_is_held_once_a_person_changes_it() {
    let mesh = Mesh::new();
    let motd = || {
        Module::new(
            "web",
            json!([{"id": "web.motd", "type": "file", "path": "/etc/motd", "content": "hello"}]),
        )
    };
    mesh.tree.write("/etc/motd", "hello");
    let adoption = json!({"taken": [], "resources": []});
    let request =
        |sequence: u64| mesh.request_with(&json!({"sequence": sequence, "adoption": adoption}), &[motd()]);
    assert_eq!(mesh.apply(&request(1)).words(), ["web.motd unchanged"]);
    mesh.tree.write("/etc/motd", "by hand");
    assert_eq!(mesh.apply(&request(2)).words(), ["web.motd held"]);
    assert_eq!(mesh.tree.read("/etc/motd"), "by hand");
}

#[test]
fn on_an_adopted_node_what_a_person_made_after_a_failed_apply_is_held() {
    let mesh = Mesh::new();
    let motd = || {
        Module::new(
            "web",
            json!([{"id": "web.motd", "type": "file", "path": "/srv/motd", "content": "hello"}]),
        )
    };
    let adoption = json!({"taken": [], "resources": []});
    let request =
        |sequence: u64| mesh.request_with(&json!({"sequence": sequence, "adoption": adoption}), &[motd()]);
    fs::create_dir_all(mesh.tree.path("/srv")).unwrap();
    let attribute =
        |sign: &str| Command::new("chattr").arg(sign).arg(mesh.tree.path("/srv")).status().unwrap();
    assert!(
        attribute("+i").success(),
        "chattr is needed, on a file system that knows the immutable attribute"
    );
    let failed = mesh.apply(&request(1)).words();
    attribute("-i");
    assert_eq!(failed, ["web.motd failed"]);
    mesh.tree.write("/srv/motd", "by hand");
    assert_eq!(mesh.apply(&request(2)).words(), ["web.motd held"]);
    assert_eq!(mesh.tree.read("/srv/motd"), "by hand");
}

#[test]
fn h95_what_is_held_is_taken_over_after_a_preview_and_comes_back() {
    let mesh = Mesh::new();
    let tree = &mesh.tree;
    tree.write("/etc/ssh/sshd_config", "theirs\n");
    let daemon = mesh.serve(3600);
    let web = || {
        Module::new(
            "web",
            json!([{"id": "web.sshd", "type": "file", "path": "/etc/ssh/sshd_config", "content": "ours\n"}]),
        )
    };
    let adoption = json!({"taken": [], "resources": []});
    let request = mesh.request_with(&json!({"sequence": 1, "adoption": adoption}), &[web()]);
    let lines = daemon.send(format!("{request}\n").as_bytes());
    assert_eq!(lines[0]["outcome"]["word"], "held", "{lines:?}");
    assert_eq!(tree.run(&["take", "other"]).code, 1);
    let preview = tree.run(&["take", "web"]);
    assert!(
        preview.code == 0 && preview.out.contains("updated      web.sshd"),
        "{}{}",
        preview.out,
        preview.err
    );
    assert_eq!(tree.read("/etc/ssh/sshd_config"), "theirs\n");
    let wrong = tree.run(&["take", "web", "--yes", "0123456789ab"]);
    assert!(wrong.code == 1 && tree.read("/etc/ssh/sshd_config") == "theirs\n", "{}", wrong.err);
    let digest = preview.out.split_whitespace().last().unwrap();
    let taken = tree.run(&["take", "web", "--yes", digest]);
    assert_eq!(
        (taken.code, tree.read("/etc/ssh/sshd_config")),
        (0, "ours\n".into()),
        "{}{}",
        taken.out,
        taken.err
    );
    assert_eq!(tree.run(&["restore", "web.sshd"]).code, 0);
    assert_eq!(tree.read("/etc/ssh/sshd_config"), "theirs\n");
}

#[test]
fn a_client_that_stops_reading_holds_an_apply_up_once_and_not_at_every_line() {
    let mesh = Mesh::new();
    let daemon = mesh.serve(3600);
    // Each outcome names its path: together they are far more than a socket holds.
    let folder = vec!["d".repeat(200); 15].join("/");
    let resources: Vec<_> = (0..200)
        .map(|number| json!({"id": format!("web.f{number}"), "type": "directory", "path": format!("/{folder}/{number}")}))
        .collect();
    let mut silent = daemon.connect();
    let request = mesh.request(1, &[Module::new("web", json!(resources))]);
    silent.write_all(format!("{request}\n").as_bytes()).unwrap();
    until("the apply ends", || mesh.tree.exists(&format!("/{folder}/199")));
    // The next one has its turn.
    let last = daemon.last(&mesh.request(2, &[web("x")]));
    assert_eq!(last["report"]["modules"]["web"]["state"], "applied", "{last}");
}
