//! Deadlines against a list of them.

use proptest::collection::vec;
use proptest::prelude::*;

use super::Deadlines;
use crate::time::Timestamp;

#[derive(Clone, Debug)]
enum Step {
    Set(u32, Timestamp),
    /// Many, compared once.
    SetAll(Vec<(u32, Timestamp)>),
    MeetDue(Timestamp),
}

fn instant() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        1 => Just(Timestamp::MAX),
        1 => Just(Timestamp::ZERO),
        6 => (0_u64..30).prop_map(Timestamp::from_millis),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let place = prop_oneof![3 => 0_u32..20, 2 => 0_u32..300, 1 => 0_u32..5_000];
    prop_oneof![
        6 => (place.clone(), instant()).prop_map(|(place, deadline)| Step::Set(place, deadline)),
        1 => vec((place, instant()), 0..50).prop_map(Step::SetAll),
        1 => (0_u64..30).prop_map(|now| Step::MeetDue(Timestamp::from_millis(now))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn deadlines_are_those_of_the_list(steps in vec(step(), 1..200)) {
        let mut deadlines = Deadlines::default();
        let mut list = vec![Timestamp::MAX; 5_000];
        for step in steps {
            match step {
                Step::Set(place, deadline) => {
                    deadlines.set(place, deadline);
                    list[place as usize] = deadline;
                }
                Step::SetAll(all) => {
                    deadlines.fall_behind();
                    for (place, deadline) in all {
                        deadlines.set(place, deadline);
                        list[place as usize] = deadline;
                    }
                    deadlines.catch_up();
                }
                Step::MeetDue(now) => {
                    let due = (0_u32..).zip(&list).filter(|(_, deadline)| **deadline <= now);
                    let due: Vec<u32> = due.map(|(place, _)| place).collect();
                    let mut found = vec![u32::MAX];
                    deadlines.due(now, &mut found);
                    prop_assert_eq!(&found[1..], due.as_slice());
                    let next = deadlines.first_due(now);
                    prop_assert_eq!(next.is_some(), !due.is_empty());
                    let earliest = list.iter().min();
                    prop_assert!(next.is_none_or(|it| Some(&list[it as usize]) == earliest));
                    for place in due {
                        deadlines.set(place, Timestamp::MAX);
                        list[place as usize] = Timestamp::MAX;
                    }
                }
            }
            prop_assert_eq!(Some(deadlines.earliest()), list.iter().copied().min());
        }
    }
}
