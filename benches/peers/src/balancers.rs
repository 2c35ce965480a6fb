//! Load balancers and a limiter that hosts use today. None of them ranks; only tower counts what
//! is in flight, and only pingora's ketama and this crate give a caller its own place.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use criterion::Criterion;
use governor::{Quota, RateLimiter};
use pingora_load_balancing::LoadBalancer;
use pingora_load_balancing::selection::{BackendIter, BackendSelection, Consistent, RoundRobin};
use tower::Service;
use tower::balance::p2c::Balance;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, PendingRequestsDiscover};

use crate::floor::LARGEST;
use crate::groups::{by_size, sizes};
use crate::workload::requests::caller;

fn shared_sizes() -> Vec<usize> {
    sizes().into_iter().filter(|&size| size <= LARGEST).collect()
}

fn balancer<S>(backends: usize) -> LoadBalancer<S>
where
    S: BackendSelection + 'static,
    S::Iter: BackendIter,
{
    let first = u32::from(Ipv4Addr::new(10, 0, 0, 0));
    let address = |n: usize| (Ipv4Addr::from(first + u32::try_from(n).unwrap()), 443);
    LoadBalancer::try_from_iter((0..backends).map(address)).unwrap()
}

/// Picks a backend: there is nothing to release.
pub(crate) fn pingora(c: &mut Criterion) {
    by_size(c, "peers/pingora-round-robin", &shared_sizes(), |backends| {
        let balancer = balancer::<RoundRobin>(backends);
        move || balancer.select(b"", 256).unwrap()
    });
    by_size(c, "peers/pingora-ketama", &shared_sizes(), |backends| {
        let balancer = balancer::<Consistent>(backends);
        let keys: Vec<String> = (0..4_096).map(|number| caller(number).0).collect();
        let mut next = 0;
        move || {
            next = (next + 1) % keys.len();
            balancer.select(keys[next].as_bytes(), 256).unwrap()
        }
    });
}

/// A service that is always ready and answers at once.
struct Upstream;

impl Service<()> for Upstream {
    type Response = ();
    type Error = Infallible;
    type Future = Ready<Result<(), Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(Ok(()))
    }
}

/// Picks the less loaded of two services drawn by chance, and completes the request.
pub(crate) fn tower_p2c(c: &mut Criterion) {
    by_size(c, "peers/tower-p2c", &shared_sizes(), |services| {
        let list = ServiceList::new::<()>((0..services).map(|_| Upstream));
        let mut balance =
            Balance::new(PendingRequestsDiscover::new::<()>(list, CompleteOnResponse::default()));
        move || {
            let mut context = Context::from_waker(Waker::noop());
            let Poll::Ready(Ok(())) = balance.poll_ready(&mut context) else {
                panic!("all services are ready");
            };
            let response = pin!(balance.call(()));
            let Poll::Ready(Ok(())) = response.poll(&mut context) else {
                panic!("services answer at once");
            };
        }
    });
}

/// Asks whether one more request is allowed: of all, and of each account in turn.
pub(crate) fn governor_check(c: &mut Criterion) {
    let unlimited = Quota::per_second(NonZeroU32::MAX);
    by_size(c, "peers/governor-direct", &[1], |_| {
        let limiter = RateLimiter::direct(unlimited);
        move || limiter.check().unwrap()
    });
    by_size(c, "peers/governor-keyed", &shared_sizes(), |accounts| {
        let limiter = RateLimiter::keyed(unlimited);
        let accounts = u32::try_from(accounts).unwrap();
        let mut next = 0;
        move || {
            next = (next + 1) % accounts;
            limiter.check_key(&next).unwrap()
        }
    });
}
