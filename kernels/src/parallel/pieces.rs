//! Pieces that one warp moves from memory of its rank to that of another, through a small ring in shared memory: loads by TMA, bulk stores.

use tilekit::prelude::*;

use super::mail::Mail;

/// The places of the ring, and the mbarriers of the loads into them.
#[derive(Clone, Copy)]
pub(crate) struct Pieces {
    arrived: Mbarriers,
    /// Places.
    places: usize,
    /// Pieces that are being loaded while others are sent.
    lag: usize,
}

impl Pieces {
    pub(crate) fn alloc(places: usize, lag: usize) -> Pieces {
        Pieces {
            arrived: Mbarriers::alloc(places, Arrivals(1)).labelled("arrived"),
            places,
            lag,
        }
    }

    /// Moves so many pieces, behind `before` others. `load` issues the load of a piece into a place, with its mbarrier, and `store` stores from there; behind each store the warp rests for `pause` nanoseconds. All are stored when it returns.
    #[device]
    pub(crate) fn send(
        self,
        mail: Mail,
        (before, count): (Scalar<i32>, Scalar<i32>),
        pause: Scalar<i32>,
        load: impl Fn(Scalar<i32>, Scalar<i32>, Mbarrier),
        store: impl Fn(Scalar<i32>, Scalar<i32>),
    ) {
        for number in range(0, count + self.lag) {
            if number < count {
                // What was stored from this place has been read.
                tma_store_wait_read(self.places - 1 - self.lag);
                let place = (before + number) % self.places;
                load(number, place, self.arrived.index(place));
            }
            if number >= self.lag {
                let (number, of_all) = (number - self.lag, before + number - self.lag);
                let place = of_all % self.places;
                self.arrived.index(place).wait(of_all / self.places % 2);
                store(number, place);
                mail.rest(pause);
            }
        }
        tma_store_wait(0);
    }
}
