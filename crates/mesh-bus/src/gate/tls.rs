//! TLS of the gate: what it is set up with, and what goes wrong in words that say what to do.

use crate::config::Tls;
use crate::pem;
use crate::pin::Pinned;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, Error, crypto};
use std::sync::Arc;

/// A session that has not begun, with a server whose certificate has to be for `host`. The files are read again.
pub(super) fn session(host: &str, tls: &Tls) -> Result<ClientConnection, String> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| format!("TLS: no certificate can be for the name {host:?}: use another in --server"))?;
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    let builder = match tls.pin {
        Some(pin) => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Pinned::new(pin, &provider)))
        }
        None => builder.with_root_certificates(pem::roots(tls.ca.as_deref())?),
    };
    let config = match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => {
            let identity = pem::identity(cert, key)?;
            pem::look_at_term(&identity, cert)?;
            builder.with_client_cert_resolver(always(identity))
        }
        _ => builder.with_no_client_auth(),
    };
    ClientConnection::new(Arc::new(config), name).map_err(|error| format!("TLS: {error}"))
}

fn always(identity: CertifiedKey) -> Arc<dyn ResolvesClientCert> {
    Arc::new(SingleCertAndKey::from(identity))
}

/// What went wrong, in words that say what to do.
pub(super) fn explain(error: &Error, tls: &Tls) -> String {
    let next = match error {
        Error::InvalidCertificate(why) => match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the server's certificate has expired: renew it".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the server's certificate is not valid yet: look at the clocks of both machines, or renew it"
                    .to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the server's certificate does not cover the name in --server: use a name that the certificate covers"
                    .to_owned()
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "the server's certificate is not signed by a known CA: name its CA with --tls-ca".to_owned()
            }
            CertificateError::ApplicationVerificationFailure if tls.pin.is_some() => {
                "the server's key is not the pinned one: either this is another server, or its key was renewed: ask who runs the bus before you trust it"
                    .to_owned()
            }
            _ if format!("{why:?}").contains("CaUsedAsEndEntity") => {
                "the server shows a CA's certificate as its own: give the server one that the CA has signed"
                    .to_owned()
            }
            _ => "the server's certificate cannot be used: give the server another".to_owned(),
        },
        Error::AlertReceived(alert) if is_about_us(*alert) => match &tls.cert {
            Some(cert) => format!(
                "the server does not accept the client certificate {}: it has to be signed by a CA that the server knows, and to be valid today",
                cert.display()
            ),
            None => "the server requires a client certificate that it trusts: give --tls-cert and --tls-key"
                .to_owned(),
        },
        Error::AlertReceived(AlertDescription::HandshakeFailure) => {
            "the server and this program have no way in common: give the server a certificate whose key is RSA, ECDSA with P-256 or P-384, or Ed25519, and TLS 1.2 or 1.3"
                .to_owned()
        }
        Error::InvalidMessage(_) => "what the server says is not TLS".to_owned(),
        _ => return format!("TLS: {error}"),
    };
    format!("TLS: {next} ({error})")
}

/// Which alert it is depends on the version of TLS and of the server.
const fn is_about_us(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRevoked
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}
