//! Certificates and keys in PEM files, and the system's roots. Every error names the file and what to do about it.

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;
use std::fmt::Display;
use std::fs;
use std::path::Path;

/// A certificate with its key, and what issued it, as we show it to a server.
pub(crate) fn identity(cert: &Path, key: &Path) -> Result<CertifiedKey, String> {
    let chain = certificates("certificate", cert)?;
    let pair = CertifiedKey::from_der(chain, private_key(key)?, &ring::default_provider());
    pair.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("the key {} is not the key of the certificate {}: name its own", shown(key), shown(cert))
        }
        rustls::Error::InvalidCertificate(_) => {
            format!("the certificate {} cannot be read ({error}): name another file", shown(cert))
        }
        _ => format!(
            "the key {} is of a kind that is not supported ({error}): use RSA, ECDSA with P-256 or P-384, or Ed25519",
            shown(key)
        ),
    })
}

/// Says so if a certificate of ours cannot be used today: the server would only refuse it.
pub(crate) fn look_at_term(identity: &CertifiedKey, cert: &Path) -> Result<(), String> {
    let Some(leaf) = identity.cert.first() else { return Ok(()) };
    let Ok(leaf) = webpki::EndEntityCert::try_from(leaf) else { return Ok(()) };
    // Nobody is trusted here: the term is looked at before the issuer.
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    let usage = webpki::KeyUsage::client_auth();
    match leaf.verify_for_usage(algorithms, &[], &[], UnixTime::now(), usage, None, None).err() {
        Some(webpki::Error::CertExpired { .. }) => {
            Err(format!("TLS: the client certificate {} has expired: renew it", shown(cert)))
        }
        Some(webpki::Error::CertNotValidYet { .. }) => Err(format!(
            "TLS: the client certificate {} is not valid yet: look at this machine's clock, or renew it",
            shown(cert)
        )),
        _ => Ok(()),
    }
}

/// Whom to trust: the certificates of the file, or without one the system's roots.
pub(crate) fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(ca) = ca {
        for certificate in certificates("CA", ca)? {
            roots.add(certificate).map_err(|error| {
                format!("a certificate in the CA file {} cannot be read ({error}): name another", shown(ca))
            })?;
        }
        return Ok(roots);
    }
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let why = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
    Err(format!(
        "TLS: the system's CA certificates cannot be read: {why}: SSL_CERT_FILE or SSL_CERT_DIR may name a file that is not there: unset it or mend it, or name a CA with --tls-ca"
    ))
}

pub(crate) fn certificates(what: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(what, path)?;
    let read = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    match read {
        Ok(chain) if chain.is_empty() => {
            Err(format!("the {what} file {} holds no certificate in PEM: name another", shown(path)))
        }
        Ok(chain) => Ok(chain),
        Err(error) => Err(broken(what, path, &error)),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let pem = read("key", path)?;
    let text = String::from_utf8_lossy(&pem);
    if text.contains("ENCRYPTED") && text.contains("PRIVATE KEY-----") {
        return Err(format!(
            "the key file {} is encrypted: decrypt it (openssl pkey -in FILE -out FILE), and protect it by its mode",
            shown(path)
        ));
    }
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
        PemError::NoItemsFound => {
            format!("the key file {} holds no private key in PEM: name another", shown(path))
        }
        error => broken("key", path, &error),
    })
}

fn broken(what: &str, path: &Path, error: &PemError) -> String {
    // The error's own words show bytes as numbers.
    let why = match error {
        PemError::MissingSectionEnd { .. } => "a section does not end",
        PemError::Base64Decode(_) => "a section is not base64",
        _ => "it is not PEM",
    };
    format!("the {what} file {} is cut off or damaged ({why}): write it again", shown(path))
}

fn read(what: &str, path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("the {what} file {} cannot be read: {error}", shown(path)))
}

fn shown(path: &Path) -> impl Display {
    path.display()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use std::path::PathBuf;
    use tempfile::TempDir;

    struct Files(TempDir);

    impl Files {
        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, text).unwrap();
            path
        }
    }

    fn issue(term: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut wanted = CertificateParams::new(vec!["node".to_owned()]).unwrap();
        term(&mut wanted);
        (wanted.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn a_certificate_and_its_key_are_read_and_what_is_wrong_names_the_file() {
        let files = Files(tempfile::tempdir().unwrap());
        let (pem, own) = issue(|_| {});
        let (_, other) = issue(|_| {});
        let cert = files.write("cert.pem", &pem);
        assert!(identity(&cert, &files.write("own.pem", &own)).is_ok());
        for (key, words) in [
            (files.write("other.pem", &other), "other.pem is not the key of the certificate"),
            (files.write("half.pem", &own[..own.len() / 2]), "half.pem is cut off or damaged"),
            (files.write("none.pem", "nothing"), "none.pem holds no private key"),
            (
                files.write("encrypted.pem", &own.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")),
                "encrypted.pem is encrypted: decrypt it",
            ),
            (files.0.path().join("missing.pem"), "missing.pem cannot be read: No such file"),
        ] {
            let error = identity(&cert, &key).unwrap_err();
            assert!(error.contains(words), "{words}: {error}");
        }
        let half = files.write("half-cert.pem", &pem[..pem.len() / 2]);
        let error = identity(&half, &files.write("own.pem", &own)).unwrap_err();
        assert!(error.contains("half-cert.pem is cut off or damaged"), "{error}");
        assert!(roots(Some(&half)).unwrap_err().contains("half-cert.pem is cut off or damaged"));
    }

    #[test]
    fn a_certificate_out_of_its_term_is_named() {
        let files = Files(tempfile::tempdir().unwrap());
        for (name, from, to, words) in [
            ("old.pem", 2020, 2021, Some("old.pem has expired")),
            ("new.pem", 2999, 3000, Some("new.pem is not valid yet")),
            ("good.pem", 2020, 3000, None),
        ] {
            let (pem, key) = issue(|wanted| {
                wanted.not_before = date_time_ymd(from, 1, 1);
                wanted.not_after = date_time_ymd(to, 1, 1);
            });
            let cert = files.write(name, &pem);
            let identity = identity(&cert, &files.write("key.pem", &key)).unwrap();
            let error = look_at_term(&identity, &cert).err();
            assert_eq!(error.is_some(), words.is_some(), "{name}: {error:?}");
            assert!(words.is_none_or(|words| error.unwrap().contains(words)));
        }
    }
}
