//! A source of sample packages, so that the tests need no network: `mesh-plain`, `mesh-served` with a unit that it
//! starts, and `mesh-asks`, which has a question and a configuration file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// A name, files by path, and what runs after the installation.
type Sample = (&'static str, &'static [(&'static str, &'static str)], Option<&'static str>);

const UNIT: &str = "[Unit]\nDescription=Served\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";
const START: &str = "#!/bin/sh\nset -e\nif [ -d /run/systemd/system ]; then systemctl daemon-reload; systemctl enable --now mesh-served.service; fi\n";
const ASK: &str =
    "#!/bin/sh\nset -e\nif [ -t 0 ] || ! read answer; then :; fi\nsleep 0\n(sleep 300 &)\nexit 0\n";

/// Makes the packages in the tree and has apt know only them.
pub(crate) fn lay(root: &Path) {
    let source = root.join("srv/source");
    fs::create_dir_all(&source).unwrap();
    fs::write(root.join("etc/apt/sources.list"), "deb [trusted=yes] file:/srv/source ./\n").unwrap();
    let mut index = String::new();
    let packages: [Sample; 3] = [
        ("mesh-plain", &[("usr/share/mesh-plain/data", "plain\n")], None),
        ("mesh-served", &[("usr/lib/systemd/system/mesh-served.service", UNIT)], Some(START)),
        ("mesh-asks", &[("etc/mesh-asks.conf", "theirs\n")], Some(ASK)),
    ];
    for (name, files, postinst) in packages {
        let folder = root.join("srv").join(name);
        for (path, text) in files {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let control = format!(
            "Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: Tests <tests@example.org>\nDescription: a sample\n"
        );
        fs::create_dir_all(folder.join("DEBIAN")).unwrap();
        fs::write(folder.join("DEBIAN/control"), &control).unwrap();
        let etc: Vec<_> = files.iter().filter(|(path, _)| path.starts_with("etc/")).collect();
        if !etc.is_empty() {
            let list: Vec<String> = etc
                .iter()
                .map(|(path, _)| {
                    format!(
                        "/{path}
"
                    )
                })
                .collect();
            fs::write(folder.join("DEBIAN/conffiles"), list.concat()).unwrap();
        }
        if let Some(postinst) = postinst {
            let path = folder.join("DEBIAN/postinst");
            fs::write(&path, postinst).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let file = source.join(format!("{name}_1.0_all.deb"));
        let built = Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Znone", "--build"])
            .args([&folder, &file])
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let bytes = fs::read(&file).unwrap();
        let digest = mesh_model::digest::Digest::of(&bytes).to_string();
        let digest = digest.trim_start_matches("sha256:");
        let entry =
            format!("{control}Filename: ./{name}_1.0_all.deb\nSize: {}\nSHA256: {digest}\n\n", bytes.len());
        index.push_str(&entry);
    }
    fs::write(source.join("Packages"), index).unwrap();
}
