//! The token of `Authorization: Negotiate` (RFC 4559): SPNEGO (RFC 4178) around GSS-API (RFC 4121 §4.1) around an AP-REQ
//! (RFC 4120 §5.5.1).
//!
//! The ticket is sent as the KDC has made it. Only the authenticator is ours: it proves that the sender knows the
//! ticket's session key, and a server accepts each one once.

use picky_asn1::{
    bit_string::BitString,
    date::GeneralizedTime,
    restricted_string::{CharSetError, Ia5String},
    wrapper::{
        Asn1SequenceOf, BitStringAsn1, ExplicitContextTag0, ExplicitContextTag1, ExplicitContextTag2,
        ExplicitContextTag3, ExplicitContextTag4, GeneralStringAsn1, GeneralizedTimeAsn1, IntegerAsn1,
        ObjectIdentifierAsn1, OctetStringAsn1, Optional,
    },
};
use picky_asn1_der::{Asn1DerError, Asn1RawDer, application_tag::ApplicationTag, to_vec};
use picky_asn1_x509::oids;
use picky_krb::{
    constants::{
        gss_api::{AP_REQ_TOKEN_ID, AUTHENTICATOR_CHECKSUM_TYPE},
        key_usages::AP_REQ_AUTHENTICATOR,
        types::AP_REQ_MSG_TYPE,
    },
    crypto::{CipherSuite, KerberosCryptoError},
    data_types::{Authenticator, AuthenticatorInner, Checksum, EncryptedData, PrincipalName},
    gss_api::{ApplicationTag0, GssApiNegInit, KrbMessage, NegTokenInit},
};
use serde::Serialize;
use time::OffsetDateTime;
use zeroize::Zeroizing;

use super::ccache::{Entry, Principal};

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokenError {
    #[error("a principal's name is not ASCII")]
    Name(#[from] CharSetError),
    #[error("{0}")]
    Der(#[from] Asn1DerError),
    #[error("{0}")]
    Crypto(#[from] KerberosCryptoError),
}

/// AP-REQ, with the ticket as it is.
#[derive(Debug, Clone, Serialize, PartialEq)]
struct ApReq {
    pvno: ExplicitContextTag0<IntegerAsn1>,
    msg_type: ExplicitContextTag1<IntegerAsn1>,
    ap_options: ExplicitContextTag2<BitStringAsn1>,
    ticket: ExplicitContextTag3<Asn1RawDer>,
    authenticator: ExplicitContextTag4<EncryptedData>,
}

/// Whether tokens can be made with session keys of this type: aes128-cts-hmac-sha1-96 and aes256-cts-hmac-sha1-96.
pub(super) fn is_supported(encryption: u16) -> bool {
    suite(encryption).is_some()
}

fn suite(encryption: u16) -> Option<CipherSuite> {
    match encryption {
        17 => Some(CipherSuite::Aes128CtsHmacSha196),
        18 => Some(CipherSuite::Aes256CtsHmacSha196),
        _ => None,
    }
}

/// A token with an authenticator of this time.
pub(super) fn token(entry: &Entry, now: OffsetDateTime) -> Result<Vec<u8>, TokenError> {
    let suite = suite(entry.encryption).ok_or(KerberosCryptoError::AlgorithmIdentifier(entry.encryption.into()))?;
    let authenticator = Zeroizing::new(to_vec(&authenticator(&entry.client, now)?)?);
    let cipher = suite.cipher().encrypt(&entry.key, AP_REQ_AUTHENTICATOR, &authenticator)?;
    let ap_req = ApReq {
        pvno: integer(5).into(),
        msg_type: integer(AP_REQ_MSG_TYPE.into()).into(),
        // Neither mutual authentication, which TLS has done, nor a session key of the ticket-granting ticket.
        ap_options: BitStringAsn1::from(BitString::with_bytes([0; 4])).into(),
        ticket: Asn1RawDer(entry.ticket.clone()).into(),
        authenticator: EncryptedData {
            etype: integer(entry.encryption.into()).into(),
            kvno: Optional(None),
            cipher: OctetStringAsn1::from(cipher).into(),
        }
        .into(),
    };
    let krb5 = ObjectIdentifierAsn1::from(oids::krb5());
    let message = ApplicationTag0(KrbMessage {
        krb5_oid: krb5.clone(),
        krb5_token_id: AP_REQ_TOKEN_ID,
        krb_msg: ApplicationTag::<ApReq, AP_REQ_MSG_TYPE>::from(ap_req),
    });
    let negotiation = ApplicationTag0(GssApiNegInit {
        oid: oids::spnego().into(),
        neg_token_init: NegTokenInit {
            mech_types: Optional(Some(Asn1SequenceOf::from(vec![krb5]).into())),
            req_flags: Optional(None),
            mech_token: Optional(Some(OctetStringAsn1::from(to_vec(&message)?).into())),
            mech_list_mic: Optional(None),
        }
        .into(),
    });
    Ok(to_vec(&negotiation)?)
}

fn authenticator(client: &Principal, now: OffsetDateTime) -> Result<Authenticator, TokenError> {
    let names = client.components.iter().map(|component| string(component)).collect::<Result<Vec<_>, _>>()?;
    Ok(Authenticator::from(AuthenticatorInner {
        authenticator_vno: integer(5).into(),
        crealm: string(&client.realm)?.into(),
        cname: PrincipalName {
            name_type: integer(client.name_type).into(),
            name_string: Asn1SequenceOf::from(names).into(),
        }
        .into(),
        cksum: Optional(Some(
            Checksum {
                cksumtype: IntegerAsn1::from_bytes_be_unsigned(AUTHENTICATOR_CHECKSUM_TYPE.to_vec()).into(),
                checksum: OctetStringAsn1::from(checksum()).into(),
            }
            .into(),
        )),
        cusec: integer(now.microsecond()).into(),
        ctime: GeneralizedTimeAsn1::from(GeneralizedTime::from(now)).into(),
        subkey: Optional(None),
        seq_number: Optional(None),
        authorization_data: Optional(None),
    }))
}

/// RFC 4121 §4.1.1: the length of the channel bindings, none of them, and no flags.
fn checksum() -> Vec<u8> {
    let mut bytes = vec![0; 24];
    bytes[0] = 16;
    bytes
}

fn integer(value: u32) -> IntegerAsn1 {
    IntegerAsn1::from_bytes_be_unsigned(value.to_be_bytes().to_vec())
}

fn string(bytes: &[u8]) -> Result<GeneralStringAsn1, CharSetError> {
    Ia5String::new(bytes).map(GeneralStringAsn1::from)
}
