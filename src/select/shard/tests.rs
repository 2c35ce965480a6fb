//! Distances against the library's logarithm.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Distance, Nearest, TWO_TO_63, negative_ln, to_float};

/// Hashes of all sizes.
fn hash() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0_u32..64).prop_map(|(bits, shift)| bits >> shift)
}

fn distance() -> impl Strategy<Value = Distance> {
    let weight = prop_oneof![Just(1_000), 1_u64..5, 1_u64..1_000_000];
    (prop_oneof![any::<u64>(), hash()], weight).prop_map(|(hash, weight)| Distance { hash, weight })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_logarithm_is_that_of_the_library(hash in prop_oneof![hash(), hash().prop_map(|it| !it)]) {
        let exact = if hash < 1 << 63 {
            -(to_float(hash.max(1)) / TWO_TO_63 / 2.0).ln()
        } else {
            -(-to_float(0_u64.wrapping_sub(hash)) / TWO_TO_63 / 2.0).ln_1p()
        };
        let error = (negative_ln(hash) - exact).abs();
        prop_assert!(error <= 1e-13 * exact.max(1e-3), "{hash}: {error} of {exact}");
    }

    #[test]
    fn what_takes_no_logarithm_is_not_the_nearest(distances in vec(distance(), 1..70)) {
        let mut nearest = Nearest::default();
        for (index, &distance) in distances.iter().enumerate() {
            nearest.offer(distance, index);
        }
        let all = distances.iter().enumerate();
        let expected = all.min_by_key(|&(_, distance)| *distance).map(|(index, _)| index);
        prop_assert_eq!(nearest.found(), expected);
    }
}
