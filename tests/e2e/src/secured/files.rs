//! The settings and the files of nodes with the security plug-in.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::Authority;

/// The common name of the administrator's certificate.
pub(super) const ADMINISTRATOR: &str = "administrator";

/// The kinds of objects of which the plug-in needs a file, even if there are none: the file's name and its type.
const NONE_YET: [(&str, &str); 6] = [
    ("action_groups", "actiongroups"),
    ("internal_users", "internalusers"),
    ("nodes_dn", "nodesdn"),
    ("roles", "roles"),
    ("roles_mapping", "rolesmapping"),
    ("tenants", "tenants"),
];

/// Returns the settings of all nodes.
pub(super) fn settings() -> Map<String, Value> {
    let mut settings = Map::from_iter([
        ("plugins.security.allow_default_init_securityindex".to_owned(), json!(true)),
        ("plugins.security.authcz.admin_dn".to_owned(), json!([format!("CN={ADMINISTRATOR}")])),
        ("plugins.security.nodes_dn".to_owned(), json!(["CN=es-*.internal"])),
        // The least cost: these passwords need no protection.
        ("plugins.security.password.hashing.bcrypt.rounds".to_owned(), json!(4)),
        ("plugins.security.ssl.http.enabled".to_owned(), json!(true)),
        // The nodes find each other by addresses, and the certificates have names.
        ("plugins.security.ssl.transport.enforce_hostname_verification".to_owned(), json!(false)),
    ]);
    for layer in ["http", "transport"] {
        let mut set = |name: &str, file: &str| {
            settings.insert(format!("plugins.security.ssl.{layer}.{name}_filepath"), json!(file));
        };
        set("pemcert", "node.pem");
        set("pemkey", "node-key.pem");
        set("pemtrustedcas", "ca.pem");
    }
    settings
}

/// Returns the files of a node: its certificate, and what the plug-in begins with, without any user or role.
pub(super) fn of_node(node: usize, authority: &Authority) -> Result<BTreeMap<String, String>> {
    let identity = authority.sign_names(&[&format!("es-{node}.internal"), "127.0.0.1"])?;
    let certificates = [
        ("ca.pem".to_owned(), authority.certificate.clone()),
        ("node.pem".to_owned(), identity.certificate),
        ("node-key.pem".to_owned(), identity.key),
    ];
    let none = NONE_YET.map(|(name, kind)| part(name, json!({"_meta": meta(kind)})));
    Ok(certificates.into_iter().chain(none).chain([part("config", passwords())]).collect())
}

/// Returns a configuration in which users send passwords.
fn passwords() -> Value {
    let basic = json!({
        "http_enabled": true, "transport_enabled": true, "order": 0,
        "http_authenticator": {"type": "basic", "challenge": true},
        "authentication_backend": {"type": "intern"},
    });
    json!({"_meta": meta("config"), "config": {"dynamic": {"authc": {"basic": basic}}}})
}

fn part(name: &str, content: Value) -> (String, String) {
    // JSON is valid YAML.
    (format!("opensearch-security/{name}.yml"), content.to_string())
}

fn meta(kind: &str) -> Value {
    json!({"type": kind, "config_version": 2})
}
