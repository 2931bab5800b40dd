//! Exchange between lanes.

use super::decoder::{Decoded, Decoder};
use crate::program::{File, NONE, Op, Shuffle};
use ptx::{
    ActiveMask, BarWarpSync, Dest, Elect, Match, MatchOp, Redux, Shfl, Type, Visit, Vote, VoteOp,
};

impl Visit<Shfl> for Decoder<'_> {
    fn visit(&mut self, i: &Shfl) -> Decoded {
        let in_range = match i.dst.second {
            Some(Dest::Reg(reg)) => self.predicate_reg(reg)?,
            _ => NONE,
        };
        let shuffle = Shuffle {
            mode: i.mode,
            dst: self.target(i.dst.first, Type::B32)?,
            in_range,
            src: self.source(i.a, Type::B32)?,
            lane: self.source(i.lane, Type::B32)?,
            clamp: self.source(i.clamp, Type::B32)?,
            members: self.source(i.mask, Type::B32)?,
        };
        self.push(Op::Shuffle(Box::new(shuffle)));
        Ok(())
    }
}

impl Visit<Vote> for Decoder<'_> {
    fn visit(&mut self, i: &Vote) -> Decoded {
        let (src, flip) = self.condition(i.src)?;
        let members = self.source(i.mask, Type::B32)?;
        let ty = if i.op == VoteOp::Ballot {
            Type::B32
        } else {
            Type::Pred
        };
        let dst = self.target(i.dst, ty)?;
        self.push(Op::Vote {
            kind: i.op,
            dst,
            src,
            flip,
            members,
        });
        Ok(())
    }
}

impl Visit<Match> for Decoder<'_> {
    fn visit(&mut self, i: &Match) -> Decoded {
        let members = self.source(i.mask, Type::B32)?;
        let second = match i.dst.second {
            Some(dest) => self.target(dest, Type::Pred)?,
            None => NONE,
        };
        let (file, src) = (Self::file(i.ty), self.source(i.a, i.ty)?);
        let dst = self.target(i.dst.first, Type::B32)?;
        self.push(Op::Match {
            all: i.op == MatchOp::All,
            file,
            dst,
            second,
            src,
            members,
        });
        Ok(())
    }
}

impl Visit<ActiveMask> for Decoder<'_> {
    fn visit(&mut self, i: &ActiveMask) -> Decoded {
        let dst = self.target(i.dst, Type::B32)?;
        self.push(Op::ActiveMask { dst });
        Ok(())
    }
}

impl Visit<Redux> for Decoder<'_> {
    fn visit(&mut self, i: &Redux) -> Decoded {
        let members = self.source(i.mask, Type::B32)?;
        let src = self.source(i.src, i.ty)?;
        let dst = self.target(i.dst, i.ty)?;
        self.push(Op::Redux {
            op: i.op,
            signed: i.ty == Type::S32,
            dst,
            src,
            members,
        });
        Ok(())
    }
}

impl Visit<Elect> for Decoder<'_> {
    fn visit(&mut self, i: &Elect) -> Decoded {
        let members = self.source(i.mask, Type::B32)?;
        let dst = self.target(i.dst.first, Type::B32)?;
        let predicate = match i.dst.second {
            Some(dest) => self.target(dest, Type::Pred)?,
            None => self.new_slots(File::Predicate, 1),
        };
        self.push(Op::Elect {
            dst,
            predicate,
            members,
        });
        Ok(())
    }
}

impl Visit<BarWarpSync> for Decoder<'_> {
    fn visit(&mut self, i: &BarWarpSync) -> Decoded {
        let members = self.source(i.mask, Type::B32)?;
        self.push(Op::WarpSync { members });
        Ok(())
    }
}
