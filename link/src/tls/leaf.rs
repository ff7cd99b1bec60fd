//! The certificate of one process: a new key, signed by the key of the process's role.

use aws_lc_rs::signature::Ed25519KeyPair;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ED25519, date_time_ymd,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::anchor_subject_common_name;
use super::error::TlsSetupError;
use crate::identity::{Credentials, Role, Signer};

/// A certificate chain, and the private key of its first certificate.
pub(crate) struct Leaf {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Leaf {
    /// Returns the site's certificate, or a new certificate signed by the role's key.
    pub(crate) fn of(credentials: &Credentials) -> Result<Leaf, TlsSetupError> {
        match credentials.signer() {
            Signer::Site { chain, key } => Ok(Leaf {
                chain: chain.clone(),
                key: key.clone_key(),
            }),
            Signer::RoleKey(seed) => Leaf::issue(credentials.role(), &[credentials.role().dns_name()], seed),
        }
    }

    /// Makes a new key, and its certificate for `dns_names`, signed in the name of `issuer` with `seed`.
    ///
    /// The certificate practically does not expire. The certificate's key exists only in this process's
    /// memory. The holder of the role's key could issue another certificate at any time. An expiry would only
    /// end long runs, and exclude machines with wrong clocks. A new cluster key revokes a role.
    pub(crate) fn issue(issuer: Role, dns_names: &[&str], seed: &[u8; 32]) -> Result<Leaf, TlsSetupError> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let names: Vec<String> = dns_names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2200, 1, 1);
        params.distinguished_name = common_name("millstream process".to_owned());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let mut issuer_params = CertificateParams::default();
        issuer_params.distinguished_name = common_name(anchor_subject_common_name(issuer));
        let issuer = Issuer::new(issuer_params, signing_key(seed)?);
        let certificate = params.signed_by(&key, &issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Leaf {
            chain: vec![certificate.der().clone()],
            key,
        })
    }
}

fn signing_key(seed: &[u8; 32]) -> Result<KeyPair, TlsSetupError> {
    let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(TlsSetupError::new)?;
    let document = pair.to_pkcs8v1().map_err(TlsSetupError::new)?;
    let der = PrivatePkcs8KeyDer::from(document.as_ref());
    Ok(KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ED25519)?)
}

fn common_name(name: String) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}
