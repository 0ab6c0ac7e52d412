//! Which part a gzip file is: its header names it, in a field that other programs skip (RFC 1952, 2.3.1.1).

use headrace::{Part, Transaction};

/// The id of the field.
const ID: &[u8; 2] = b"HR";

/// The field for a part: batch, partition, the length of the pipeline's name, that name, and the attempt.
pub fn field(part: &Part) -> Vec<u8> {
    let pipeline = part.transaction.pipeline.as_bytes();
    let mut data = part.transaction.batch.to_le_bytes().to_vec();
    data.extend(part.partition.to_le_bytes());
    // Names have at most 255 bytes.
    data.extend((pipeline.len() as u16).to_le_bytes());
    data.extend(pipeline);
    data.extend(part.attempt.as_bytes());
    let mut field = ID.to_vec();
    field.extend((data.len() as u16).to_le_bytes());
    field.extend(data);
    field
}

/// The part that a field names; none if it is not one of ours.
pub fn part(field: &[u8]) -> Option<Part> {
    let (length, data) = field.strip_prefix(ID)?.split_first_chunk()?;
    if data.len() != usize::from(u16::from_le_bytes(*length)) {
        return None;
    }
    let (batch, data) = data.split_first_chunk()?;
    let (partition, data) = data.split_first_chunk()?;
    let (length, data) = data.split_first_chunk()?;
    let (pipeline, attempt) = data.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let transaction = Transaction { pipeline: text(pipeline)?, batch: u64::from_le_bytes(*batch) };
    Some(Part { transaction, partition: u32::from_le_bytes(*partition), attempt: text(attempt)? })
}

/// A name of a file that stands for a text of any length (FNV-1a).
pub fn hashed(text: &[u8]) -> String {
    let hash = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    format!("{:032x}", text.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, hash))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_part_is_read_as_it_was_written(
            pipeline in "\\PC{1,60}", attempt in "\\PC{0,60}", batch in any::<u64>(), partition in any::<u32>(),
        ) {
            let written = Part { transaction: Transaction { pipeline, batch }, partition, attempt };
            prop_assert_eq!(part(&field(&written)), Some(written));
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            part(&bytes);
            part(&[b"HR".as_slice(), &bytes].concat());
        }
    }

    #[test]
    fn hashes_stay_as_they_are() {
        // Files that exist are found by them; these are the values of the algorithm's authors.
        assert_eq!(hashed(b""), "6c62272e07bb014262b821756295c58d");
        assert_eq!(hashed(b"a"), "d228cb696f1a8caf78912b704e4a8964");
    }
}
