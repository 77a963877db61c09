//! Certificates: an authority of the test's own, and what it signs, as files in PEM.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// Signs certificates, and keeps all files in a directory that goes with it.
pub struct Authority {
    certificate: Certificate,
    key: KeyPair,
    directory: TempDir,
}

/// The files of one certificate.
#[derive(Clone, Debug)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

/// Whether a certificate can still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    Valid,
    Expired,
    NotYet,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut wanted = CertificateParams::new(Vec::new()).expect("parameters");
        wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = wanted.self_signed(&key).expect("a certificate");
        let directory = tempfile::tempdir().expect("a directory");
        write(directory.path(), "ca.pem", &certificate.pem());
        Self { certificate, key, directory }
    }

    /// The file of its own certificate.
    pub fn file(&self) -> String {
        text(&self.directory.path().join("ca.pem"))
    }

    /// Its own certificate and key, which no server should show.
    pub fn own(&self) -> Issued {
        Issued {
            certificate: self.file(),
            key: write(self.directory.path(), "ca-key.pem", &self.key.serialize_pem()),
        }
    }

    /// Signs a certificate for a host name or an address. `file` names its files.
    pub fn issue(&self, file: &str, host: &str, term: Term) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let mut wanted = CertificateParams::new(vec![host.to_owned()]).expect("parameters");
        if term == Term::Expired {
            wanted.not_before = date_time_ymd(2020, 1, 1);
            wanted.not_after = date_time_ymd(2021, 1, 1);
        }
        if term == Term::NotYet {
            wanted.not_before = date_time_ymd(2999, 1, 1);
            wanted.not_after = date_time_ymd(3000, 1, 1);
        }
        let certificate = wanted.signed_by(&key, &self.certificate, &self.key).expect("a certificate");
        let directory = self.directory.path();
        Issued {
            certificate: write(directory, &format!("{file}.pem"), &certificate.pem()),
            key: write(directory, &format!("{file}-key.pem"), &key.serialize_pem()),
        }
    }
}

fn write(directory: &Path, name: &str, contents: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, contents).expect("a file");
    text(&path)
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}
