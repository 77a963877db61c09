//! Pins: a server is known by its public key; who signed its certificate does not matter. A machine that has only a token and no CA
//! can tell the bus from anybody else so.

use crate::pem;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use sha2::{Digest as _, Sha256};
use std::path::Path;

/// The SHA-256 of a certificate's public key (SPKI). `path` is a file in PEM; its first certificate counts.
pub fn of_file(path: &Path) -> Result<[u8; 32], String> {
    let chain = pem::certificates("certificate", path)?;
    chain.first().and_then(of).ok_or_else(|| {
        format!("the first certificate of {} cannot be read: name another file", path.display())
    })
}

fn of(certificate: &CertificateDer<'_>) -> Option<[u8; 32]> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    Some(Sha256::digest(parsed.subject_public_key_info()).into())
}

/// Lets in the server that has one key. That it does have it, its signature of the handshake says.
#[derive(Debug)]
pub(crate) struct Pinned {
    pin: [u8; 32],
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    pub(crate) fn new(pin: [u8; 32], provider: &CryptoProvider) -> Pinned {
        Pinned { pin, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if of(certificate) == Some(self.pin) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use std::fs;

    #[test]
    fn a_pin_is_of_the_key_and_not_of_the_certificate() {
        let key = KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let issue = |file: &str, key: &KeyPair| {
            let wanted = CertificateParams::new(vec![file.to_owned()]).unwrap();
            let path = folder.path().join(file);
            fs::write(&path, wanted.self_signed(key).unwrap().pem()).unwrap();
            of_file(&path).unwrap()
        };
        let pin = issue("one", &key);
        assert_eq!(pin, <[u8; 32]>::from(Sha256::digest(key.public_key_der())));
        assert_eq!(issue("renewed", &key), pin);
        assert_ne!(issue("other", &KeyPair::generate().unwrap()), pin);
        fs::write(folder.path().join("none"), "").unwrap();
        assert!(of_file(&folder.path().join("none")).is_err());
    }
}
