//! The options of every command that connects to the bus.

/// Declares a command that connects to the bus: its own options, and those that say how to connect. `argh` cannot put
/// one struct of options into another.
#[macro_export]
macro_rules! connecting {
    ($(#[$attribute:meta])* $visible:vis struct $name:ident { $($options:tt)* }) => {
        $(#[$attribute])*
        $visible struct $name {
            $($options)*

            /// the bus's servers: URLs, comma-separated [NATS_URL; nats://127.0.0.1:4222]
            #[argh(option, arg_name = "urls")]
            server: Option<String>,

            /// a file with a user's JWT and seed [NATS_CREDS]
            #[argh(option, arg_name = "file")]
            creds: Option<String>,

            /// a file with a user's seed [NATS_NKEY]
            #[argh(option, arg_name = "file")]
            nkey: Option<String>,

            /// the user; the password comes from NATS_PASSWORD alone [NATS_USER]
            #[argh(option, arg_name = "name")]
            user: Option<String>,

            /// the CA that signed the server certificates [NATS_CA]
            #[argh(option, arg_name = "file")]
            tls_ca: Option<String>,

            /// the client certificate [NATS_CERT]
            #[argh(option, arg_name = "file")]
            tls_cert: Option<String>,

            /// the key of the client certificate [NATS_KEY]
            #[argh(option, arg_name = "file")]
            tls_key: Option<String>,

            /// a context of the nats tool, by name [NATS_CONTEXT; the selected one]
            #[argh(option, arg_name = "name")]
            context: Option<String>,
        }

        impl $name {
            fn flags(&self) -> $crate::Flags {
                $crate::Flags {
                    server: self.server.clone(),
                    creds: self.creds.clone(),
                    nkey: self.nkey.clone(),
                    user: self.user.clone(),
                    tls_ca: self.tls_ca.clone(),
                    tls_cert: self.tls_cert.clone(),
                    tls_key: self.tls_key.clone(),
                    context: self.context.clone(),
                }
            }
        }
    };
}
