//! Digests as text: hexadecimal, big-endian, of full length. Numbers of 128 bits have no place in
//! most data formats.

use std::fmt::LowerHex;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;

/// For `#[serde(serialize_with)]`: the digits of a number.
pub(crate) fn serialize<T: LowerHex, S: Serializer>(
    number: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let width = size_of::<T>() * 2;
    serializer.collect_str(&format_args!("{number:0width$x}"))
}

/// For `#[serde(deserialize_with)]`: a number from exactly as many digits as it takes.
pub(crate) fn deserialize<'de, T: TryFrom<u128>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let width = size_of::<T>() * 2;
    let text = String::deserialize(deserializer)?;
    let is_hex = text.len() == width && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(&text, 16).ok().filter(|_| is_hex);
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| D::Error::custom(format_args!("expected {width} hexadecimal digits")))
}
