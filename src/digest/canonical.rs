//! One byte sequence per value, hashed as it is written.
//!
//! Each value starts with a tag; texts and lists carry their length, numbers are eight or sixteen
//! bytes, big-endian. Fields and variants count by name, so that their order in the source does
//! not matter to anybody but the reader of a derive.

use serde::ser::{
    Error, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use sha2::{Digest, Sha256};

/// Nothing here fails; the trait asks for an error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refused(String);

impl Error for Refused {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Hashes what is serialised into it.
#[derive(Default)]
pub(super) struct Canonical(Sha256);

impl Canonical {
    pub(super) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    fn tag(&mut self, tag: u8) {
        self.0.update([tag]);
    }

    fn number(&mut self, tag: u8, number: u64) {
        self.tag(tag);
        self.0.update(number.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(b's', text.len() as u64);
        self.0.update(text.as_bytes());
    }

    fn sequence(&mut self, tag: u8) -> &mut Self {
        self.tag(tag);
        self
    }
}

type Written = Result<(), Refused>;

macro_rules! numbers {
    ($($method:ident: $number:ty as $wide:ty, $tag:literal;)*) => {
        $(
            fn $method(self, number: $number) -> Written {
                self.tag($tag);
                self.0.update(<$wide>::from(number).to_be_bytes());
                Ok(())
            }
        )*
    };
}

impl<'a> Serializer for &'a mut Canonical {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = &'a mut Canonical;
    type SerializeTuple = &'a mut Canonical;
    type SerializeTupleStruct = &'a mut Canonical;
    type SerializeTupleVariant = &'a mut Canonical;
    type SerializeMap = &'a mut Canonical;
    type SerializeStruct = &'a mut Canonical;
    type SerializeStructVariant = &'a mut Canonical;

    numbers! {
        serialize_bool: bool as u64, b'b';
        serialize_u8: u8 as u64, b'u';
        serialize_u16: u16 as u64, b'u';
        serialize_u32: u32 as u64, b'u';
        serialize_u64: u64 as u64, b'u';
        serialize_u128: u128 as u128, b'w';
        serialize_i8: i8 as i64, b'i';
        serialize_i16: i16 as i64, b'i';
        serialize_i32: i32 as i64, b'i';
        serialize_i64: i64 as i64, b'i';
        serialize_i128: i128 as i128, b'j';
        serialize_char: char as u64, b'c';
    }

    fn serialize_f32(self, number: f32) -> Written {
        self.serialize_f64(number.into())
    }

    fn serialize_f64(self, number: f64) -> Written {
        self.number(b'f', number.to_bits());
        Ok(())
    }

    fn serialize_str(self, text: &str) -> Written {
        self.text(text);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Written {
        self.number(b'y', bytes.len() as u64);
        self.0.update(bytes);
        Ok(())
    }

    fn serialize_none(self) -> Written {
        self.tag(b'0');
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        self.tag(b'1');
        value.serialize(self)
    }

    fn serialize_unit(self) -> Written {
        self.tag(b'n');
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        self.tag(b'v');
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Written {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        self.serialize_unit_variant("", 0, variant)?;
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Refused> {
        Ok(self.sequence(b'['))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Refused> {
        Ok(self.sequence(b'['))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Refused> {
        Ok(self.sequence(b'['))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self, Refused> {
        self.serialize_unit_variant("", 0, variant)?;
        Ok(self.sequence(b'['))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Refused> {
        Ok(self.sequence(b'{'))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Refused> {
        Ok(self.sequence(b'{'))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self, Refused> {
        self.serialize_unit_variant("", 0, variant)?;
        Ok(self.sequence(b'{'))
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! elements {
    ($($list:ident: $method:ident,)*) => {
        $(
            impl $list for &mut Canonical {
                type Ok = ();
                type Error = Refused;

                fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
                    self.tag(b',');
                    value.serialize(&mut **self)
                }

                fn end(self) -> Written {
                    self.tag(b']');
                    Ok(())
                }
            }
        )*
    };
}

elements! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
}

macro_rules! fields {
    ($($fields:ident,)*) => {
        $(
            impl $fields for &mut Canonical {
                type Ok = ();
                type Error = Refused;

                fn serialize_field<T: Serialize + ?Sized>(
                    &mut self,
                    name: &'static str,
                    value: &T,
                ) -> Written {
                    self.text(name);
                    value.serialize(&mut **self)
                }

                fn end(self) -> Written {
                    self.tag(b'}');
                    Ok(())
                }
            }
        )*
    };
}

fields! { SerializeStruct, SerializeStructVariant, }

impl SerializeMap for &mut Canonical {
    type Ok = ();
    type Error = Refused;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        value.serialize(&mut **self)
    }

    fn end(self) -> Written {
        self.tag(b'}');
        Ok(())
    }
}
